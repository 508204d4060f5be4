//! Queries and actions that need system calls.

use std::sync::atomic::{AtomicI32, Ordering};

/// Whether this process has a listening socket.
///
/// It queries each descriptor instead of reading `/proc`, which a container may hide.
pub(crate) fn is_listening() -> bool {
    // SAFETY: sysconf accesses no memory of ours.
    let most = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) }.clamp(64, 4096);
    (0..most as libc::c_int).any(listens)
}

fn listens(descriptor: libc::c_int) -> bool {
    let mut is_listening: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the result has the given size; a descriptor that is not a socket gives an error.
    let error = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut is_listening).cast(),
            &raw mut size,
        )
    };
    error == 0 && is_listening == 1
}

/// Resident memory of this process in bytes; `None` without `/proc`. Allocates nothing.
pub(crate) fn resident() -> Option<u64> {
    let mut text = [0u8; 128];
    // SAFETY: the path ends with NUL, the buffer has the given size, the descriptor is closed here.
    let read = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = std::str::from_utf8(text.get(..usize::try_from(read).ok()?)?).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: sysconf accesses no memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page).ok()?)
}

/// `PR_SET_MEMORY_MERGE` of linux/prctl.h, Linux 6.4.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;

/// Allows the kernel to merge this process's pages with equal pages; `false` if it cannot.
pub(crate) fn allow_merging() -> bool {
    // SAFETY: this prctl takes numbers only.
    unsafe { libc::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) == 0 }
}

/// Allows or forbids huge pages for this process; `false` if the kernel cannot.
pub(crate) fn set_huge_pages(allowed: bool) -> bool {
    // SAFETY: this prctl takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!allowed), 0, 0, 0) == 0 }
}

/// The kernel's number of the timer; -1 if there is none. A forked child has no timers.
static TIMER: AtomicI32 = AtomicI32::new(-1);

/// Time between two ticks: rare enough for system calls that a signal interrupts.
const TICK_NS: libc::c_long = 250_000_000;

/// Sends this process a signal some times per second until `stop_ticks`; `false` if the kernel has no such timer.
///
/// The kernel ends the timer, and removes its pending signal, when the process executes another program. The C library's
/// functions are not used: before glibc 2.34 they are in a library of their own.
pub(crate) fn start_ticks(signal: libc::c_int) -> bool {
    stop_ticks();
    let step = libc::timespec { tv_sec: 0, tv_nsec: TICK_NS };
    let times = libc::itimerspec { it_interval: step, it_value: step };
    let mut timer: libc::c_int = -1;
    // SAFETY: the event is a plain structure of which zero is a value; the kernel reads it and the times, and writes the
    // number of the timer.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        let clock = libc::CLOCK_MONOTONIC;
        libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut timer) == 0 && {
            TIMER.store(timer, Ordering::Relaxed);
            let unused: *mut libc::itimerspec = std::ptr::null_mut();
            libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const times, unused) == 0
        }
    }
}

/// Ends the timer.
pub(crate) fn stop_ticks() {
    let timer = TIMER.swap(-1, Ordering::Relaxed);
    if timer >= 0 {
        // SAFETY: the call takes a number; in a forked child, which has no timers, it fails.
        unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
    }
}
