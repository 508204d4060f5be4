//! Copies the memory of a process again and again, as a census with owners does: for `bin/bench inside`.
//!
//! `read_all PID SECONDS [MICROSECONDS]`: how long, and how long without a pause.

use carat_outside::census::LookOptions;
use carat_outside::live::{LiveMemory, Pacing};
use carat_outside::snapshot::Snapshot;
use std::time::{Duration, Instant};

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
    while Instant::now() < end {
        let live = LiveMemory::open(&options.proc, process, Pacing::of(burst))?;
        if Snapshot::take(live, options.copy_limit).is_err() {
            return Err("the process is too large".into());
        }
    }
    Ok(())
}
