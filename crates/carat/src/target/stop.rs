//! Stopping a whole tree, and proving that nobody is left.

use crate::process::{Identity, Stat, Tree};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How a tree was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Whether TERM was not enough.
    pub forced: bool,
    /// Who still runs after KILL, by name; empty unless the kernel holds them.
    pub left: Vec<String>,
}

/// TERM to the leader and to whoever it leaves behind, then, after `grace`, KILL to everybody; `poll` is called
/// while waiting, to collect the leader's exit status.
pub fn stop(tree: &mut Tree, grace: Duration, mut poll: impl FnMut()) -> Stopped {
    let mut asked = HashSet::new();
    let ended = wait_until_empty(tree, grace, &mut poll, |members| {
        for identity in roots(members).filter(|root| asked.insert(*root)) {
            signal(identity, Signal::TERM);
        }
    });
    if ended {
        return Stopped { forced: false, left: Vec::new() };
    }
    // New children may be forked between the look and the blow, so look again until nobody is left.
    wait_until_empty(tree, Duration::from_secs(10), &mut poll, |members| {
        for member in members {
            signal(member.identity(), Signal::KILL);
        }
    });
    let left = tree.members().iter().map(|stat| format!("{} ({})", stat.comm, stat.pid)).collect();
    Stopped { forced: true, left }
}

/// Members whose parent is none: a server ends its own children, and nobody else ends these.
fn roots(members: &[Stat]) -> impl Iterator<Item = Identity> {
    let has_parent = |stat: &Stat| members.iter().any(|other| other.pid == stat.parent);
    members.iter().filter(move |stat| !has_parent(stat)).map(Stat::identity)
}

fn wait_until_empty(
    tree: &mut Tree,
    limit: Duration,
    poll: &mut impl FnMut(),
    mut act: impl FnMut(&[Stat]),
) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        poll();
        collect_orphans(tree);
        let members = tree.members();
        if members.is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        act(&members);
        sleep(Duration::from_millis(10));
    }
}

/// Collects the exit statuses of dead orphans, which would otherwise stay as zombies of carat.
fn collect_orphans(tree: &Tree) {
    for pid in tree.dead_orphans() {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let _ = waitpid(pid, WaitOptions::NOHANG);
    }
}

pub(crate) fn signal(identity: Identity, signal: Signal) {
    let raw = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = raw {
        // It may have ended meanwhile, which is what was wanted.
        let _ = kill_process(pid, signal);
    }
}
