//! Panic guards for functions that C calls.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends every panic inside one library. After the first panic nothing of the library runs any more.
#[derive(Debug)]
pub struct PanicGuard {
    is_broken: AtomicBool,
    /// Called once, after the first panic. It must not panic.
    report: fn(),
}

impl PanicGuard {
    /// A guard that calls `report` after the first panic.
    pub const fn new(report: fn()) -> Self {
        Self { is_broken: AtomicBool::new(false), report }
    }

    /// Runs `body` and returns its result, or `otherwise` after a panic, now or earlier.
    pub fn run<T>(&self, otherwise: T, body: impl FnOnce() -> T) -> T {
        if self.is_broken.load(Ordering::Relaxed) {
            return otherwise;
        }
        panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            if !self.is_broken.swap(true, Ordering::Relaxed) {
                (self.report)();
            }
            otherwise
        })
    }
}

/// Keeps panics from printing a backtrace into the server's log.
///
/// The hook belongs to this library's own copy of the standard library; a Rust extension of the server has another.
pub fn silence_panics() {
    panic::set_hook(Box::new(|_| {}));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    static REPORTS: AtomicU32 = AtomicU32::new(0);
    static GUARD: PanicGuard = PanicGuard::new(|| _ = REPORTS.fetch_add(1, Ordering::Relaxed));

    #[test]
    fn nothing_runs_after_the_first_panic_and_it_is_reported_once() {
        assert_eq!(GUARD.run(0, || 7), 7);
        assert_eq!(GUARD.run(-1, || panic!("on purpose")), -1);
        assert_eq!(GUARD.run(-1, || 7), -1);
        assert_eq!(REPORTS.load(Ordering::Relaxed), 1);
    }
}
