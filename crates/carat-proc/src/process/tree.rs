//! Which processes belong to a server, however it forks.
//!
//! Membership uses four signs, because each alone can fail: descent (lost by a double fork), the session (lost
//! by `setsid`), the token in the environment (Ruby's `$0=` overwrites the memory that `/proc/PID/environ`
//! shows), and being an orphan that the kernel reparented to us as subreaper.
//!
//! An orphan alone says little: services and commands beside the server leave orphans too. Each of them carries its own
//! token, so an orphan is the server's only if nothing shows that it is another's. What shares our own session is no orphan:
//! the server has left it by setsid(2), and no process can enter a session that exists.

use crate::process::{Identity, ProcRoot, Stat};
use std::collections::{BTreeMap, HashMap, HashSet};
use tracing::{debug, trace};

/// A server's processes. Members of an earlier scan remain members for as long as they live.
#[derive(Debug, Clone)]
pub struct Tree {
    root: ProcRoot,
    leader: Identity,
    leader_only: bool,
    /// Without one, every orphan is a member.
    token: Option<String>,
    subreaper: Option<Subreaper>,
    observer: Option<u32>,
    known: HashSet<Identity>,
    foreign: HashSet<Identity>,
    doubtful: BTreeMap<Identity, String>,
    strays: Vec<Identity>,
}

/// The process that adopts orphans, and those of its children that are not part of the tree.
#[derive(Debug, Clone)]
struct Subreaper {
    pid: u32,
    /// Children that have no descendants.
    helpers: HashSet<u32>,
    /// Leaders of other trees, each in its own session.
    leaders: HashSet<u32>,
}

/// Whose token a process carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Own,
    Other,
    None,
}

/// The processes of one moment by pid.
type Scan = HashMap<u32, Stat>;

impl Tree {
    /// The tree of `leader`, whose environment carries `token`, or `token/` and more, in `CARAT_TOKEN`.
    pub fn new(root: ProcRoot, leader: Identity, token: impl Into<String>) -> Self {
        Self {
            root,
            leader,
            leader_only: false,
            token: Some(token.into()),
            subreaper: None,
            observer: None,
            known: HashSet::from([leader]),
            foreign: HashSet::new(),
            doubtful: BTreeMap::new(),
            strays: Vec::new(),
        }
    }

    /// Every orphan of `subreaper`, whosever it is, except its children in `helpers`.
    pub fn of_orphans(
        root: ProcRoot,
        subreaper: u32,
        helpers: impl IntoIterator<Item = u32>,
    ) -> Self {
        // No process has this pid.
        let absent = Identity { pid: u32::MAX, start_ticks: 0 };
        let tree = Self { token: None, ..Self::new(root, absent, "") };
        tree.with_subreaper(subreaper, helpers)
    }

    /// Limits the tree to the leader.
    pub fn leader_only(mut self) -> Self {
        self.leader_only = true;
        self
    }

    /// Leaves out the process that looks and what it has started, where it is in the tree: carat in the shell that it
    /// is asked about.
    pub fn seen_by(mut self, observer: u32) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Includes orphans that the kernel reparents to `subreaper`, except its children in `helpers`, which have no
    /// descendants.
    pub fn with_subreaper(
        mut self,
        subreaper: u32,
        helpers: impl IntoIterator<Item = u32>,
    ) -> Self {
        let helpers = helpers.into_iter().collect();
        self.subreaper = Some(Subreaper { pid: subreaper, helpers, leaders: HashSet::new() });
        self
    }

    /// Excludes one more child of the subreaper that has no descendants, such as a load generator that was just started.
    pub fn exclude(&mut self, helper: u32) {
        if let Some(subreaper) = &mut self.subreaper {
            subreaper.helpers.insert(helper);
        }
    }

    /// Excludes the tree of another child of the subreaper, such as a service.
    pub fn exclude_tree(&mut self, leader: u32) {
        if let Some(subreaper) = &mut self.subreaper {
            subreaper.leaders.insert(leader);
        }
    }

    /// The process that was started first.
    pub fn leader(&self) -> Identity {
        self.leader
    }

    /// Names of members that may belong to another tree: orphans that show no token and were not seen before. They are
    /// members because servers become daemons more often than what runs beside them.
    pub fn doubtful(&self) -> impl Iterator<Item = &str> {
        self.doubtful.values().map(String::as_str)
    }

    /// Orphans of the newest scan that are no members. They must be stopped too, but not before what left them.
    pub fn strays(&self) -> &[Identity] {
        &self.strays
    }

    /// Scans for the current members in the order of their start, without zombies.
    pub fn members(&mut self) -> Vec<Stat> {
        let scan = self.scan();
        // Without this a long recording would leak: the sets would only grow.
        let present: HashSet<Identity> = scan.values().map(Stat::identity).collect();
        self.known.retain(|identity| present.contains(identity));
        self.foreign.retain(|identity| present.contains(identity));
        let mut found: Vec<&Stat> = scan.values().filter(|stat| !stat.is_dead()).collect();
        // A parent is decided before its children.
        found.sort_by_key(|stat| (stat.start_ticks, stat.pid));
        let (members, others): (Vec<&Stat>, Vec<&Stat>) =
            found.into_iter().partition(|stat| self.is_member(stat, &scan));
        let strays = others.into_iter().filter(|stat| self.adopted(stat, &scan));
        self.strays = strays.map(Stat::identity).collect();
        members.into_iter().cloned().collect()
    }

    /// Orphans of the tree that have ended and that the subreaper must still wait for.
    pub fn dead_orphans(&self) -> Vec<u32> {
        let scan = self.scan();
        let dead = scan.values().filter(|stat| stat.is_dead() && stat.pid != self.leader.pid);
        dead.filter(|stat| self.adopted(stat, &scan)).map(|stat| stat.pid).collect()
    }

    fn scan(&self) -> Scan {
        let pids = self.root.pids().unwrap_or_default();
        let all: Scan =
            pids.into_iter().filter_map(|pid| Some((pid, self.root.stat(pid).ok()?))).collect();
        let Some(observer) = self.observer else { return all };
        let is_observers =
            |stat: &Stat| stat.pid == observer || descends(stat, &all, |one| one.pid == observer);
        // An observer that was asked about itself, or about a child of its own, leaves nothing out.
        if all.get(&self.leader.pid).is_some_and(is_observers) {
            return all;
        }
        all.iter()
            .filter(|(_, stat)| !is_observers(stat))
            .map(|(&pid, stat)| (pid, stat.clone()))
            .collect()
    }

    fn is_member(&mut self, stat: &Stat, scan: &Scan) -> bool {
        let identity = stat.identity();
        if self.leader_only || self.known.contains(&identity) {
            // Once a member, always one: a daemon loses every sign that it had at first.
            return self.known.contains(&identity);
        }
        // A process of the tree is seen as one at first: its parent is a member, or its environment is still unchanged.
        if self.foreign.contains(&identity) {
            return false;
        }
        let token = self.token_of(identity);
        // With another tree's token it is that tree's orphan, whatever else holds.
        let is_orphan =
            self.adopted(stat, scan) && token == Token::None && !self.is_of_another(stat);
        let sign = match () {
            () if token == Token::Own => Some("it carries the token"),
            () if self.shares_session(stat, scan) => Some("it is in the server's session"),
            () if descends(stat, scan, |parent| self.known.contains(&parent)) => {
                Some("it descends from the server")
            }
            () if is_orphan && self.orphans_are_own() => {
                Some("it is an orphan that nothing else can have left")
            }
            () => None,
        };
        if let Some(why) = sign {
            debug!(pid = stat.pid, name = stat.comm, why, "counts as the server's");
            self.doubtful.remove(&identity);
            self.known.insert(identity);
            return true;
        }
        if is_orphan {
            // Not a member for good: a later scan may find a sign, or the token of another tree.
            self.doubtful.entry(identity).or_insert_with(|| {
                debug!(
                    pid = stat.pid,
                    name = stat.comm,
                    "an orphan without a token: counts, in doubt"
                );
                stat.comm.clone()
            });
            return true;
        }
        // What a doubtful one started is as doubtful, and counts with it.
        if descends(stat, scan, |parent| self.doubtful.contains_key(&parent)) {
            return true;
        }
        self.doubtful.remove(&identity);
        // A parent that ended during the scan could have been a member.
        if token == Token::Other || scan.contains_key(&stat.parent) {
            trace!(pid = stat.pid, name = stat.comm, "is of another tree");
            self.foreign.insert(identity);
        }
        false
    }

    fn shares_session(&self, stat: &Stat, scan: &Scan) -> bool {
        // A session keeps its number after its leader has ended. Once another process has that pid, the
        // session is not the server's.
        let reused = scan.get(&self.leader.pid).is_some_and(|now| now.identity() != self.leader);
        stat.session == self.leader.pid && !reused
    }

    /// Whether this is a child of the subreaper that it did not start itself.
    fn adopted(&self, stat: &Stat, scan: &Scan) -> bool {
        self.subreaper.as_ref().is_some_and(|subreaper| {
            let started = [&subreaper.helpers, &subreaper.leaders];
            // A thread of the subreaper may fork at any moment. At the end, without a token, such a process is stopped as well.
            let forked = self.token.is_some()
                && scan.get(&subreaper.pid).is_some_and(|own| own.session == stat.session);
            stat.parent == subreaper.pid
                && !forked
                && !started.iter().any(|pids| pids.contains(&stat.pid))
        })
    }

    /// Whether an orphan without a token was left by another tree: it is older than the server, or in that tree's session.
    fn is_of_another(&self, orphan: &Stat) -> bool {
        let mut leaders = self.subreaper.iter().map(|subreaper| &subreaper.leaders);
        orphan.start_ticks < self.leader.start_ticks
            || leaders.any(|leaders| leaders.contains(&orphan.session))
    }

    /// Whether there is no other tree that could have left an orphan.
    fn orphans_are_own(&self) -> bool {
        let mut subreaper = self.subreaper.iter();
        self.token.is_none() || subreaper.all(|subreaper| subreaper.leaders.is_empty())
    }

    /// Whose token this process carries. An environment changes only at exec, and a foreign process does not gain our
    /// token by exec.
    fn token_of(&self, identity: Identity) -> Token {
        let Some(own) = &self.token else { return Token::None };
        // Unreadable counts as no token: a process of another user can still be a descendant.
        let environ = self.root.read(identity.pid, "environ").unwrap_or_default();
        let name = format!("{}=", carat_wire::env::TOKEN);
        let mut entries = environ.split(|&byte| byte == 0);
        let Some(value) = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())) else {
            return Token::None;
        };
        match value.strip_prefix(own.as_bytes()) {
            Some(rest) if rest.is_empty() || rest[0] == b'/' => Token::Own,
            _ => Token::Other,
        }
    }
}

/// Whether one of the ancestors `is_wanted`.
fn descends(stat: &Stat, scan: &Scan, is_wanted: impl Fn(Identity) -> bool) -> bool {
    let mut at = stat;
    // The depth is bounded because parents read at different times can form a cycle.
    for _ in 0..scan.len() {
        let Some(parent) = scan.get(&at.parent) else { return false };
        if is_wanted(parent.identity()) {
            return true;
        }
        at = parent;
    }
    false
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
            (26, 10, 26, 12, ""),                          // the load generator
            (27, 1, 27, 13, "CARAT_TOKEN=tt"), // an unrelated process with a longer token
        ]);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let mut tree = Tree::new(root, leader, "t").with_subreaper(10, [26]);
        assert_eq!(pids(&mut tree), [20, 21, 22, 23, 24, 25]);
    }

    #[test]
    fn the_observer_and_what_it_starts_are_no_part_of_the_tree_that_it_is_in() {
        let (_folder, root) = captured(&[
            (20, 1, 20, 5, ""),  // the shell
            (21, 20, 20, 6, ""), // a server
            (22, 20, 20, 7, ""), // carat
            (23, 22, 20, 8, ""), // its load generator
            (24, 21, 20, 9, ""), // a worker
        ]);
        let of = |pid, start_ticks| {
            Tree::new(root.clone(), Identity { pid, start_ticks }, "").seen_by(22)
        };
        assert_eq!(pids(&mut of(20, 5)), [20, 21, 24]);
        assert_eq!(pids(&mut of(21, 6)), [21, 24]);
        assert_eq!(pids(&mut of(22, 7)), [22, 23]);
        assert_eq!(pids(&mut of(23, 8)), [23]);
    }

    #[test]
    fn orphans_of_a_service_and_of_a_command_beside_the_server_are_not_the_servers() {
        let (folder, root) = captured(&[
            (10, 1, 10, 1, ""),                    // carat itself
            (30, 10, 30, 2, "CARAT_TOKEN=s"),      // a service
            (31, 10, 31, 3, ""),                   // its daemon, which hides its environment
            (20, 10, 20, 6, "CARAT_TOKEN=t"),      // the server
            (32, 10, 32, 7, "CARAT_TOKEN=s"),      // a later daemon of the service
            (33, 10, 30, 8, ""),                   // an orphan in the service's session
            (40, 10, 40, 9, "CARAT_TOKEN=l"),      // the command that drives the load
            (41, 40, 41, 10, ""),                  // its child
            (42, 10, 42, 11, "CARAT_TOKEN=t/old"), // a daemon of the server
        ]);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let mut tree = Tree::new(root, leader, "t").with_subreaper(10, []);
        tree.exclude_tree(30);
        tree.exclude_tree(40);
        assert_eq!(pids(&mut tree), [20, 42]);
        let strays: Vec<u32> = tree.strays().iter().map(|stray| stray.pid).collect();
        assert_eq!(strays, [31, 32, 33]);
        // The command has ended and left its child to the subreaper.
        fs::remove_dir_all(folder.path().join("40")).unwrap();
        let orphan = "41 (k6) S 10 41 41 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 10 0";
        fs::write(folder.path().join("41/stat"), orphan).unwrap();
        assert_eq!(pids(&mut tree), [20, 42]);
        assert_eq!(tree.doubtful().count(), 0);
    }

    #[test]
    fn an_orphan_that_shows_no_token_is_named_where_it_could_be_anothers() {
        let rows = [
            (10, 1, 10, 1, ""),
            (20, 10, 20, 6, "CARAT_TOKEN=t"),
            (30, 10, 30, 5, "CARAT_TOKEN=s"),
            (21, 10, 21, 7, ""),
            (22, 21, 22, 8, ""),
        ];
        let (folder, root) = captured(&rows);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let alone = Tree::new(root.clone(), leader, "t").with_subreaper(10, [30]);
        let mut beside = Tree::new(root, leader, "t").with_subreaper(10, []);
        beside.exclude_tree(30);
        for (mut tree, doubtful) in [(alone, &[][..]), (beside.clone(), &["ruby"])] {
            assert_eq!(pids(&mut tree), [20, 21, 22]);
            assert_eq!(tree.doubtful().collect::<Vec<_>>(), doubtful);
        }
        // What exec hides for a moment is read at the next scan.
        assert_eq!(pids(&mut beside), [20, 21, 22]);
        fs::write(folder.path().join("21/environ"), "CARAT_TOKEN=s").unwrap();
        assert_eq!(pids(&mut beside), [20]);
        assert_eq!(beside.doubtful().count(), 0);
    }

    #[test]
    fn a_fork_of_the_subreaper_is_no_orphan_of_the_server() {
        let (folder, root) = captured(&[
            (10, 1, 9, 1, ""), // carat itself, in the session of a shell
            (20, 10, 20, 6, "CARAT_TOKEN=t"),
            (21, 10, 9, 7, ""),  // what a thread of carat has forked
            (22, 21, 9, 8, ""),  // its child
            (23, 10, 23, 9, ""), // a daemon of the server
        ]);
        let leader = Identity { pid: 20, start_ticks: 6 };
        let mut tree = Tree::new(root.clone(), leader, "t").with_subreaper(10, []);
        assert_eq!(pids(&mut tree), [20, 23]);
        assert!(tree.strays().is_empty(), "it is carat's to end");
        assert_eq!(pids(&mut Tree::of_orphans(root, 10, [20])), [21, 22, 23], "at the end");
        for dead in [21, 23] {
            let path = folder.path().join(format!("{dead}/stat"));
            let stat = fs::read_to_string(&path).unwrap().replace(") S", ") Z");
            fs::write(path, stat).unwrap();
        }
        assert_eq!(tree.dead_orphans(), [23], "the thread waits for its own");
    }

    #[test]
    fn all_orphans_are_those_of_every_tree() {
        let (_folder, root) = captured(&[
            (10, 1, 10, 1, ""),
            (11, 10, 11, 2, ""),              // the reaper
            (31, 10, 31, 3, "CARAT_TOKEN=s"), // an orphan
            (32, 31, 32, 4, ""),              // its child
            (50, 1, 50, 5, "CARAT_TOKEN=t"),  // a process of another carat
        ]);
        assert_eq!(pids(&mut Tree::of_orphans(root, 10, [11])), [31, 32]);
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
