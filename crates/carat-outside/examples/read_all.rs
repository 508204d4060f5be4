//! Reads the memory of a process again and again, as a census does: for `bin/bench inside`.
//!
//! `read_all PID SECONDS [MICROSECONDS]`: how long, and how long without a pause.

use carat_outside::census::LookOptions;
use carat_outside::live::{LiveMemory, Pacing};
use carat_outside::memory::{Memory, PAGE};
use std::time::{Duration, Instant};

/// Pages that are read at once.
const RUN_PAGES: u64 = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let process: u32 = arguments.next().ok_or("which process?")?.parse()?;
    let seconds: f64 = arguments.next().ok_or("how many seconds?")?.parse()?;
    let options = LookOptions::default();
    let burst = match arguments.next() {
        Some(text) => Duration::from_micros(text.parse()?),
        None => options.max_pause,
    };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut bytes = vec![0; (RUN_PAGES * PAGE) as usize];
    while Instant::now() < end {
        let live = LiveMemory::open(&options.proc, process, Pacing::of(burst))?;
        for region in live.regions() {
            for (first, count) in region.pages.runs(RUN_PAGES) {
                // A page may be gone by now.
                live.read(region.start + first * PAGE, &mut bytes[..(count * PAGE) as usize]);
            }
        }
    }
    Ok(())
}
