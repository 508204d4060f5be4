//! A process that mapped much more memory than it has: reading it takes no more than what it has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use carat_outside::live::{LiveMemory, Pacing};
use carat_outside::memory::{Memory, PAGE};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

/// Bytes of each mapping.
const MAPPED: usize = 1 << 30;

fn map() -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // Without reserve, so that the kernel joins it with no other mapping.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address that the kernel chooses; it stays until the process ends.
    unsafe { mmap_anonymous(null_mut(), MAPPED, access, flags) }.unwrap().cast()
}

fn own_memory() -> LiveMemory {
    let pacing = Pacing::of(Duration::from_secs(1));
    LiveMemory::open(Path::new("/proc"), std::process::id(), pacing).unwrap()
}

#[test]
fn pages_that_were_read_and_never_written_are_left_out_and_the_rest_is_found() {
    let untouched = map();
    let before = own_memory().extent();
    assert_eq!(before.unsearched, 0, "memory that was never touched costs nothing: {before:?}");
    let zero = map();
    for page in (0..MAPPED).step_by(PAGE as usize) {
        // SAFETY: the page is mapped and may be read.
        assert_eq!(unsafe { zero.add(page).read_volatile() }, 0);
    }
    let kept = vec![7_u8; 8 << 20];
    let memory = own_memory();
    let extent = memory.extent();
    assert!(extent.unsearched >= MAPPED as u64 && extent.present < 1 << 28, "{extent:?}");
    assert_eq!(memory.copy(kept.as_ptr() as u64, 16), Some(vec![7; 16]));
    assert!(memory.copy(zero as u64, 8).is_none() && memory.copy(untouched as u64, 8).is_none());
}

#[test]
fn after_its_time_nothing_more_is_read_and_that_is_said() {
    let pacing = Pacing { longest: Some(Duration::ZERO), ..Pacing::of(Duration::from_secs(1)) };
    let memory = LiveMemory::open(Path::new("/proc"), std::process::id(), pacing).unwrap();
    let number = 7_u64;
    assert_eq!(memory.word(&raw const number as u64), None);
    let stopped = memory.stopped().unwrap();
    assert!(stopped.to_string().starts_with("stopped after 0 s: 0 MB were read of a process"));
}
