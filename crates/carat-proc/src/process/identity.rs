//! The identity of a process: its pid and its start time, because the kernel reuses pids.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One process, distinguished from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (proc_pid_stat(5), field 22).
    pub start_ticks: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)
    }
}
