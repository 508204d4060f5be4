//! Stopping a whole process tree and checking that no process is left.

use crate::target::signal::signal;
use carat_proc::process::{Identity, Stat, Tree};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How a tree was stopped.
#[derive(Debug, Default)]
pub(crate) struct StopReport {
    /// Whether KILL was needed.
    pub(crate) forced: bool,
    /// Processes that still run after KILL, by name. Only the kernel can keep them alive.
    pub(crate) survivors: Vec<String>,
}

/// Sends TERM to the leader and to any process it leaves behind, then, after `grace`, KILL to all. `grace` is asked again and
/// again, as a user may lose patience, and TERM comes first even if there is none; `poll` is called while waiting, to collect
/// the leader's exit status.
pub(crate) fn stop(
    tree: &mut Tree,
    grace: impl Fn() -> Duration,
    mut poll: impl FnMut(),
) -> StopReport {
    let mut terminated = HashSet::new();
    // Once each: the loop looks again every ten milliseconds.
    let ended = wait_until_empty(tree, grace, &mut poll, |members| {
        for identity in roots(members).filter(|root| terminated.insert(*root)) {
            signal(identity, Signal::TERM);
        }
    });
    if ended {
        return StopReport::default();
    }
    // A child may fork between listing and killing, so repeat until the list is empty.
    wait_until_empty(
        tree,
        || Duration::from_secs(10),
        &mut poll,
        |members| {
            for member in members {
                signal(member.identity(), Signal::KILL);
            }
        },
    );
    let survivors =
        tree.members().iter().map(|stat| format!("{} ({})", stat.comm, stat.pid)).collect();
    StopReport { forced: true, survivors }
}

/// Members whose parent is not a member. A server ends its own children, but no process ends these.
fn roots(members: &[Stat]) -> impl Iterator<Item = Identity> {
    let pids: HashSet<u32> = members.iter().map(|stat| stat.pid).collect();
    members.iter().filter(move |stat| !pids.contains(&stat.parent)).map(Stat::identity)
}

fn wait_until_empty(
    tree: &mut Tree,
    limit: impl Fn() -> Duration,
    poll: &mut impl FnMut(),
    mut act: impl FnMut(&[Stat]),
) -> bool {
    let (begin, mut has_acted) = (Instant::now(), false);
    loop {
        poll();
        collect_orphans(tree);
        let members = tree.members();
        if members.is_empty() {
            return true;
        }
        // Once at least: also without any time each is told.
        if has_acted && begin.elapsed() >= limit() {
            return false;
        }
        act(&members);
        has_acted = true;
        sleep(Duration::from_millis(10));
    }
}

/// Collects the exit statuses of dead orphans, which would otherwise remain as zombies of carat.
fn collect_orphans(tree: &Tree) {
    for pid in tree.dead_orphans() {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // An error means that it was collected meanwhile.
        let _ = waitpid(pid, WaitOptions::NOHANG);
    }
}
