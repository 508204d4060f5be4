//! Faults stay inside: no panic crosses into C, and whatever must be said is one line on stderr.

use crate::own_page;
use carat_wire::page::{Feature, State};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first panic; nothing of the probe runs after it.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Runs `body` unless the probe broke before; a panic in it breaks the probe and nothing else.
pub(crate) fn guarded(body: impl FnOnce()) {
    if BROKEN.load(Ordering::Relaxed) {
        return;
    }
    if panic::catch_unwind(AssertUnwindSafe(body)).is_err() {
        BROKEN.store(true, Ordering::Relaxed);
        if let Some(page) = own_page::get() {
            page.header.set_feature(Feature::Ruby, State::Fault);
        }
        say("switched off", "a fault in the probe; please report it");
    }
}

/// Keeps a panic from printing a backtrace into the server's log.
///
/// The hook is that of this library's own copy of the standard library: a Rust extension of the server
/// has another.
pub(crate) fn install_quiet_hook() {
    panic::set_hook(Box::new(|_| {}));
}

/// Writes one line to stderr in a single call, without an allocation and whatever becomes of it.
pub(crate) fn say(what: &str, why: &str) {
    let parts = ["carat: probe: ", what, ": ", why, "\n"];
    let vectors = parts
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the vectors point to as many bytes as they say, and `writev` only reads them.
    unsafe { libc::writev(libc::STDERR_FILENO, vectors.as_ptr(), vectors.len() as libc::c_int) };
}
