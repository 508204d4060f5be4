//! Readings of the recorded Rubies from outside, in a thread of their own so that no sample is late.

use carat_analysis::growth::{ClassSeries, growing_classes};
use carat_model::{Bytes, ClassGrowth, KeptReading, OutsideReading, ProgressUnit};
use carat_outside::census::{Census, LookOptions};
use carat_outside::owners::HolderKind;
use carat_proc::observe::{memory_gate, read_outside};
use carat_proc::process::{Identity, ProcRoot};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The shortest time from one reading to the next.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a reading that failed is not tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// The first readings, which may show a fast leak at once, and how many times their cost lies between two of them.
const FIRST: (usize, f64) = (20, 4.0);
/// The same of the later ones: 2 % of one core.
const LATER: f64 = 50.0;
/// Later readings are also this share of the time apart that has passed, so that a long recording has some hundreds.
const APART: f64 = 0.05;
/// Readings of classes before any is said to grow.
const FEWEST: usize = 6;

/// Reads again and again what the Rubies of a tree keep, by class.
#[derive(Debug)]
pub(super) struct KeptWatch {
    /// A fixed interval, if the user gave one.
    every: Option<Duration>,
    due: Duration,
    running: Option<(Progress, JoinHandle<OutsideReading>)>,
    readings: Vec<(Progress, BTreeMap<String, u64>)>,
    /// The newest reading, until it is taken.
    kept: Option<KeptReading>,
    refusal: Option<String>,
    /// Whether any reading said what the whole tree keeps.
    is_known: bool,
}

/// How far the recording was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) elapsed: Duration,
    pub(super) requests: Option<u64>,
}

/// What the readings say at the end.
#[derive(Debug, Default)]
pub(super) struct WatchEnd {
    pub(super) classes: Vec<ClassGrowth>,
    pub(super) note: Option<String>,
    /// Why nothing was read.
    pub(super) unread: Option<String>,
}

impl KeptWatch {
    pub(super) fn new(every: Option<Duration>) -> Self {
        let due = every.unwrap_or(SHORTEST);
        Self {
            every,
            due,
            running: None,
            readings: Vec::new(),
            kept: None,
            refusal: None,
            is_known: false,
        }
    }

    /// Whether a reading should begin. Collects the one before if it is complete.
    pub(super) fn is_due(&mut self, now: Progress) -> bool {
        if self.running.as_ref().is_some_and(|(_, thread)| thread.is_finished()) {
            self.collect(now);
        }
        self.running.is_none() && now.elapsed >= self.due
    }

    /// Begins a reading of these processes.
    pub(super) fn begin(&mut self, members: Vec<Identity>, now: Progress) {
        self.due = now.elapsed + self.every.unwrap_or_default();
        let memory = memory_gate(&ProcRoot::default(), |_| {});
        let options = LookOptions { owners: true, reach: true, memory, ..LookOptions::default() };
        let thread = thread::spawn(move || read_outside(&members, &options));
        self.running = Some((now, thread));
    }

    /// The newest reading that nobody has taken.
    pub(super) fn take_kept(&mut self) -> Option<KeptReading> {
        self.kept.take()
    }

    fn collect(&mut self, now: Progress) {
        let Some((began, thread)) = self.running.take() else { return };
        let Ok(reading) = thread.join() else { return };
        let halfway = began.halfway_to(now);
        let kept = kept_of(&reading, halfway);
        let spent = kept.as_ref().map(|kept| Duration::from_secs_f64(kept.cpu_s));
        if self.every.is_none() {
            self.due = now.elapsed + self.pause(now.elapsed, spent);
        }
        if let Some((_, reason)) = reading.refused.first() {
            self.refusal = Some(reason.clone());
        } else if kept.is_none() {
            let mut parts = reading.processes.iter().flat_map(|census| &census.unknown);
            self.refusal = parts.next().map(|part| part.reason.clone());
        }
        let counts = objects_by_class(&reading);
        if !counts.is_empty() {
            self.readings.push((halfway, counts));
        }
        self.is_known |= kept.is_some();
        self.kept = kept;
    }

    /// The time until the next reading, after one that took so much processor time; `None` where it failed.
    fn pause(&self, elapsed: Duration, spent: Option<Duration>) -> Duration {
        let Some(spent) = spent else { return AFTER_FAILURE };
        match self.readings.len() < FIRST.0 {
            true => spent.mul_f64(FIRST.1).max(SHORTEST),
            false => spent.mul_f64(LATER).max(elapsed.mul_f64(APART)),
        }
    }

    /// The classes that grow, and why nothing could be read. One last reading of processes that still run says how large
    /// their objects are.
    pub(super) fn end(mut self, members: &[Identity], now: Progress) -> WatchEnd {
        let is_slow = self.running.is_some();
        self.collect(now);
        let number = self.readings.len();
        let slow = is_slow.then(|| "no reading was completed in that time".to_owned());
        let unread = self.refusal.take().or(slow).filter(|_| !self.is_known);
        if number < FEWEST {
            let reason = unread.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let note = format!(
                "classes: {number} readings are too few to tell which grow{reason}; record for longer or give a shorter --look",
            );
            let note = self.every.is_some().then_some(note);
            return WatchEnd { classes: Vec::new(), note, unread };
        }
        let (series, unit) = self.series();
        let mut classes = growing_classes(&series, unit, &BTreeMap::new());
        if !classes.is_empty() {
            classes = growing_classes(&series, unit, &bytes_each(members));
        }
        WatchEnd { classes, note: None, unread }
    }

    fn series(&self) -> (ClassSeries, ProgressUnit) {
        let driven = self.readings.last().is_some_and(|(last, _)| last.requests > Some(0));
        let unit = if driven { ProgressUnit::Requests } else { ProgressUnit::Seconds };
        let mut series = ClassSeries::new();
        let names: BTreeSet<&String> =
            self.readings.iter().flat_map(|(_, counts)| counts.keys()).collect();
        for (progress, counts) in &self.readings {
            let Some(at) = progress.in_unit(unit) else { continue };
            for &class in &names {
                // A class that a reading does not name had no object then.
                let objects = counts.get(class).copied().unwrap_or_default();
                series.entry(class.clone()).or_default().push((at, objects as f64));
            }
        }
        (series, unit)
    }
}

impl Progress {
    fn in_unit(self, unit: ProgressUnit) -> Option<f64> {
        match unit {
            ProgressUnit::Requests => self.requests.map(|requests| requests as f64),
            ProgressUnit::Seconds => Some(self.elapsed.as_secs_f64()),
        }
    }

    fn halfway_to(self, later: Self) -> Self {
        let requests = self.requests.zip(later.requests).map(|(one, two)| one.midpoint(two));
        Self { elapsed: (self.elapsed + later.elapsed) / 2, requests }
    }
}

/// What the Rubies of a tree keep; `None` unless it is known of each of them.
fn kept_of(reading: &OutsideReading, at: Progress) -> Option<KeptReading> {
    if !reading.refused.is_empty() || reading.processes.is_empty() {
        return None;
    }
    let mut rubies: Vec<u32> = reading.processes.iter().map(|census| census.process).collect();
    rubies.sort_unstable();
    let mut kept = KeptReading {
        at_ms: at.elapsed.as_millis() as u64,
        answered: at.requests,
        rubies,
        bytes: Some(Bytes(0)),
        ..KeptReading::default()
    };
    for census in &reading.processes {
        let reach = census.reach?;
        kept.objects += reach.reached_objects;
        kept.garbage_objects += reach.unreached_objects;
        kept.cpu_s += census.cost.cpu_seconds;
        let held = held_by_objects(census).map(|held| Bytes(held + reach.reached_slot_bytes));
        kept.bytes = kept.bytes.zip(held).map(|(sum, one)| sum + one);
    }
    Some(kept)
}

/// Present bytes of malloc that objects hold which the roots reach.
fn held_by_objects(census: &Census) -> Option<u64> {
    let holders = census.owners.as_ref()?.holders.iter();
    let of_objects = holders.filter(|holder| holder.kind == HolderKind::Class);
    of_objects
        .map(|holder| Some(holder.amount.present.saturating_sub(holder.garbage?.present)))
        .sum()
}

/// Objects of every class that are not garbage, as far as that is known.
fn objects_by_class(reading: &OutsideReading) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let classes = reading.processes.iter().filter_map(|census| census.classes.as_ref()).flatten();
    for class in classes {
        let garbage = class.garbage_objects.unwrap_or_default();
        *counts.entry(class.name.clone()).or_default() += class.objects.saturating_sub(garbage);
    }
    counts
}

/// Mean bytes of an object of every class with what it holds alone, where that could be read.
fn bytes_each(members: &[Identity]) -> BTreeMap<String, f64> {
    let memory = memory_gate(&ProcRoot::default(), |_| {});
    let options = LookOptions { owners: true, held: true, memory, ..LookOptions::default() };
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let reading = read_outside(members, &options);
    for class in reading.processes.into_iter().filter_map(|census| census.classes).flatten() {
        let Some(held) = class.with_held_bytes else { continue };
        let (objects, bytes) = sums.entry(class.name).or_default();
        *objects += class.objects;
        *bytes += held;
    }
    sums.into_iter()
        .filter(|(_, (objects, _))| *objects > 0)
        .map(|(class, (objects, bytes))| (class, bytes as f64 / objects as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::owners::{HolderAmount, OwnerCensus, ReachCensus};

    const AT: Progress = Progress { elapsed: Duration::from_secs(9), requests: Some(90) };

    fn census(process: u32, objects: u64, held: u64, garbage: Option<u64>) -> Census {
        let amount = |bytes| carat_outside::malloc::ChunkAmount::resident(1, bytes);
        let holder = HolderAmount {
            kind: HolderKind::Class,
            name: "String".into(),
            amount: amount(held),
            garbage: garbage.map(amount),
        };
        Census {
            process,
            reach: Some(ReachCensus {
                reached_objects: objects,
                reached_slot_bytes: 40 * objects,
                ..ReachCensus::default()
            }),
            owners: Some(OwnerCensus { holders: vec![holder], ..OwnerCensus::default() }),
            ..Census::default()
        }
    }

    fn reading(processes: Vec<Census>) -> OutsideReading {
        OutsideReading { processes, ..OutsideReading::default() }
    }

    #[test]
    fn what_a_tree_keeps_is_the_sum_of_its_rubies_without_garbage() {
        let both = reading(vec![census(8, 10, 700, Some(200)), census(7, 20, 100, Some(0))]);
        let kept = kept_of(&both, AT).unwrap();
        assert_eq!((kept.rubies, kept.objects), (vec![7, 8], 30));
        assert_eq!(kept.bytes, Some(Bytes(30 * 40 + 500 + 100)));
        assert_eq!((kept.at_ms, kept.answered), (9000, Some(90)));
    }

    #[test]
    fn what_one_ruby_does_not_tell_is_unknown_of_the_tree() {
        let unknown = reading(vec![census(7, 10, 700, None), census(8, 20, 100, Some(0))]);
        assert_eq!(kept_of(&unknown, AT).unwrap().bytes, None);
        let unreached = Census { reach: None, ..census(8, 1, 1, None) };
        assert_eq!(kept_of(&reading(vec![census(7, 1, 1, None), unreached]), AT), None);
        let refused = OutsideReading {
            refused: vec![(8, "no".into())],
            ..reading(vec![census(7, 1, 1, None)])
        };
        assert_eq!((kept_of(&refused, AT), kept_of(&reading(Vec::new()), AT)), (None, None));
    }

    #[test]
    fn readings_become_rarer_with_their_cost_and_with_the_length_of_the_recording() {
        let mut watch = KeptWatch::new(None);
        let pause = |watch: &KeptWatch, elapsed: u64, spent: f64| {
            let spent = Duration::from_secs_f64(spent);
            watch.pause(Duration::from_secs(elapsed), Some(spent)).as_secs_f64()
        };
        assert_eq!((pause(&watch, 10, 0.05), pause(&watch, 10, 0.5)), (1.0, 2.0));
        watch.readings = vec![(AT, BTreeMap::new()); 30];
        assert_eq!((pause(&watch, 60, 0.2), pause(&watch, 3600, 0.2)), (10.0, 180.0));
        assert_eq!(watch.pause(Duration::ZERO, None), AFTER_FAILURE);
    }
}
