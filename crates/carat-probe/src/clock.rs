//! Clocks in nanoseconds, without an allocation.

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one that Linux always has, and `time` outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
pub(crate) fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time of this thread.
pub(crate) fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}
