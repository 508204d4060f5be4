//! The Ruby trees of this host, with the command that helps most with each.

use carat_analysis::next_command;
use carat_model::host::HostTrees;
use carat_proc::observe::{HostLook, ruby_trees};
use carat_proc::process::ProcRoot;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time in which proportional memory is read.
const LONGEST: Duration = Duration::from_secs(5);

/// The trees at this moment; of a process the one that it is in.
pub fn host_trees(root: &ProcRoot, now: SystemTime, only: Option<u32>) -> HostTrees {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let up = Duration::try_from(clock_gettime(ClockId::Boottime)).ok();
    let mut host = ruby_trees(root, HostLook { longest: LONGEST, now_ms, up, only });
    for tree in &mut host.trees {
        (tree.next, tree.why) = next_command(tree);
    }
    host
}
