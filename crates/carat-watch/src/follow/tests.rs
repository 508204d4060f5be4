use super::*;
use carat_model::Bytes;
use carat_model::watch::{EndCause, WatchedProcess};
use carat_proc::process::ProcRoot;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const RUBY: &str = "55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/ruby3.1\n";

/// A made-up `/proc` with the groups beside it.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.write("proc/uptime", "1000.5 1.0\n");
        machine.write("proc/vmstat", "oom_kill 7\n");
        machine
            .write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.write("sys/fs/cgroup/app/memory.stat", "inactive_file 0\n");
        machine.write("sys/fs/cgroup/app/memory.max", "1000000000\n");
        machine.write("sys/fs/cgroup/app/memory.current", "400000000\n");
        machine.kills(0);
        machine
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path: PathBuf = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn kills(&self, number: u64) {
        self.write("sys/fs/cgroup/app/memory.events", &format!("oom 1\noom_kill {number}\n"));
    }

    /// A process of the group; `maps` says what it is.
    pub(crate) fn process(&self, pid: u32, name: &str, maps: &str) {
        self.started(pid, name, maps, 100);
    }

    fn started(&self, pid: u32, name: &str, maps: &str, start_ticks: u64) {
        let comm = name.split(' ').next().unwrap();
        let stat = format!(
            "{pid} ({comm}) S 1 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 3 0 {start_ticks} 0 0"
        );
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/cmdline"), &format!("{}\0", name.replace(' ', "\0")));
        self.write(&format!("proc/{pid}/maps"), maps);
        self.write(&format!("proc/{pid}/cgroup"), "0::/app\n");
        self.grow(pid, 100_000);
    }

    pub(crate) fn grow(&self, pid: u32, kib: u64) {
        let status = format!("VmRSS:\t{kib} kB\nVmSwap:\t5 kB\nVmPTE:\t10 kB\nThreads:\t3\n");
        self.write(&format!("proc/{pid}/status"), &status);
        let rollup = format!("0-1 ---p 0 00:00 0 [rollup]\nPss: {kib} kB\nPrivate_Dirty: 600 kB\n");
        self.write(&format!("proc/{pid}/smaps_rollup"), &rollup);
    }

    pub(crate) fn end(&self, pid: u32) {
        fs::remove_dir_all(self.path().join(format!("proc/{pid}"))).unwrap();
    }
}

/// Senses of which every figure is made up.
#[derive(Debug, Default)]
pub(crate) struct Made {
    cpu: std::cell::Cell<Duration>,
    /// Processor time of a look at the clock of the processor, which stands for a round's cost.
    costs: Duration,
    census_costs: Duration,
    /// A process that ends while it is read.
    ends: Option<PathBuf>,
    censuses: Vec<(u32, CensusReason)>,
    statuses: HashMap<u32, ExitStatus>,
    log: HashMap<u32, bool>,
    /// Why nothing can be read.
    unknown: Vec<String>,
    /// Processes of which a handle is held.
    attended: BTreeSet<u32>,
}

impl Senses for Made {
    fn cpu(&self) -> Duration {
        self.cpu.set(self.cpu.get() + self.costs);
        self.cpu.get()
    }

    fn census(&mut self, process: Identity, order: &CensusOrder<'_>) -> WatchCensus {
        let CensusOrder { at_ms, reason, .. } = *order;
        self.censuses.push((process.pid, reason));
        self.cpu.set(self.cpu.get() + self.census_costs);
        if let Some(folder) = &self.ends {
            fs::remove_dir_all(folder).unwrap();
        }
        let unknown = self.unknown.clone();
        WatchCensus { at_ms, reason, unknown, ..WatchCensus::default() }
    }

    fn attend(&mut self, process: Identity) {
        self.attended.insert(process.pid);
    }

    fn status(&mut self, process: Identity) -> Option<ExitStatus> {
        self.attended.remove(&process.pid);
        self.statuses.get(&process.pid).copied()
    }

    fn in_log(&mut self, process: Identity) -> Option<bool> {
        self.log.get(&process.pid).copied()
    }
}

pub(crate) fn options(matching: &[&str]) -> FollowOptions {
    FollowOptions {
        matching: matching.iter().map(ToString::to_string).collect(),
        every: Duration::from_secs(10),
        share: 0.005,
        boot: None,
    }
}

fn follower(machine: &Machine, matching: &[&str]) -> Follower<Made> {
    let root = ProcRoot::new(machine.path().join("proc"));
    Follower::new(root, options(matching), Made::default(), 1)
}

pub(crate) fn at(seconds: u64) -> Moment {
    Moment { since: Duration::from_secs(seconds), wall_ms: 1_000_000 + seconds * 1000 }
}

fn ends(round: &Round) -> Vec<(u32, EndCause)> {
    let ended =
        round.batch.processes.iter().filter_map(|one| Some((one.pid, one.end.as_ref()?.cause)));
    ended.collect()
}

#[test]
fn rubies_are_followed_with_samples_and_their_group_and_others_are_not() {
    let machine = Machine::new();
    machine.process(10, "puma 6.6.0 (tcp://[::]:1) [blog]", RUBY);
    machine.process(11, "sleep 60", "55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/sleep\n");
    machine.process(12, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &["puma"]);
    let round = follower.round(at(0));
    let found: Vec<&WatchedProcess> = round.batch.processes.iter().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].pid, found[0].group.as_deref()), (10, Some("/app")));
    let (_, sample) = round.batch.samples[0];
    assert_eq!((sample.rss, sample.pss), (Some(Bytes(102_400_000)), Some(Bytes(102_400_000))));
    let group = &round.batch.groups[0];
    assert_eq!((group.limit, group.oom_kills), (Some(Bytes(1_000_000_000)), Some(0)));
    assert_eq!(follower.senses.censuses, [(10, CensusReason::First)]);
    let round = follower.round(at(10));
    assert!(round.batch.processes.is_empty() && round.batch.censuses.is_empty());
    assert_eq!((round.batch.samples.len(), round.next), (1, Duration::from_secs(10)));
}

#[test]
fn one_that_is_restarted_or_becomes_a_ruby_is_found_and_one_that_is_a_moment_old_waits() {
    let machine = Machine::new();
    machine.process(10, "sh wait-for-db", "55d000000000-55d000021000 r-xp 0 08:01 42 /bin/sh\n");
    let mut follower = follower(&machine, &[]);
    assert!(follower.round(at(0)).batch.processes.is_empty());
    // The same process after exec, and another that begins this moment.
    machine.process(10, "puma 6.6.0 (tcp://[::]:1) [blog]", RUBY);
    let hertz = rustix::param::clock_ticks_per_second();
    machine.started(20, "ruby job.rb", RUBY, 1000 * hertz);
    let pids = |round: &Round| round.batch.processes.iter().map(|one| one.pid).collect::<Vec<_>>();
    let round = follower.round(at(10));
    assert!(pids(&round).contains(&10), "{:?}", pids(&round));
    // The same pid with another start is another process.
    machine.started(10, "puma 6.6.0 (tcp://[::]:1) [blog]", RUBY, 900);
    let round = follower.round(at(20));
    assert_eq!(ends(&round), [(10, EndCause::Unknown)]);
    assert!(round.batch.processes.iter().any(|one| one.start_ticks == 900 && one.end.is_none()));
}

#[test]
fn a_kill_for_lack_of_memory_is_told_from_an_exit_and_from_what_is_unknown() {
    let machine = Machine::new();
    for pid in [10, 11, 12] {
        machine.process(pid, "ruby job.rb", RUBY);
    }
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    machine.end(11);
    follower.senses.statuses.insert(11, ExitStatus::Exited(3));
    assert_eq!(ends(&follower.round(at(10))), [(11, EndCause::Exited(3))]);
    machine.end(10);
    machine.kills(1);
    follower.senses.statuses.insert(10, ExitStatus::Signal(9));
    let round = follower.round(at(20));
    assert_eq!(ends(&round), [(10, EndCause::Oom)]);
    assert!(round.says[0].contains("was killed by the kernel because memory ran out"));
    machine.end(12);
    assert_eq!(ends(&follower.round(at(30))), [(12, EndCause::Unknown)]);
}

#[test]
fn a_kill_that_is_counted_while_the_process_is_still_ending_is_not_lost() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    // Its memory is gone, and the process is not yet.
    machine.kills(1);
    machine.write("proc/10/status", "Name:\truby\n");
    // It has left its group too (`cgroup_exit`), which a new look at all trees must not take for another group.
    machine.write("proc/10/cgroup", "0::/gone\n");
    let round = follower.round(at(10));
    assert!(round.batch.groups.is_empty(), "of a process that ends no limit is known");
    machine.end(10);
    follower.senses.statuses.insert(10, ExitStatus::Signal(9));
    assert_eq!(ends(&follower.round(at(20))), [(10, EndCause::Oom)]);
}

#[test]
fn a_look_at_all_processes_while_one_is_ending_does_not_take_another_group_for_the_one_it_died_in()
{
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    machine.write("sys/fs/cgroup/gone/memory.stat", "inactive_file 0\n");
    machine.write("sys/fs/cgroup/gone/memory.events", "oom 0\noom_kill 0\n");
    machine.kills(0);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    machine.kills(1);
    machine.write("proc/10/status", "Name:\truby\n");
    machine.write("proc/10/cgroup", "0::/gone\n");
    // Late enough for another look at all of them.
    follower.round(at(1000));
    machine.end(10);
    follower.senses.statuses.insert(10, ExitStatus::Signal(9));
    let round = follower.round(at(1010));
    assert_eq!(ends(&round), [(10, EndCause::Oom)]);
    let ended = round.batch.processes.iter().find(|one| one.end.is_some()).unwrap();
    assert_eq!(ended.group.as_deref(), Some("/app"));
}

#[test]
fn of_many_ends_a_few_are_said_and_normal_ones_are_only_kept() {
    let machine = Machine::new();
    for pid in 10..30 {
        machine.process(pid, "ruby job.rb", RUBY);
    }
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    for pid in 10..30 {
        machine.end(pid);
        let status = if pid < 20 { ExitStatus::Exited(0) } else { ExitStatus::Signal(11) };
        follower.senses.statuses.insert(pid, status);
    }
    let round = follower.round(at(10));
    assert_eq!((ends(&round).len(), round.says.len()), (20, 6), "{:?}", round.says);
    assert_eq!(round.says[5], "5 other processes ended");
}

#[test]
fn growth_and_a_near_limit_bring_readings_which_wait_where_they_cost_more_than_their_share() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.senses.census_costs = Duration::from_secs(4);
    follower.round(at(0));
    machine.grow(10, 110_000);
    let round = follower.round(at(60));
    assert!(round.batch.censuses.is_empty(), "the first is not paid for yet");
    assert!(round.says[0].contains("readings of memory are postponed"), "{:?}", round.says);
    assert!(follower.round(at(70)).says.is_empty(), "said once");
    machine.write("sys/fs/cgroup/app/memory.current", "760000000\n");
    let round = follower.round(at(80));
    assert_eq!(round.batch.censuses[0].1.reason, CensusReason::NearLimit);
    machine.grow(10, 130_000);
    let reasons =
        |round: &Round| round.batch.censuses.iter().map(|one| one.1.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&follower.round(at(1_500))), [CensusReason::Grew]);
}

#[test]
fn proportional_memory_is_renewed_while_readings_wait_until_they_are_paid_for() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.senses.census_costs = Duration::from_secs(4);
    follower.round(at(0));
    machine.grow(10, 110_000);
    let round = follower.round(at(60));
    assert!(round.batch.censuses.is_empty());
    assert_eq!(round.batch.samples[0].1.pss, Some(Bytes(110_000 * 1024)));
}

#[test]
fn one_that_was_never_read_is_read_before_one_that_grows_and_was() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.senses.census_costs = Duration::from_secs(4);
    follower.round(at(0));
    machine.grow(10, 900_000);
    machine.process(11, "ruby job.rb", RUBY);
    follower.round(at(60));
    follower.round(at(400));
    follower.round(at(2_000));
    let expected = [(10, CensusReason::First), (11, CensusReason::First), (10, CensusReason::Grew)];
    assert_eq!(follower.senses.censuses, expected);
}

#[test]
fn a_process_that_ends_while_it_is_read_keeps_its_reading_before() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    assert_eq!(follower.round(at(0)).batch.censuses.len(), 1);
    machine.grow(10, 200_000);
    follower.senses.ends = Some(machine.path().join("proc/10"));
    assert!(follower.round(at(60)).batch.censuses.is_empty());
    follower.senses.ends = None;
    assert_eq!(ends(&follower.round(at(70))), [(10, EndCause::Unknown)]);
}

#[test]
fn metrics_are_those_of_the_last_round_and_count_the_ends() {
    let machine = Machine::new();
    machine.process(10, "puma 6.6.0 (tcp://[::]:1) [blog]", RUBY);
    machine.process(11, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    machine.end(11);
    follower.round(at(10));
    let state = follower.metrics(0);
    assert_eq!((state.processes.len(), state.groups.len(), state.rounds), (1, 1, 2));
    assert_eq!(state.processes[0].proportional.unwrap().0, Bytes(102_400_000));
    assert_eq!(state.ends, [(("ruby".to_owned(), "unknown"), 1)].into());
}

#[test]
fn rounds_that_are_expensive_come_less_often_and_that_is_said_once() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.senses.costs = Duration::from_millis(75);
    let round = follower.round(at(0));
    assert_eq!(round.next, Duration::from_secs(30));
    assert!(round.says.iter().any(|line| line.contains("one every 30 s")), "{:?}", round.says);
    assert!(follower.round(at(30)).says.iter().all(|line| !line.contains("every 30 s")));
}

#[test]
fn a_clock_that_is_set_is_said_and_intervals_do_not_follow_it() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    let back = Moment { wall_ms: 5, ..at(10) };
    let round = follower.round(back);
    assert!(round.says[0].contains("was set back by 1009 seconds"), "{:?}", round.says);
    assert_eq!(round.batch.samples[0].1.at_ms, 5);
    let after = Moment { wall_ms: 10_005, ..at(20) };
    assert!(follower.round(after).says.is_empty());
}

#[test]
fn an_earlier_watch_is_gone_on_with_and_what_ended_between_is_said_to_be_unwatched() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let known =
        |number, pid| WatchedProcess { number, pid, start_ticks: 100, ..Default::default() };
    let mut follower = follower(&machine, &[]);
    follower.senses.log.insert(30, true);
    let unfinished = vec![
        (known(4, 10), true),
        (known(5, 20), true),
        (known(6, 30), true),
        (known(7, 10), false),
    ];
    let round = follower.resume(unfinished, Some(999), at(0));
    let expected = [(20, EndCause::Unwatched), (30, EndCause::Oom), (10, EndCause::Unwatched)];
    assert_eq!(ends(&round), expected);
    let round = follower.round(at(0));
    assert_eq!(round.batch.samples[0].0, 4, "under its number");
}

#[test]
fn hundreds_of_children_a_second_are_judged_at_most_once_each_and_forgotten() {
    let machine = Machine::new();
    for pid in 100..900 {
        machine.process(pid, "sh", "");
    }
    let mut follower = follower(&machine, &[]);
    for second in [0, 10, 20] {
        follower.round(at(second));
    }
    assert_eq!(follower.finder.judged_count(), 800);
    for pid in 100..900 {
        machine.end(pid);
    }
    follower.round(at(30));
    assert_eq!(follower.finder.judged_count(), 0);
}

#[test]
fn one_that_runs_another_program_now_is_no_longer_attended_and_one_that_may_not_be_read_is_followed()
 {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    machine.process(11, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    assert_eq!(follower.senses.attended, [10, 11].into());
    machine.process(10, "sleep 60", "55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/sleep\n");
    // It named itself and then became another user's.
    machine.process(11, "importer", RUBY);
    fs::remove_file(machine.path().join("proc/11/maps")).unwrap();
    fs::create_dir(machine.path().join("proc/11/maps")).unwrap();
    let round = follower.round(at(700));
    assert_eq!(ends(&round), [(10, EndCause::Replaced)]);
    assert_eq!(follower.senses.attended, [11].into());
}

#[test]
fn nothing_has_ended_while_the_list_of_processes_cannot_be_read() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    // As without a descriptor left: the kernel has not said that the process is gone.
    fs::rename(machine.path().join("proc/10/stat"), machine.path().join("stat")).unwrap();
    fs::create_dir(machine.path().join("proc/10/stat")).unwrap();
    let round = follower.round(at(10));
    assert_eq!((ends(&round), round.says.len()), (vec![], 1), "{:?}", round.says);
    assert!(round.says[0].contains("says nothing of 1 process now"), "{:?}", round.says);
    fs::remove_dir(machine.path().join("proc/10/stat")).unwrap();
    fs::rename(machine.path().join("stat"), machine.path().join("proc/10/stat")).unwrap();
    assert_eq!(follower.round(at(20)).batch.samples.len(), 1);
    machine.end(10);
    assert_eq!(ends(&follower.round(at(30))), [(10, EndCause::Unknown)]);
}

#[test]
fn rubies_beyond_the_most_that_are_followed_are_said_once() {
    let machine = Machine::new();
    for pid in 100..603 {
        machine.process(pid, "ruby job.rb", RUBY);
    }
    let mut follower = follower(&machine, &[]);
    let said = |round: &Round| {
        round.says.iter().filter(|line| line.contains("not followed")).cloned().collect::<Vec<_>>()
    };
    let round = follower.round(at(0));
    assert_eq!(said(&round), ["3 Ruby processes not followed: at most 500 are"]);
    assert!(said(&follower.round(at(700))).is_empty());
}

#[test]
fn a_new_ruby_is_found_where_the_container_has_a_shorter_uptime_than_its_processes() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    // As lxcfs shows it: since the start of the container, while starts count since that of the machine.
    machine.write("proc/uptime", "20.5 1.0\n");
    let hertz = rustix::param::clock_ticks_per_second();
    machine.started(20, "ruby job.rb", RUBY, 900 * hertz);
    let round = follower.round(at(10));
    assert!(round.batch.processes.iter().any(|one| one.pid == 20));
}

#[test]
fn what_is_done_between_rounds_counts_for_the_share_too() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.round(at(0));
    machine.grow(10, 110_000);
    // The store, metrics and rules.
    follower.senses.cpu.set(Duration::from_secs(4));
    assert!(follower.round(at(60)).batch.censuses.is_empty());
    assert_eq!(follower.round(at(300)).batch.censuses.len(), 1);
}

#[test]
fn memory_that_may_not_be_read_is_said_once_with_the_reason() {
    let machine = Machine::new();
    machine.process(10, "ruby job.rb", RUBY);
    machine.process(11, "ruby job.rb", RUBY);
    let mut follower = follower(&machine, &[]);
    follower.senses.unknown = vec!["it belongs to another user".into()];
    let said = "the memory of 2 processes cannot be read: it belongs to another user";
    assert_eq!(follower.round(at(0)).says, [said]);
    assert!(follower.round(at(10)).says.is_empty());
}
