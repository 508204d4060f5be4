//! The limit of file sizes that this process was started with (`ulimit -f`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Makes writes beyond the limit of file sizes fail. Otherwise they would end this process (SIGXFSZ, setrlimit(2)), and nothing
/// would be cleaned up. A handler rather than ignoring the signal, because programs that are executed inherit the latter.
pub(crate) fn fail_writes_beyond_limit() {
    // Nobody asks for the flag. Where there is no handler, the limit ends this process as it would any other.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
