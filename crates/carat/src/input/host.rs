//! The Ruby trees of this host, with the command that helps most with each.

use crate::input::ExplainError;
use carat_analysis::next_command;
use carat_model::host::HostTrees;
use carat_proc::observe::{HostLook, ruby_trees};
use carat_proc::process::{ProcError, ProcRoot};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time in which proportional memory is read.
const LONGEST: Duration = Duration::from_secs(5);

/// The trees at this moment; of a process the one that it is in.
pub fn host_trees(root: &ProcRoot, now: SystemTime, only: Option<u32>) -> HostTrees {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let up = Some(since_boot());
    let mut host = ruby_trees(root, HostLook { longest: LONGEST, now_ms, up, only });
    for tree in &mut host.trees {
        (tree.next, tree.why) = next_command(tree);
    }
    host
}

/// The time since this machine was started, with that in which it slept.
pub fn since_boot() -> Duration {
    // Only a time before the start would be none.
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Why a process is in no tree.
pub fn in_no_tree(root: &ProcRoot, pid: u32) -> String {
    match root.identify_program(pid) {
        Ok(_) => format!("process {pid} is in no Ruby tree; `carat ps` lists them"),
        // It may never have been there.
        Err(ProcError::Ended(pid)) => ExplainError::NoProcess(pid).to_string(),
        Err(error) => error.to_string(),
    }
}
