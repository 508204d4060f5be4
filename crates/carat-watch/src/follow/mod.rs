//! Follows every Ruby of a host, in rounds: who is there, how large, what is due, and who has gone.
//!
//! A round reads little: the list of processes, `stat` of each, `status` of the Rubies, and the figures of their control groups.
//! Proportional memory and readings of a Ruby's memory are taken as far as the allowance of processor time reaches.

mod allowance;
mod due;
mod finder;
mod found;
mod gone;
mod hour;
mod round;
mod state;

pub use state::{FollowOptions, Follower, Moment, Round};

use crate::ending::ExitStatus;
use carat_model::watch::{CensusReason, WatchCensus};
use carat_proc::process::Identity;
use std::time::Duration;

/// How a process is to be read.
#[derive(Debug, Clone, Copy)]
pub struct CensusOrder<'a> {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    pub reason: CensusReason,
    /// The reading before it.
    pub before: Option<&'a WatchCensus>,
    /// Whether there is time left to find out who keeps what grew.
    pub may_search: bool,
}

/// What a follower needs of the kernel beside `/proc`; made up in tests.
pub trait Senses {
    /// Processor time of this process so far.
    fn cpu(&self) -> Duration;
    /// Reads the memory of a process.
    fn census(&mut self, process: Identity, order: &CensusOrder<'_>) -> WatchCensus;
    /// Prepares for the end of a process.
    fn attend(&mut self, process: Identity);
    /// How a process ended; `None` where that is unknown.
    fn status(&mut self, process: Identity) -> Option<ExitStatus>;
    /// Whether the kernel's log says that it killed a process; `None` where the log cannot be read.
    fn in_log(&mut self, process: Identity) -> Option<bool>;
}

#[cfg(test)]
pub(crate) mod tests;
