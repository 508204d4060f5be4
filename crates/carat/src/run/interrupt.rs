//! The user's request to stop.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks at the count.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Counts the user's requests to stop. The first means "clean up", the second "at once".
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Counts SIGINT, SIGTERM and SIGHUP as requests to stop from now on, except those that carat was started to ignore:
    /// nohup(1) ignores SIGHUP for it, and a shell without job control SIGINT in the background (POSIX, 2.11).
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::default();
        let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
        let mut signals = Signals::new(heeded)?;
        // A thread counts, because a signal handler may do next to nothing (signal-safety(7)).
        let counted = interrupt.clone();
        std::thread::spawn(move || signals.forever().for_each(|_| counted.request()));
        Ok(interrupt)
    }

    /// Counts one request.
    pub fn request(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the user requested to stop.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether the user requests to stop within this time. Returns as soon as that is known.
    pub fn requested_within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.requested() && Instant::now() < end {
            sleep(LOOK_EVERY);
        }
        self.requested()
    }

    /// `grace`, or nothing if the user requested to stop at once.
    pub(crate) fn grace(&self, grace: Duration) -> Duration {
        if self.requested_again() { Duration::ZERO } else { grace }
    }

    /// Whether the user requested it more than once.
    pub fn requested_again(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}

/// Whether this process ignores a signal, as it does after `exec` where its parent did.
fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes to the buffer, of which zeros are a valid value should it fail.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_ignored_only_where_it_was_asked_to_be() {
        // The standard library ignores SIGPIPE in every program before `main`.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
    }
}
