//! Clocks in nanoseconds, without an allocation.

use std::time::Duration;

/// Reads a clock of the kernel.
pub fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours to write and outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `CLOCK_MONOTONIC` in nanoseconds, the same in all processes of a machine.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// Processor time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).as_nanos() as u64
}

/// Sleeps; a signal may end it early.
pub fn sleep(time: Duration) {
    let time = timespec(time);
    // SAFETY: the struct is ours and outlives the call.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// A duration as the kernel takes it.
pub fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        // Its type is that of the C library.
        tv_sec: time.as_secs() as _,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    }
}
