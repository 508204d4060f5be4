//! Which processes belong to a server, however it forks.
//!
//! Membership uses four signs, because each alone can fail: descent (lost by a double fork), the session (lost
//! by `setsid`), the token in the environment (Ruby's `$0=` overwrites the memory that `/proc/PID/environ`
//! shows), and being an orphan that the kernel reparented to us as subreaper.

use crate::process::{Identity, ProcRoot, Stat};
use std::collections::{HashMap, HashSet};

/// A server's processes. Members of an earlier scan remain members for as long as they live.
#[derive(Debug, Clone)]
pub struct Tree {
    root: ProcRoot,
    leader: Identity,
    leader_only: bool,
    token: String,
    subreaper: Option<Subreaper>,
    known: HashSet<Identity>,
    foreign: HashSet<Identity>,
}

/// The process that adopts orphans, and those of its children that are not part of the tree.
#[derive(Debug, Clone)]
struct Subreaper {
    pid: u32,
    excluded: HashSet<u32>,
}

impl Tree {
    /// The tree of `leader`, whose environment carries `token`, or `token/` and more, in `CARAT_TOKEN`.
    pub fn new(root: ProcRoot, leader: Identity, token: impl Into<String>) -> Self {
        let (known, foreign) = (HashSet::from([leader]), HashSet::new());
        Self {
            root,
            leader,
            leader_only: false,
            token: token.into(),
            subreaper: None,
            known,
            foreign,
        }
    }

    /// Limits the tree to the leader.
    pub fn leader_only(mut self) -> Self {
        self.leader_only = true;
        self
    }

    /// Includes orphans that the kernel reparents to `subreaper`, except its children in `others`.
    pub fn with_subreaper(mut self, subreaper: u32, others: impl IntoIterator<Item = u32>) -> Self {
        self.subreaper = Some(Subreaper { pid: subreaper, excluded: others.into_iter().collect() });
        self
    }

    /// Excludes one more child of the subreaper, such as a load generator that was just started.
    pub fn exclude(&mut self, pid: u32) {
        if let Some(subreaper) = &mut self.subreaper {
            subreaper.excluded.insert(pid);
        }
    }

    /// The process that was started first.
    pub fn leader(&self) -> Identity {
        self.leader
    }

    /// Scans for the current members in the order of their start, without zombies.
    pub fn members(&mut self) -> Vec<Stat> {
        let stats: HashMap<u32, Stat> = self
            .root
            .pids()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| Some((pid, self.root.stat(pid).ok()?)))
            .collect();
        // Without this a long recording would leak: the sets would only grow.
        let present: HashSet<Identity> = stats.values().map(Stat::identity).collect();
        self.known.retain(|identity| present.contains(identity));
        self.foreign.retain(|identity| present.contains(identity));
        let mut members: Vec<Stat> = stats
            .values()
            .filter(|stat| !stat.is_dead() && self.is_member(stat, &stats))
            .cloned()
            .collect();
        members.sort_by_key(|stat| (stat.start_ticks, stat.pid));
        members
    }

    /// Orphans of the tree that have ended and that the subreaper must still wait for.
    pub fn dead_orphans(&self) -> Vec<u32> {
        let Some(subreaper) = &self.subreaper else { return Vec::new() };
        let pids = self.root.pids().unwrap_or_default();
        pids.into_iter()
            .filter_map(|pid| self.root.stat(pid).ok())
            .filter(|stat| stat.is_dead() && stat.parent == subreaper.pid)
            .filter(|stat| stat.pid != self.leader.pid && !subreaper.excluded.contains(&stat.pid))
            .map(|stat| stat.pid)
            .collect()
    }

    fn is_member(&mut self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        let identity = stat.identity();
        if self.leader_only || self.known.contains(&identity) {
            return self.known.contains(&identity);
        }
        let is_member = self.descends(stat, stats)
            || self.shares_session(stat, stats)
            || self.adopted(stat)
            || self.carries_token(identity);
        if is_member {
            self.known.insert(identity);
        }
        is_member
    }

    fn shares_session(&self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        // A session keeps its number after its leader has ended. Once another process has that pid, the
        // session is not the server's.
        let reused = stats.get(&self.leader.pid).is_some_and(|now| now.identity() != self.leader);
        stat.session == self.leader.pid && !reused
    }

    fn descends(&self, stat: &Stat, stats: &HashMap<u32, Stat>) -> bool {
        let mut at = stat;
        // The depth is bounded because parents read at different times can form a cycle.
        for _ in 0..stats.len() {
            let Some(parent) = stats.get(&at.parent) else { return false };
            if self.known.contains(&parent.identity()) {
                return true;
            }
            at = parent;
        }
        false
    }

    fn adopted(&self, stat: &Stat) -> bool {
        self.subreaper.as_ref().is_some_and(|subreaper| {
            stat.parent == subreaper.pid && !subreaper.excluded.contains(&stat.pid)
        })
    }

    fn carries_token(&mut self, identity: Identity) -> bool {
        // An environment changes only at exec, and a foreign process does not gain our token by exec.
        if self.foreign.contains(&identity) {
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
            self.foreign.insert(identity);
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
    fn children_sessions_tokens_and_orphans_are_members_and_other_processes_are_not() {
        let (_folder, root) = captured(&[
            (1, 0, 1, 1, ""),
            (10, 1, 10, 5, ""),                            // carat itself
            (20, 10, 20, 6, "CARAT_TOKEN=t"),              // the leader
            (21, 20, 20, 7, ""),                           // a worker
            (22, 21, 22, 8, ""),                           // a worker's child with its own session
            (23, 1, 20, 9, ""),                            // orphan of the same session
            (24, 1, 24, 10, "A=b CARAT_TOKEN=t/more Z=z"), // daemonised, found by its token
            (25, 10, 25, 11, ""),                          // orphan adopted by the subreaper
            (26, 10, 26, 12, "CARAT_TOKEN=other"),         // the load generator
            (27, 1, 27, 13, "CARAT_TOKEN=tt"), // an unrelated process with a longer token
        ]);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let mut tree = Tree::new(root, leader, "t").with_subreaper(10, [26]);
        assert_eq!(pids(&mut tree), [20, 21, 22, 23, 24, 25]);
    }

    #[test]
    fn a_tree_limited_to_its_leader_has_no_children() {
        let (_folder, root) = captured(&[(20, 1, 20, 6, "CARAT_TOKEN=t"), (21, 20, 20, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t").leader_only();
        assert_eq!(pids(&mut tree), [20]);
    }

    #[test]
    fn a_worker_remains_a_member_after_its_parent_has_died() {
        let (folder, root) = captured(&[(20, 1, 20, 6, ""), (21, 20, 21, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert_eq!(pids(&mut tree), [20, 21]);
        fs::remove_dir_all(folder.path().join("20")).unwrap();
        assert_eq!(pids(&mut tree), [21]);
    }

    #[test]
    fn a_session_whose_number_was_reused_as_a_pid_is_not_the_servers() {
        let (_folder, root) = captured(&[(20, 1, 20, 99, ""), (21, 20, 20, 100, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert!(pids(&mut tree).is_empty());
    }

    #[test]
    fn a_reused_pid_is_not_a_member() {
        let (folder, root) = captured(&[(20, 1, 20, 6, ""), (21, 20, 21, 7, "")]);
        let mut tree = Tree::new(root, Identity { pid: 20, start_ticks: 6 }, "t");
        assert_eq!(pids(&mut tree), [20, 21]);
        let again = "21 (cron) S 1 21 21 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 99 0";
        fs::write(folder.path().join("21/stat"), again).unwrap();
        assert_eq!(pids(&mut tree), [20]);
    }
}
