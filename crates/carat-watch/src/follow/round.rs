//! One round after the other.

use crate::follow::due::{DueSigns, due, is_urgent};
use crate::follow::state::{Followed, Follower, Moment, Round, event};
use crate::follow::{CensusOrder, Senses};
use crate::metrics::{MetricProcess, MetricState, cause_label};
use crate::rule::RuleProcess;
use crate::store::{Batch, SetBack};
use carat_model::watch::{CensusReason, EndCause, GroupSample, WatchSample};
use carat_model::{Bytes, count};
use carat_proc::observe::{
    Status, group_kills, memory_pressure, nearest_limit, oom_kills, parse_rollup, parse_status,
};
use carat_proc::process::{Identity, ProcRoot, Stat};
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Difference of the two clocks from one round to the next that is a jump, in milliseconds.
const JUMP_MS: u64 = 5_000;
/// Proportional memory of that age is acted on, at least.
const FRESH: Duration = Duration::from_secs(60);
/// A longer time between two rounds is said from this multiple on.
const WORTH_SAYING: f64 = 1.5;
/// Growth since the last reading that is read on a busy machine too, as a factor.
const GREW_MUCH: f64 = 1.2;
/// The least time from one round to the next, in which several ends are one round.
const SOONEST: Duration = Duration::from_millis(500);
/// Load of the machine, in processes that want to run for each core, above which nothing is read that can wait.
const BUSY: f64 = 2.0;

impl<S: Senses> Follower<S> {
    /// What is known now, for whoever asks; the size of the store is known to the caller.
    pub fn metrics(&self, classes: usize) -> MetricState<'_> {
        let processes = self.followed.values().map(|one| MetricProcess {
            process: &one.process,
            sample: one.sample.as_ref(),
            growth: one.hour.rate(),
            census: one.census.as_ref(),
            proportional: one.proportional,
        });
        MetricState {
            processes: processes.collect(),
            groups: self.groups.values().collect(),
            ends: self.ends.clone(),
            classes,
            rounds: self.rounds,
            cpu_seconds: self.senses.cpu().as_secs_f64(),
            store_bytes: None,
        }
    }

    /// What rules may ask: figures of a moment ago, and unknown where they are older.
    pub fn rule_processes(&self, now: Moment) -> Vec<RuleProcess<'_>> {
        let fresh = FRESH.max(self.options.every * 6);
        let of = |one: &'_ Followed| {
            let at = one.pss_at.filter(|at| now.since.saturating_sub(*at) <= fresh);
            at.and(one.proportional)
        };
        self.followed
            .values()
            .map(|one| RuleProcess {
                process: &one.process,
                rss: one.sample.and_then(|sample| sample.rss),
                pss: of(one).map(|both| both.0),
                private: of(one).map(|both| both.1),
                swap: one.sample.and_then(|sample| sample.swap),
                group: one.process.group.as_ref().and_then(|group| self.groups.get(group)),
            })
            .collect()
    }

    /// Counts an end.
    pub(super) fn count_end(&mut self, server: &str, cause: EndCause) {
        *self.ends.entry((server.to_owned(), cause_label(cause))).or_default() += 1;
    }

    /// Looks once.
    pub fn round(&mut self, now: Moment) -> Round {
        self.rounds += 1;
        // Before anything is spent: what this round may cost includes the time since the last one.
        self.allowance.advance(now.since);
        // What was done since the last round: the store, metrics, rules, and at first the start.
        self.charge();
        let started = self.charged;
        let boot = self.options.boot.clone();
        let batch = Batch { at_ms: now.wall_ms, boot, ..Batch::default() };
        let mut round = Round { batch, ..Round::default() };
        self.note_jump(now, &mut round);
        // Before the list: a process that is in it was not among these.
        let machine_kills = oom_kills(&self.root);
        let stats = self.stats();
        self.find_gone(&stats, now, &mut round);
        // After the ends, which compare the count of now with that of the last round.
        self.machine_kills = machine_kills;
        // Not part of what every round costs: all trees are looked at only when one is new.
        let before = self.senses.cpu();
        self.find_new(&stats, now, &mut round);
        let finding = self.senses.cpu().saturating_sub(before);
        Self::say_ends(&mut round);
        for one in self.followed.values_mut() {
            one.stat = stats.get(&one.identity.pid).cloned();
        }
        self.sample(now, &mut round);
        let groups = self.sample_groups(now, &mut round);
        let cheap = self.senses.cpu().saturating_sub(started).saturating_sub(finding);
        self.read_proportional(now);
        let samples =
            self.followed.values().filter_map(|one| Some((one.process.number, one.sample?)));
        round.batch.samples = samples.collect();
        self.charge();
        self.read_due(now, &groups, &mut round);
        round.next = self.allowance.interval(self.options.every, cheap);
        // A server whose children end all the time must not be looked at all the time.
        round.soonest = if self.allowance.allows() { SOONEST } else { round.next };
        let backs_off = round.next > self.options.every.mul_f64(WORTH_SAYING);
        let seconds = round.next.as_secs_f64();
        self.say("interval", backs_off, now, &mut round, || {
            format!(
                "a round takes {:.0} ms of processor time, and writing it more, so there is one every {seconds:.0} s",
                cheap.as_secs_f64() * 1e3,
            )
        });
        round
    }

    /// Charges all that this process has done since the last charge.
    fn charge(&mut self) {
        let cpu = self.senses.cpu();
        self.allowance.spend(cpu.saturating_sub(self.charged));
        self.charged = cpu;
    }

    /// Every process of this moment but threads of the kernel; a zombie is none.
    fn stats(&self) -> HashMap<u32, Stat> {
        let pids = self.root.pids().unwrap_or_default();
        let all = pids.into_iter().filter_map(|pid| self.root.stat(pid).ok());
        all.filter(|stat| !stat.is_kernel_thread).map(|stat| (stat.pid, stat)).collect()
    }

    fn note_jump(&mut self, now: Moment, round: &mut Round) {
        let Some(last) = self.last.replace(now) else {
            self.epoch_ms = now.wall_ms;
            return;
        };
        let passed = now.since.saturating_sub(last.since).as_millis();
        let expected = last.wall_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        let jump = now.wall_ms.abs_diff(expected);
        // A clock that is adjusted slowly differs by less, and that changes no conclusion.
        if jump < JUMP_MS {
            return;
        }
        let seconds = count(jump / 1000, "second");
        let back = SetBack { from_ms: self.epoch_ms, by_ms: jump };
        let text = if now.wall_ms < expected && back.by_ms <= back.from_ms {
            // What follows must not lie before what was written.
            round.set_back = Some(back);
            back.apply(&mut self.epoch_ms);
            self.followed.values_mut().for_each(|one| back.apply(&mut one.process.first_ms));
            format!(
                "the clock of this machine was set back by {seconds}: times before are moved by as much"
            )
        } else {
            self.epoch_ms = now.wall_ms;
            let direction = if now.wall_ms > expected { "forward" } else { "back" };
            format!(
                "the clock of this machine was set {direction} by {seconds}: times before and after do not match"
            )
        };
        event(round, now, None, text.clone());
        round.says.push(text);
    }

    /// Resident memory and swap of every process.
    fn sample(&mut self, now: Moment, round: &mut Round) {
        let root = &self.root;
        for one in self.followed.values_mut() {
            let Ok(text) = root.read(one.identity.pid, "status") else { continue };
            let status = parse_status(&text);
            // Of a process that is ending the memory is gone before the process is.
            if status.rss.is_none() {
                continue;
            }
            let sample = WatchSample {
                at_ms: now.wall_ms,
                rss: status.rss,
                anonymous: status.anonymous,
                swap: status.swap,
                threads: status.threads,
                ..WatchSample::default()
            };
            one.sample = Some(sample);
            if let Some(size) = sample.size() {
                one.hour.add(now.since, size);
            }
        }
        round.batch.at_ms = now.wall_ms;
    }

    /// Figures of every group, by its name; each group is read once.
    fn sample_groups(&mut self, now: Moment, round: &mut Round) -> HashMap<String, GroupFigures> {
        let mut read: HashMap<String, GroupFigures> = HashMap::new();
        for one in self.followed.values_mut() {
            let Some(group) = &one.process.group else { continue };
            let known = read.get(group).copied();
            let figures = known.unwrap_or_else(|| GroupFigures::read(&self.root, one));
            // After the reads: a kill that is already counted must not stand as the count before, and of a process that is
            // gone no limit is known, which is not the same as none.
            if !has_memory(&self.root, one.identity) {
                continue;
            }
            one.kills = figures.kills.or(one.kills);
            if known.is_some() {
                continue;
            }
            read.insert(group.clone(), figures);
            round.batch.groups.push(GroupSample {
                group: group.clone(),
                at_ms: now.wall_ms,
                used: figures.used,
                limit: figures.limit,
                oom_kills: one.kills,
            });
        }
        let groups = round.batch.groups.iter().cloned();
        self.groups = groups.map(|group| (group.group.clone(), group)).collect();
        read
    }

    /// Proportional memory, of those first for which it is oldest.
    fn read_proportional(&mut self, now: Moment) {
        let mut all: Vec<&mut Followed> = self.followed.values_mut().collect();
        // The order of the last readings, so that none waits for ever where few are affordable.
        all.sort_by_key(|one| one.pss_at);
        let before = self.senses.cpu();
        for one in all {
            let spent = self.senses.cpu().saturating_sub(before);
            // At most a quarter of what one round may cost, once every process has a figure: the readings need the rest.
            let most = self.options.every.mul_f64(self.options.share / 4.0);
            // Also while readings made a debt: rules act on figures that are fresh.
            let may = self.allowance.allows_urgent() && (one.pss_at.is_none() || spent < most);
            let (true, Some(sample)) = (may && is_readable(one.stat.as_ref()), &mut one.sample)
            else {
                continue;
            };
            // It could not be sampled in this round, so the figure would stand beside older ones.
            if sample.at_ms != now.wall_ms {
                continue;
            }
            let Some((pss, private)) = proportional(&self.root, one.identity) else { continue };
            (sample.pss, sample.private) = (Some(pss), Some(private));
            one.proportional = Some((pss, private));
            one.pss_at = Some(now.since);
        }
    }

    /// Reads what is due, what cannot wait first.
    fn read_due(&mut self, now: Moment, groups: &HashMap<String, GroupFigures>, round: &mut Round) {
        let all = self.all_due(now, groups);
        let busy = is_busy(&self.root);
        let began = self.senses.cpu();
        let mut postponed = false;
        for (identity, reason, signs) in all {
            let may = match is_urgent(reason) {
                true => self.allowance.allows_urgent(),
                false => {
                    self.allowance.allows() && !(busy && self.can_wait(identity, reason, &signs))
                }
            };
            // A quarter of the interval: rounds must not be late for long, because ends are seen in them.
            if !may || self.senses.cpu().saturating_sub(began) > self.options.every / 4 {
                postponed = true;
                continue;
            }
            let before = self.senses.cpu();
            let order = CensusOrder {
                at_ms: now.wall_ms,
                reason,
                before: self.followed.get(&identity).and_then(|one| one.census.as_ref()),
                may_search: is_urgent(reason) || self.allowance.allows(),
            };
            let census = self.senses.census(identity, &order);
            self.charge();
            let cost = self.charged.saturating_sub(before);
            tracing::debug!(process = identity.pid, ?cost, "a reading");
            // What ended while it was read says nothing, and must not stand in the place of the reading before.
            if census.is_empty() && !has_memory(&self.root, identity) {
                continue;
            }
            if let Some(one) = self.followed.get_mut(&identity) {
                one.read = Some(signs);
                one.census = Some(census.clone());
                round.batch.censuses.push((one.process.number, census));
            }
        }
        self.say_unreadable(now, round);
        self.say("postponed", postponed, now, round, || {
            let why =
                if busy { "the machine is busy" } else { "it would cost more than its share" };
            format!("readings of memory are postponed: {why}")
        });
    }

    /// What is due, in the order in which it is read.
    fn all_due(
        &self,
        now: Moment,
        groups: &HashMap<String, GroupFigures>,
    ) -> Vec<(Identity, CensusReason, DueSigns)> {
        let mut all = Vec::new();
        for one in self.followed.values().filter(|one| is_readable(one.stat.as_ref())) {
            let group = one.process.group.as_ref().and_then(|group| groups.get(group)).copied();
            let GroupFigures { of_limit, pressure, .. } = group.unwrap_or_default();
            let size = one.sample.and_then(|sample| sample.size());
            let signs = DueSigns { at: now.since, size, of_limit, pressure };
            if let Some(reason) = due(one.read.as_ref(), &signs, self.options.every) {
                all.push((one.read.map(|read| read.at), (one.identity, reason, signs)));
            }
        }
        // One that was never read comes before one that grows: of it nothing would be known at its end.
        all.sort_by_key(|(read, (_, reason, signs))| {
            (!is_urgent(*reason), *read, std::cmp::Reverse(signs.size))
        });
        all.into_iter().map(|(_, one)| one).collect()
    }

    fn say_unreadable(&mut self, now: Moment, round: &mut Round) {
        let all: Vec<&str> = self.followed.values().filter_map(refused).collect();
        let (number, reason) = (all.len(), all.first().copied().unwrap_or_default());
        let text = format!("the memory of {} cannot be read: {reason}", count(number, "process"));
        self.say("unreadable memory", number > 0, now, round, || text.clone());
    }

    /// Whether a reading can wait until the machine is less busy.
    fn can_wait(&self, identity: Identity, reason: CensusReason, now: &DueSigns) -> bool {
        let before = self.followed.get(&identity).and_then(|one| one.read?.size);
        let much = before
            .zip(now.size)
            .is_some_and(|(before, now)| now.0 as f64 >= before.0 as f64 * GREW_MUCH);
        match reason {
            CensusReason::Hourly => true,
            CensusReason::Grew => !much,
            _ => false,
        }
    }

    /// Says something when it begins to hold.
    pub(super) fn say(
        &mut self,
        what: &'static str,
        holds: bool,
        now: Moment,
        round: &mut Round,
        text: impl Fn() -> String,
    ) {
        // Forgotten, so that it is said again when it holds again.
        if !holds {
            self.said.remove(what);
        } else if self.said.insert(what) {
            let text = text();
            event(round, now, None, text.clone());
            round.says.push(text);
        }
    }

    /// Whether there is something left for a look at all trees.
    pub(super) fn may_find(&self) -> bool {
        self.allowance.allows_urgent()
    }
}

/// What one round reads of a control group; unknown where nothing says.
#[derive(Debug, Clone, Copy, Default)]
struct GroupFigures {
    kills: Option<u64>,
    used: Option<Bytes>,
    limit: Option<Bytes>,
    /// The share of the limit that is used, as a fraction.
    of_limit: Option<f64>,
    /// Waiting for memory, in percent of the time.
    pressure: Option<f64>,
}

impl GroupFigures {
    fn read(root: &ProcRoot, one: &Followed) -> Self {
        let limit = nearest_limit(root, one.identity.pid);
        Self {
            kills: one.folder.as_deref().and_then(group_kills),
            used: limit.as_ref().map(|limit| limit.used),
            limit: limit.as_ref().map(|limit| limit.limit),
            of_limit: limit.map(|limit| limit.share()),
            pressure: memory_pressure(root, one.folder.as_deref()),
        }
    }
}

/// Why nothing of a process could be read the last time.
fn refused(one: &Followed) -> Option<&str> {
    let census = one.census.as_ref()?;
    census.unknown.first().filter(|_| census.is_empty()).map(String::as_str)
}

/// Whether a process still runs with its memory, which a process that ends loses first.
pub(super) fn has_memory(root: &ProcRoot, process: Identity) -> bool {
    let status = root.read(process.pid, "status").map(|text| parse_status(&text));
    status.is_ok_and(|status| status.has_memory()) && root.alive(process)
}

/// Whether reading its mappings cannot hang: a process in an uninterruptible sleep may hold the lock of its memory.
fn is_readable(stat: Option<&Stat>) -> bool {
    stat.is_some_and(|stat| stat.state != 'D' && !stat.is_dead())
}

fn proportional(root: &ProcRoot, process: Identity) -> Option<(Bytes, Bytes)> {
    let status: Status = parse_status(&root.read(process.pid, "status").ok()?);
    if !status.is_walked_in_time() {
        return None;
    }
    let rollup = parse_rollup(&root.read(process.pid, "smaps_rollup").ok()?)?;
    // Checked afterwards: a later process may have got the pid.
    root.alive(process).then_some((rollup.pss, rollup.private))
}

fn is_busy(root: &ProcRoot) -> bool {
    let text = fs::read_to_string(root.path().join("loadavg")).unwrap_or_default();
    let load = text.split(' ').next().and_then(|load| load.parse::<f64>().ok());
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    load.is_some_and(|load| load > BUSY * cores)
}
