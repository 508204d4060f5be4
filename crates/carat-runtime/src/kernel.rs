//! What only system calls can tell or do.

use std::time::Duration;

/// Whether this process holds a socket that listens.
///
/// Asks each descriptor instead of reading `/proc`, which a container may hide.
pub(crate) fn is_listening() -> bool {
    // SAFETY: sysconf reads nothing of ours.
    let most = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) }.clamp(64, 4096);
    (0..most as libc::c_int).any(listens)
}

fn listens(descriptor: libc::c_int) -> bool {
    let mut answer: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the answer has the size that is said; a descriptor that is no socket gives an error.
    let asked = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut answer).cast(),
            &raw mut size,
        )
    };
    asked == 0 && answer == 1
}

/// Resident memory of this process in bytes; `None` where `/proc` does not say. Allocates nothing.
pub(crate) fn resident() -> Option<u64> {
    let mut text = [0u8; 128];
    // SAFETY: the path ends with NUL, the buffer has the size that is said, the descriptor is closed.
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
    // SAFETY: sysconf reads nothing of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page).ok()?)
}

/// Reads a clock, as the time since its own beginning.
pub(crate) fn clock(clock: libc::clockid_t) -> Duration {
    carat_ruby::clock::read(clock)
}

/// Sleeps; a signal may end it early.
pub(crate) fn pause(time: Duration) {
    carat_ruby::clock::sleep(time);
}

/// `PR_SET_MEMORY_MERGE` of linux/prctl.h, Linux 6.4.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;

/// Lets the kernel merge this process's pages with equal ones; `false` where it cannot.
pub(crate) fn allow_merging() -> bool {
    // SAFETY: prctl with numbers only.
    unsafe { libc::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) == 0 }
}

/// Allows or forbids huge pages for this process; `false` where the kernel cannot.
pub(crate) fn set_huge_pages(allowed: bool) -> bool {
    // SAFETY: prctl with numbers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!allowed), 0, 0, 0) == 0 }
}
