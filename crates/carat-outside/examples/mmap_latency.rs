//! How long `mmap`, one write and `munmap` take in a process of some size, for `bin/bench inside`.
//!
//! `mmap_latency MEGABYTES SECONDS` prints its pid, then JSON with quantiles in microseconds. A process that is read from
//! outside shares its memory lock with the reader; this is what the process notices.

#![expect(clippy::print_stdout, reason = "printing is the purpose of this example")]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr;
use std::time::{Duration, Instant};

/// Bytes that are mapped and unmapped each time.
const PIECE: usize = 64 << 10;

fn map(length: usize) -> Result<*mut u8, rustix::io::Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping, which nothing else uses.
    let address = unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) };
    address.map(<*mut _>::cast)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().ok_or("how many megabytes?")?.parse()?;
    let seconds: f64 = arguments.next().ok_or("how many seconds?")?.parse()?;
    let held = map(megabytes << 20)?;
    // SAFETY: the mapping is that long and may be written.
    unsafe { held.write_bytes(1, megabytes << 20) };
    println!("{}", std::process::id());
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        let start = Instant::now();
        let piece = map(PIECE)?;
        // SAFETY: the mapping was just made, and is used no more after it is unmapped.
        unsafe {
            piece.write_volatile(1);
            munmap(piece.cast(), PIECE)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(Duration::from_micros(50));
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{{\"n\":{},\"p50\":{:.1},\"p99\":{:.1},\"longest\":{:.1}}}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
