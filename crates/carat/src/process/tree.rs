//! Which processes belong to a server, however it forks.
//!
//! Four signs, because each alone fails: descent (lost by a double fork), the session (lost by
//! `setsid`), the token in the environment (Ruby's `$0=` overwrites the block that
//! `/proc/PID/environ` shows), and being an orphan whom the kernel gave to us as subreaper.

use crate::process::{Identity, ProcRoot, Stat};
use std::collections::{HashMap, HashSet};

/// A server's processes, remembered from one look to the next.
#[derive(Debug, Clone)]
pub struct Tree {
    root: ProcRoot,
    leader: Identity,
    alone: bool,
    token: String,
    reaper: Option<Reaper>,
    seen: HashSet<Identity>,
    strangers: HashSet<Identity>,
}

/// The subreaper that adopts orphans, and its children that belong to nobody's tree.
#[derive(Debug, Clone)]
struct Reaper {
    pid: u32,
    not_adopted: HashSet<u32>,
}

impl Tree {
    /// The tree of `leader`, whose environment carries `token`, or `token/` and more, in `CARAT_TOKEN`.
    pub fn new(root: ProcRoot, leader: Identity, token: impl Into<String>) -> Self {
        let (seen, strangers) = (HashSet::from([leader]), HashSet::new());
        Self { root, leader, alone: false, token: token.into(), reaper: None, seen, strangers }
    }

    /// Counts the leader and nobody else.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Counts orphans that the kernel gives to `reaper`, except its children in `others`.
    pub fn with_reaper(mut self, reaper: u32, others: impl IntoIterator<Item = u32>) -> Self {
        self.reaper = Some(Reaper { pid: reaper, not_adopted: others.into_iter().collect() });
        self
    }

    /// Leaves out one more child of the subreaper, such as a load generator that was just started.
    pub fn leave_out(&mut self, pid: u32) {
        if let Some(reaper) = &mut self.reaper {
            reaper.not_adopted.insert(pid);
        }
    }

    /// The process that was started first.
    pub fn leader(&self) -> Identity {
        self.leader
    }

    /// Who belongs to the tree now, zombies left out, in the order of their start.
    pub fn members(&mut self) -> Vec<Stat> {
        let stats: HashMap<u32, Stat> = self
            .root
            .pids()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| Some((pid, self.root.stat(pid).ok()?)))
            .collect();
        // Processes that ended make room: a set that only grows would be a leak in a long recording.
        let present: HashSet<Identity> = stats.values().map(Stat::identity).collect();
        self.seen.retain(|identity| present.contains(identity));
        self.strangers.retain(|identity| present.contains(identity));
        let mut ours: Vec<Stat> = stats
            .values()
            .filter(|stat| !stat.is_dead() && self.is_member(stat, &stats))
            .cloned()
            .collect();
        ours.sort_by_key(|stat| (stat.start_ticks, stat.pid));
        ours
    }

    /// Orphans of the tree that have ended and wait for the subreaper to collect them.
    pub fn dead_orphans(&self) -> Vec<u32> {
        let Some(reaper) = &self.reaper else { return Vec::new() };
        let pids = self.root.pids().unwrap_or_default();
        pids.into_iter()
            .filter_map(|pid| self.root.stat(pid).ok())
            .filter(|stat| stat.is_dead() && stat.parent == reaper.pid)
            .filter(|stat| stat.pid != self.leader.pid && !reaper.not_adopted.contains(&stat.pid))
            .map(|stat| stat.pid)
            .collect()
    }

    fn is_member(&mut self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        let identity = stat.identity();
        if self.alone || self.seen.contains(&identity) {
            return self.seen.contains(&identity);
        }
        let ours = self.descends(stat, stats)
            || self.shares_session(stat, stats)
            || self.adopted(stat)
            || self.carries_token(identity);
        if ours {
            self.seen.insert(identity);
        }
        ours
    }

    fn shares_session(&self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        // A session keeps its number after its leader's end; once the number is somebody else's pid, it is
        // no longer ours.
        let taken = stats.get(&self.leader.pid).is_some_and(|now| now.identity() != self.leader);
        stat.session == self.leader.pid && !taken
    }

    fn descends(&self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        let mut at = stat;
        // A tree deeper than the number of processes would be a circle in a text that changed under us.
        for _ in 0..stats.len() {
            let Some(parent) = stats.get(&at.parent) else { return false };
            if self.seen.contains(&parent.identity()) {
                return true;
            }
            at = parent;
        }
        false
    }

    fn adopted(&self, stat: &Stat) -> bool {
        self.reaper.as_ref().is_some_and(|reaper| {
            stat.parent == reaper.pid && !reaper.not_adopted.contains(&stat.pid)
        })
    }

    fn carries_token(&mut self, identity: Identity) -> bool {
        // An environment changes only at exec, and a stranger's exec does not bring our token.
        if self.strangers.contains(&identity) {
            return false;
        }
        let wanted = format!("{}={}", carat_wire::env::TOKEN, self.token);
        let found = self.root.read(identity.pid, "environ").is_ok_and(|environ| {
            let mut entries = environ.split(|&byte| byte == 0);
            entries.any(|entry| {
                let rest = entry.strip_prefix(wanted.as_bytes());
                rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
        });
        if !found {
            self.strangers.insert(identity);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// pid, parent, session, start, environment
    type Row = (u32, u32, u32, u64, &'static str);

    fn captured(rows: &[Row]) -> (tempfile::TempDir, ProcRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (pid, parent, session, start, environ) in rows {
            let path = folder.path().join(pid.to_string());
            fs::create_dir(&path).unwrap();
            let stat = format!(
                "{pid} (ruby) S {parent} {session} {session} 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start} 0"
            );
            fs::write(path.join("stat"), stat).unwrap();
            fs::write(path.join("environ"), environ.replace(' ', "\0")).unwrap();
        }
        let root = ProcRoot::new(folder.path());
        (folder, root)
    }

    fn pids(tree: &mut Tree) -> Vec<u32> {
        tree.members().iter().map(|stat| stat.pid).collect()
    }

    #[test]
    fn children_sessions_tokens_and_orphans_belong_and_strangers_do_not() {
        let (_folder, root) = captured(&[
            (1, 0, 1, 1, ""),
            (10, 1, 10, 5, ""),                            // carat itself
            (20, 10, 20, 6, "CARAT_TOKEN=t"),              // the leader
            (21, 20, 20, 7, ""),                           // a worker
            (22, 21, 22, 8, ""),                           // a worker's child with its own session
            (23, 1, 20, 9, ""),                            // orphan of the same session
            (24, 1, 24, 10, "A=b CARAT_TOKEN=t/more Z=z"), // daemonised, known by its token
            (25, 10, 25, 11, ""),                          // orphan given to the subreaper
            (26, 10, 26, 12, "CARAT_TOKEN=other"),         // the load generator
            (27, 1, 27, 13, "CARAT_TOKEN=tt"),             // a stranger with a longer token
        ]);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let mut tree = Tree::new(root, leader, "t").with_reaper(10, [26]);
        assert_eq!(pids(&mut tree), [20, 21, 22, 23, 24, 25]);
    }

    #[test]
    fn a_leader_alone_has_no_children() {
        let (_folder, root) = captured(&[(20, 1, 20, 6, "CARAT_TOKEN=t"), (21, 20, 20, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t").alone();
        assert_eq!(pids(&mut tree), [20]);
    }

    #[test]
    fn a_worker_whose_parent_died_is_still_remembered() {
        let (folder, root) = captured(&[(20, 1, 20, 6, ""), (21, 20, 21, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert_eq!(pids(&mut tree), [20, 21]);
        fs::remove_dir_all(folder.path().join("20")).unwrap();
        assert_eq!(pids(&mut tree), [21]);
    }

    #[test]
    fn a_session_whose_number_is_a_strangers_pid_now_is_not_ours() {
        let (_folder, root) = captured(&[(20, 1, 20, 99, ""), (21, 20, 20, 100, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert!(pids(&mut tree).is_empty());
    }

    #[test]
    fn a_pid_used_again_by_a_stranger_is_not_a_member() {
        let (folder, root) = captured(&[(20, 1, 20, 6, ""), (21, 20, 21, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert_eq!(pids(&mut tree), [20, 21]);
        let again = "21 (cron) S 1 21 21 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 99 0";
        fs::write(folder.path().join("21/stat"), again).unwrap();
        assert_eq!(pids(&mut tree), [20]);
    }
}
