//! Every Ruby tree of a host or container, by reads that take a few milliseconds for each Ruby.
//!
//! Processes end, pids are reused and files are denied while this runs: a figure that is not known is left out with the reason,
//! and a process that is gone is left out without a word.

use crate::observe::directory::Directory;
use crate::observe::group_use::group_use;
use crate::observe::ruby_signs::jit_of;
use crate::observe::sampler::read_rollup;
use crate::observe::{Mapping, Rollup, Status, image_of, parse_mappings, parse_status};
use crate::process::{
    ForestSigns, Grown, Identity, ProcError, ProcRoot, Program, RubyGroup, Stat, groups, program,
    shares_memory, words_of,
};
use carat_model::host::{HOST_SCHEMA, HostTrees, ProcessRole, RubyTree, ServerName, TreeProcess};
use carat_model::{Bytes, command_line, one_line};
use carat_outside::glance::{Glance, Glancer};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

/// Rubies of a tree that are looked at for version and allocator: the others were forked from them or run the same program.
const GLANCES: usize = 3;
/// A process whose address space is not placed at random (`ADDR_NO_RANDOMIZE`, linux/personality.h).
const NOT_RANDOM: u64 = 0x0004_0000;

/// How to look at a host.
#[derive(Debug, Clone, Copy)]
pub struct HostLook {
    /// After this time no more proportional memory is read; the largest trees come first.
    pub longest: Duration,
    /// Unix time in milliseconds.
    pub now_ms: u64,
    /// Time since the machine started by the clock in which the kernel counts the start of processes (`CLOCK_BOOTTIME`,
    /// proc_pid_stat(5)); without it no start is known. `/proc/uptime` and `btime` of `/proc/stat` do not say it: lxcfs shows those of
    /// a container there.
    pub up: Option<Duration>,
    /// Only the tree with this process.
    pub only: Option<u32>,
}

/// What the first pass tells of a process.
struct SeenProcess {
    stat: Stat,
    title: String,
    words: Vec<String>,
    program: Option<Program>,
    /// `None` where they may not be read.
    mappings: Option<Vec<Mapping>>,
    is_ruby: bool,
    status: Status,
}

/// The Ruby trees that can be seen, the largest first.
pub fn ruby_trees(root: &ProcRoot, look: HostLook) -> HostTrees {
    let started = Instant::now();
    let mut notes = BTreeSet::new();
    let all = seen(root);
    let random = is_random(root);
    // Signs of all processes: an agent or a shell between two Rubies decides where they belong.
    let signs: Vec<ForestSigns> = all.values().map(|one| signs_of(root, one, random)).collect();
    let mut groups = groups(&signs);
    if let Some(only) = look.only {
        groups.retain(|group| group.members.iter().any(|member| member.pid == only));
    }
    // The time for proportional memory may run out, so the largest are read first.
    groups.sort_by_key(|group| std::cmp::Reverse((resident(group, &all), group.leader)));
    let glancer = Glancer::new(root.path());
    if let (Err(error), false) = (&glancer, groups.is_empty()) {
        notes.insert(format!("allocators are unknown: {error}"));
    }
    let mut trees: Vec<RubyTree> = Vec::new();
    for group in groups {
        let mut tree =
            Reading { root, all: &all, started, look, missing: BTreeSet::new() }.tree(&group);
        let first = group.members.first().and_then(|first| all.get(&first.pid));
        tree.since_ms = first.and_then(|first| since_ms(&first.stat, look));
        glance_at(root, &group, (glancer.as_ref().ok(), &all), &mut tree);
        // Empty where all of them have ended meanwhile.
        if !tree.processes.is_empty() {
            trees.push(tree);
        }
    }
    // Sorted again, because proportional memory can change the order.
    trees.sort_by_key(|tree| std::cmp::Reverse((tree.pss.or(tree.largest_rss), tree.pid)));
    HostTrees {
        schema: HOST_SCHEMA.into(),
        at_ms: look.now_ms,
        trees,
        notes: notes.into_iter().collect(),
    }
}

/// Every process of this moment, by pid, but those that run in the memory of their parent: they would count it twice.
fn seen(root: &ProcRoot) -> HashMap<u32, SeenProcess> {
    let pids = root.pids().unwrap_or_default().into_iter();
    let mut all: HashMap<u32, SeenProcess> =
        pids.filter_map(|pid| Some((pid, find(root, pid)?))).collect();
    let borrows = |one: &SeenProcess| {
        let parent = all.get(&one.stat.parent);
        parent.is_some_and(|parent| shares_memory(root, &one.stat, &parent.stat))
    };
    let borrowed: Vec<u32> =
        all.values().filter(|one| borrows(one)).map(|one| one.stat.pid).collect();
    all.retain(|pid, _| !borrowed.contains(pid));
    all
}

/// The sum of resident memory, which puts groups in an order.
fn resident(group: &RubyGroup, all: &HashMap<u32, SeenProcess>) -> Bytes {
    group.members.iter().filter_map(|one| all.get(&one.pid)?.status.rss).sum()
}

/// The Ruby that each Ruby was forked from, by pid: the process that loaded its app, as far as it is left. That need not be its
/// parent, and is never another program.
pub(super) fn origins(root: &ProcRoot) -> HashMap<u32, u32> {
    let all = root.pids().unwrap_or_default().into_iter().filter_map(|pid| find(root, pid));
    let random = is_random(root);
    let signs: Vec<ForestSigns> = all.map(|one| signs_of(root, &one, random)).collect();
    let members = groups(&signs).into_iter().flat_map(|group| group.members);
    members.filter_map(|one| Some((one.pid, one.forked_from?))).collect()
}

/// Whether the kernel places programs in memory at random.
fn is_random(root: &ProcRoot) -> bool {
    let text = fs::read_to_string(root.path().join("sys/kernel/randomize_va_space"));
    text.is_ok_and(|text| text.trim() != "0")
}

/// Whether a process is a Ruby; `None` if it has ended or is a thread of the kernel.
pub fn is_ruby(root: &ProcRoot, pid: u32) -> Option<bool> {
    find(root, pid).map(|found| found.is_ruby)
}

/// A process that is worth a second look; `None` for threads of the kernel and the dead.
fn find(root: &ProcRoot, pid: u32) -> Option<SeenProcess> {
    let stat = root.stat(pid).ok().filter(|stat| !stat.is_kernel_thread && !stat.is_dead())?;
    let cmdline = root.read(pid, "cmdline").ok()?;
    let words = words_of(&cmdline);
    let program = program(&words);
    // Empty for a process that is ending: its memory is gone although its folder is not.
    let maps = root.read(pid, "maps").ok().filter(|maps| !maps.is_empty());
    let mappings = maps.map(|maps| parse_mappings(&maps));
    let is_ruby = match &mappings {
        Some(mappings) => mappings.iter().any(Mapping::is_of_ruby),
        // What a title claims is all there is.
        None => program.as_ref().is_some_and(|program| !is_agent(program)),
    };
    let status = parse_status(&root.read(pid, "status").unwrap_or_default());
    // Of other programs only their place in the tree counts.
    let mappings = mappings.filter(|_| is_ruby);
    let line = command_line(&String::from_utf8_lossy(&cmdline));
    let title = if line.is_empty() { one_line(&stat.comm) } else { line };
    Some(SeenProcess { stat, title, words, program, mappings, is_ruby, status })
}

fn is_agent(program: &Program) -> bool {
    matches!(program.role, Some(ProcessRole::Watchdog | ProcessRole::Core))
}

fn signs_of(root: &ProcRoot, found: &SeenProcess, random: bool) -> ForestSigns {
    let pid = found.stat.pid;
    let personality = root.read(pid, "personality").ok();
    let personality = personality
        .and_then(|text| u64::from_str_radix(String::from_utf8_lossy(&text).trim(), 16).ok());
    // Without random placement every vDSO is at one address, and all Rubies would look forked.
    let is_random = random && personality.is_none_or(|flags| flags & NOT_RANDOM == 0);
    ForestSigns {
        pid,
        parent: found.stat.parent,
        start_ticks: found.stat.start_ticks,
        is_ruby: found.is_ruby,
        image: found.mappings.as_deref().filter(|_| is_random).and_then(image_of),
        role: found.program.as_ref().and_then(|program| program.role),
    }
}

/// When a process began, in Unix milliseconds.
fn since_ms(stat: &Stat, look: HostLook) -> Option<u64> {
    let started = stat.start_ticks.checked_mul(1000)? / rustix::param::clock_ticks_per_second();
    // One that was started since then is as old as nothing.
    let age = u64::try_from(look.up?.as_millis()).ok()?.saturating_sub(started);
    look.now_ms.checked_sub(age)
}

/// Reads one tree.
struct Reading<'a> {
    root: &'a ProcRoot,
    all: &'a HashMap<u32, SeenProcess>,
    started: Instant,
    look: HostLook,
    missing: BTreeSet<String>,
}

impl Reading<'_> {
    fn tree(mut self, group: &RubyGroup) -> RubyTree {
        let processes: Vec<TreeProcess> =
            group.members.iter().filter_map(|one| self.process(*one)).collect();
        let pids: HashSet<u32> = processes.iter().map(|one| one.pid).collect();
        let of_ruby: Vec<&TreeProcess> = processes.iter().filter(|one| one.is_ruby).collect();
        let workers = of_ruby.iter().filter(|one| one.role == ProcessRole::Worker);
        let workers = u32::try_from(workers.count()).unwrap_or(u32::MAX);
        // A master's private memory is not what one more worker would add.
        let private = of_ruby.iter().filter(|one| workers == 0 || one.role == ProcessRole::Worker);
        let private: Option<Vec<Bytes>> = private.map(|one| one.private).collect();
        // Carat itself is charged to the same group in a container.
        let own: HashSet<u32> = pids.iter().copied().chain([std::process::id()]).collect();
        let visible = of_ruby.iter().find_map(|one| group_use(self.root, one.pid, &own));
        if visible.is_none() && !processes.is_empty() {
            self.missing.insert("the limit: its control group cannot be seen from here".into());
        }
        RubyTree {
            pid: group.leader,
            server: self.name(group),
            workers,
            // One unknown makes the sum unknown: a smaller sum would look like a smaller server.
            pss: processes.iter().map(|one| one.pss).sum(),
            largest_rss: processes.iter().filter_map(|one| one.rss).max(),
            private_per_worker: private.and_then(median),
            swap: processes.iter().map(|one| one.swap).sum(),
            group: visible,
            processes,
            missing: self.missing.into_iter().collect(),
            ..RubyTree::default()
        }
    }

    /// What the tree is: by the first process whose title says it best.
    fn name(&self, group: &RubyGroup) -> ServerName {
        let programs = group.members.iter().filter_map(|one| {
            let found = self.all.get(&one.pid)?;
            found.program.as_ref().filter(|_| found.is_ruby)
        });
        let best = programs.max_by_key(|program| {
            let name = &program.name;
            (!name.program.starts_with("ruby"), name.version.is_some(), name.app.is_some())
        });
        let leader = self.all.get(&group.leader).map(|found| one_line(&found.stat.comm));
        let unknown = ServerName { program: leader.unwrap_or_default(), ..ServerName::default() };
        let mut name = best.map_or(unknown, |program| program.name.clone());
        // The app's name is the observed process's text, so it is cleaned like a command line.
        name.app = name.app.map(|app| command_line(&app));
        name
    }

    /// `None` if it has ended.
    fn process(&mut self, grown: Grown) -> Option<TreeProcess> {
        let found = self.all.get(&grown.pid)?;
        let (rollup, gone) = match self.rollup(found) {
            Ok(rollup) => (Some(rollup), false),
            Err(Unread::Gone) => (None, true),
            Err(Unread::Why(why)) => {
                self.missing.insert(why);
                (None, false)
            }
        };
        (!gone).then(|| TreeProcess {
            pid: grown.pid,
            parent: found.stat.parent,
            role: grown.role,
            title: found.title.clone(),
            is_ruby: found.is_ruby,
            forked_from: grown.forked_from,
            rss: rollup.map(|rollup| rollup.rss).or(found.status.rss),
            pss: rollup.map(|rollup| rollup.pss),
            private: rollup.map(|rollup| rollup.private),
            swap: rollup.and_then(|rollup| rollup.swap_pss).or(found.status.swap),
            threads: found.status.threads,
        })
    }

    fn rollup(&self, found: &SeenProcess) -> Result<Rollup, Unread> {
        let identity: Identity = found.stat.identity();
        if !found.status.is_walked_in_time() {
            return Err(Unread::Why(format!(
                "the memory of process {}: its page tables would take seconds to walk, during which it could map nothing",
                identity.pid
            )));
        }
        match self.rollup_in_time(identity) {
            Ok(Some(rollup)) => Ok(rollup),
            Ok(None) => Err(Unread::Why(
                "proportional memory: the time for all trees was over; name a process to see its tree".into(),
            )),
            Err(ProcError::Ended(_)) => Err(Unread::Gone),
            Err(ProcError::Denied { cause, .. }) => Err(Unread::Why(format!("memory and settings: {cause}"))),
            Err(error) => Err(Unread::Why(error.to_string())),
        }
    }
}

impl Reading<'_> {
    /// `None` once the time for all trees is over.
    fn rollup_in_time(&self, identity: Identity) -> Result<Option<Rollup>, ProcError> {
        // Opened before the time is checked, so that an ended process is not reported as skipped.
        let directory = Directory::open(self.root, identity)?;
        if self.started.elapsed() > self.look.longest {
            return Ok(None);
        }
        read_rollup(&directory, &mut Vec::new()).map(Some)
    }
}

/// Why a process has no figures.
enum Unread {
    Gone,
    Why(String),
}

/// The middle value; of two the larger.
fn median(mut all: Vec<Bytes>) -> Option<Bytes> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

/// Adds what the memory of its Rubies tells: version, allocator, arenas, JIT.
fn glance_at(
    root: &ProcRoot,
    group: &RubyGroup,
    (glancer, all): (Option<&Glancer<'_>>, &HashMap<u32, SeenProcess>),
    tree: &mut RubyTree,
) {
    let by_size = {
        let mut rubies: Vec<&TreeProcess> =
            tree.processes.iter().filter(|one| one.is_ruby).collect();
        rubies.sort_by_key(|one| std::cmp::Reverse(one.rss));
        rubies.into_iter().map(|one| one.pid).take(GLANCES).collect::<Vec<u32>>()
    };
    let looks: Vec<Glance> = by_size.iter().filter_map(|pid| glancer?.look(*pid).ok()).collect();
    tree.ruby = common(looks.iter().map(|glance| Some(glance.ruby.clone())));
    tree.allocator = common(looks.iter().map(|glance| {
        let serving = glance.serving.as_ref()?;
        Some(serving.allocator.clone().unwrap_or_else(|| serving.file.clone()))
    }));
    tree.arenas = looks.iter().map(|glance| glance.arenas).max().flatten();
    let leader = by_size.first().and_then(|pid| all.get(pid));
    let asked = leader.map(|found| found.words.join(" ")).unwrap_or_default()
        + &jit_variables(root, group.leader);
    let mappings = leader.and_then(|found| found.mappings.as_deref());
    let jit = mappings.and_then(|mappings| jit_of(mappings, tree.ruby.as_deref(), &asked));
    tree.jit = jit.map(str::to_owned);
}

/// What all looks found alike.
fn common(mut found: impl Iterator<Item = Option<String>>) -> Option<String> {
    let first = found.next()??;
    found.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The variables that turn a JIT on.
fn jit_variables(root: &ProcRoot, pid: u32) -> String {
    let environ = root.read(pid, "environ").unwrap_or_default();
    let environ = String::from_utf8_lossy(&environ);
    let names = ["RUBYOPT=", "RUBY_YJIT_ENABLE=", "RUBY_ZJIT"];
    let wanted =
        environ.split('\0').filter(|entry| names.iter().any(|name| entry.starts_with(name)));
    wanted.map(|entry| format!(" {entry}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn process(folder: &Path, pid: u32, parent: u32, cmdline: &str, maps: &str) {
        let place = folder.join("proc").join(pid.to_string());
        fs::create_dir_all(&place).unwrap();
        let stat = format!(
            "{pid} (ruby) S {parent} 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 3 0 {} 0 0",
            100 + pid
        );
        let rollup = "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 2000 kB\nPss: 1000 kB\n\
                      Private_Dirty: 600 kB\nShared_Clean: 1400 kB\nSwapPss: 5 kB\n";
        let status = "VmRSS:\t2000 kB\nVmSwap:\t5 kB\nVmPTE:\t10 kB\nThreads:\t3\n";
        for (name, text) in [
            ("stat", stat.as_str()),
            ("cmdline", cmdline),
            ("maps", maps),
            ("smaps_rollup", rollup),
            ("status", status),
        ] {
            fs::write(place.join(name), text).unwrap();
        }
    }

    fn maps(image: u64) -> String {
        format!(
            "55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/ruby3.1\n{image:x}000-{image:x}fff r-xp 0 00:00 0 [vdso]\n"
        )
    }

    #[test]
    fn the_trees_of_a_host_have_their_sums_roles_and_start() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        process(at, 10, 1, "puma 6.6.0 (tcp://[::]:3000) [blog]\0", &maps(0x7f1));
        process(at, 11, 10, "puma: cluster worker 0: 10 [blog]\0", &maps(0x7f1));
        process(at, 12, 10, "puma: cluster worker 1: 10 [blog]\0", &maps(0x7f1));
        process(at, 20, 1, "ruby\0job.rb\0--token=abc\0", &maps(0x7f2));
        process(
            at,
            30,
            1,
            "sleep\x0060\0",
            "55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/sleep\n",
        );
        fs::create_dir_all(at.join("proc/sys/kernel")).unwrap();
        fs::write(at.join("proc/sys/kernel/randomize_va_space"), "2\n").unwrap();
        // As lxcfs shows the start of a container, from which no start counts.
        fs::write(at.join("proc/stat"), "cpu 1\nbtime 1100\n").unwrap();
        let up = Some(Duration::from_secs(200));
        let look = HostLook { longest: Duration::from_secs(60), now_ms: 1_200_000, up, only: None };
        let root = ProcRoot::new(at.join("proc"));
        let found = ruby_trees(&root, look);
        let pids: Vec<u32> = found.trees.iter().map(|tree| tree.pid).collect();
        assert_eq!(pids, [10, 20]);
        let puma = &found.trees[0];
        assert_eq!(
            (puma.server.program.as_str(), puma.server.version.as_deref(), puma.workers),
            ("puma", Some("6.6.0"), 2)
        );
        assert_eq!(
            (puma.pss, puma.private_per_worker),
            (Some(Bytes(3_072_000)), Some(Bytes(614_400)))
        );
        assert_eq!(puma.swap, Some(Bytes(15 * 1024)));
        let hertz = rustix::param::clock_ticks_per_second();
        assert_eq!(puma.since_ms, Some(1_000_000 + 110_000 / hertz));
        assert_eq!(puma.processes[1].forked_from, Some(10));
        assert!(found.trees[1].processes[0].title.contains("[hidden]"), "{:?}", found.trees[1]);
        let only = ruby_trees(&root, HostLook { only: Some(12), ..look });
        assert_eq!(only.trees.iter().map(|tree| tree.pid).collect::<Vec<_>>(), [10]);
        let no_time = ruby_trees(&root, HostLook { longest: Duration::ZERO, ..look });
        assert_eq!((no_time.trees[0].pss, no_time.trees.len()), (None, 2));
        assert!(no_time.trees[0].missing.iter().any(|why| why.contains("time")), "{no_time:?}");
    }

    #[test]
    fn a_child_that_runs_in_the_memory_of_its_parent_counts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        process(at, 10, 1, "puma 6.6.0 (tcp://[::]:3000) [blog]\0", &maps(0x7f1));
        process(at, 11, 10, "puma 6.6.0 (tcp://[::]:3000) [blog]\0", &maps(0x7f1));
        for (pid, parent, state, flags) in [(10, 1, 'D', 0), (11, 10, 'S', 0x40)] {
            let stat = format!(
                "{pid} (ruby) {state} {parent} 1 1 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 {pid} 7000 500 1"
            );
            fs::write(at.join(format!("proc/{pid}/stat")), stat).unwrap();
        }
        let look = HostLook { longest: Duration::from_secs(60), now_ms: 5, up: None, only: None };
        let found = ruby_trees(&ProcRoot::new(at.join("proc")), look);
        assert_eq!(found.trees[0].pss, Some(Bytes(1_024_000)), "{found:?}");
        assert_eq!(found.trees[0].processes.len(), 1);
    }
}
