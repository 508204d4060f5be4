//! The user's request to stop.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
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
    /// Counts SIGINT, SIGTERM and SIGHUP as requests to stop from now on.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
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

    /// Whether the user requested it more than once.
    pub fn requested_again(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}
