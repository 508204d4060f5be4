//! Queries and actions that need system calls.

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
