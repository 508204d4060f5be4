//! The user's wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often the user asked to stop; the first time means "clean up", the second "at once".
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Notes one more wish; safe to call from a signal handler.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the user asked at all.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether the user lost patience.
    pub fn impatient(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}
