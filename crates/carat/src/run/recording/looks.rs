//! Readings of the recorded Rubies from outside, in a thread of their own so that no sample is late.

use carat_analysis::growth::{ClassSeries, growing_classes};
use carat_model::{Bytes, ClassGrowth, KeptReading, OutsideReading, ProgressUnit};
use carat_outside::census::{Census, LookOptions};
use carat_outside::owners::HolderKind;
use carat_outside::who::{ClassHolders, Way, WhoRequest};
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
/// Growing classes whose holder is named.
const NAMED: usize = 6;
/// Times that the processes are read at the end before the answer stays unknown.
const LAST_READINGS: usize = 3;
/// The share of the added objects that may be kept in another way than the one that is named.
const OTHERS: f64 = 0.2;
/// Readings of classes before any is said to grow.
const FEWEST: usize = 6;

/// Reads again and again what the Rubies of a tree keep, by class.
#[derive(Debug)]
pub(super) struct KeptWatch {
    /// A fixed interval, if the user gave one.
    every: Option<Duration>,
    due: Duration,
    running: Option<(Progress, JoinHandle<OutsideReading>)>,
    readings: Vec<ClassReading>,
    /// The newest reading, until it is taken.
    kept: Option<KeptReading>,
    refusal: Option<String>,
    /// Readings of who keeps the classes that grew by then, with which the last one is compared, and these classes.
    early: Vec<OutsideReading>,
    asked: BTreeSet<String>,
    /// Whether any reading said what the whole tree keeps.
    is_known: bool,
}

/// The objects of every class that these Rubies had.
#[derive(Debug, Clone)]
struct ClassReading {
    at: Progress,
    rubies: Vec<u32>,
    objects: BTreeMap<String, u64>,
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
            early: Vec::new(),
            asked: BTreeSet::new(),
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
        // From the beginning, so that the user's interval does not grow by the reading.
        self.due = now.elapsed + self.every.unwrap_or_default();
        let memory = memory_gate(&ProcRoot::default(), |_| {});
        let (_, mut growing) = self.growing();
        growing.retain(|class| !self.asked.contains(&class.class));
        let who = wanted(&growing).filter(|_| self.asked.len() < NAMED);
        self.asked.extend(who.iter().flat_map(|who| who.classes.iter().cloned()));
        let options =
            LookOptions { owners: true, reach: true, who, memory, ..LookOptions::default() };
        let thread = thread::spawn(move || read_outside(&members, &options));
        self.running = Some((now, thread));
    }

    /// The newest reading that nobody has taken.
    pub(super) fn take_kept(&mut self) -> Option<KeptReading> {
        self.kept.take()
    }

    fn collect(&mut self, now: Progress) {
        let Some((began, thread)) = self.running.take() else { return };
        // A reading that panicked says nothing; the recording goes on, and the next one is not begun at once.
        let Ok(reading) = thread.join() else {
            self.refusal = Some("a reading failed; please report it".to_owned());
            self.due = now.elapsed + self.every.unwrap_or(AFTER_FAILURE);
            return;
        };
        // The memory was read between beginning and end, so the middle is its moment.
        let halfway = began.halfway_to(now);
        let kept = kept_of(&reading, halfway);
        let spent = kept.as_ref().map(|kept| Duration::from_secs_f64(kept.cpu_s));
        if self.every.is_none() {
            self.due = now.elapsed + self.pause(now.elapsed, spent);
        }
        // With one process missing, the sum is not that of the tree.
        if let Some((_, reason)) = reading.refused.first() {
            self.refusal = Some(reason.clone());
        } else if kept.is_none() {
            let mut parts = reading.processes.iter().flat_map(|census| &census.unknown);
            self.refusal = parts.next().map(|part| part.reason.clone());
        }
        self.add(ClassReading::of(&reading, halfway));
        self.is_known |= kept.is_some();
        self.kept = kept;
        if reading.processes.iter().any(|census| census.who.is_some()) {
            self.early.push(reading);
        }
    }

    fn add(&mut self, reading: ClassReading) {
        if reading.rubies.is_empty() {
            return;
        }
        // Who kept the objects of other processes says nothing of these.
        if self.readings.last().is_some_and(|last| last.rubies != reading.rubies) {
            self.early.clear();
            self.asked.clear();
        }
        self.readings.push(reading);
    }

    /// The readings since the Rubies changed: another process has other objects.
    fn comparable(&self) -> &[ClassReading] {
        let Some(last) = self.readings.last() else { return &[] };
        let same = self.readings.iter().rev().take_while(|one| one.rubies == last.rubies);
        &self.readings[self.readings.len() - same.count()..]
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
        // Waits for a reading that runs, whose result is the newest.
        self.collect(now);
        let number = self.comparable().len();
        let slow = is_slow.then(|| "no reading was completed in that time".to_owned());
        let unread = self.refusal.take().or(slow).filter(|_| !self.is_known);
        if number < FEWEST {
            let reason = unread.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let note = format!(
                "classes: {number} readings of the same Rubies are too few to tell which grow{reason}; record for longer or give a shorter --look",
            );
            let note = self.every.is_some().then_some(note);
            return WatchEnd { classes: Vec::new(), note, unread };
        }
        let ((series, unit), mut classes) = self.growing();
        // One more reading, so only where a class grows.
        if !classes.is_empty() {
            let last = last_reading(members, &classes);
            classes = growing_classes(&series, unit, &bytes_each(&last));
            for class in &mut classes {
                let points = series.get(&class.class);
                let ends = points.and_then(|points| points.first().zip(points.last()));
                let grown = ends.map_or(0.0, |(first, last)| class.rate * (last.0 - first.0));
                class.kept_by = keeper(&last, &class.class, grown)
                    .or_else(|| grown_keeper(&self.early, &last, &class.class, grown));
            }
        }
        WatchEnd { classes, note: None, unread }
    }

    /// The classes that grow by the readings so far; none while these are too few.
    fn growing(&self) -> ((ClassSeries, ProgressUnit), Vec<ClassGrowth>) {
        let (series, unit) = self.series();
        let classes = match self.comparable().len() < FEWEST {
            true => Vec::new(),
            false => growing_classes(&series, unit, &BTreeMap::new()),
        };
        ((series, unit), classes)
    }

    fn series(&self) -> (ClassSeries, ProgressUnit) {
        let readings = self.comparable();
        let driven = readings.last().is_some_and(|last| last.at.requests > Some(0));
        let unit = if driven { ProgressUnit::Requests } else { ProgressUnit::Seconds };
        let mut series = ClassSeries::new();
        let names: BTreeSet<&String> =
            readings.iter().flat_map(|reading| reading.objects.keys()).collect();
        for reading in readings {
            let Some(at) = reading.at.in_unit(unit) else { continue };
            for &class in &names {
                // A class that a reading does not name had no object then.
                let objects = reading.objects.get(class).copied().unwrap_or_default();
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
        // What is unknown of one process is unknown of the tree.
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

impl ClassReading {
    /// Objects that are not garbage, as far as that is known, of the Rubies that said how many they have.
    fn of(reading: &OutsideReading, at: Progress) -> Self {
        let (mut rubies, mut objects) = (Vec::new(), BTreeMap::new());
        for census in &reading.processes {
            let Some(classes) = &census.classes else { continue };
            rubies.push(census.process);
            for class in classes {
                let garbage = class.garbage_objects.unwrap_or_default();
                *objects.entry(class.name.clone()).or_default() +=
                    class.objects.saturating_sub(garbage);
            }
        }
        rubies.sort_unstable();
        Self { at, rubies, objects }
    }
}

/// A reading of processes that still run: how large objects are, and who keeps those of the growing classes.
fn last_reading(members: &[Identity], growing: &[ClassGrowth]) -> OutsideReading {
    let memory = memory_gate(&ProcRoot::default(), |_| {});
    let who = wanted(growing);
    let options = LookOptions { owners: true, held: true, who, memory, ..LookOptions::default() };
    let read = || read_outside(members, &options);
    let is_answered = |reading: &OutsideReading| {
        reading.processes.iter().any(|census| is_answered(census, &options))
    };
    // A collection may have been at work; once more it rarely is.
    (1..LAST_READINGS).map(|_| read()).find(is_answered).unwrap_or_else(read)
}

/// The question who keeps the objects of growing classes; `None` if no person could name a holder of them.
fn wanted(growing: &[ClassGrowth]) -> Option<WhoRequest> {
    // Those of Ruby's own have none.
    let named = growing.iter().map(|class| &class.class).filter(|class| !class.starts_with('('));
    let classes: Vec<String> = named.take(NAMED).cloned().collect();
    (!classes.is_empty()).then_some(WhoRequest { classes, ..WhoRequest::default() })
}

/// Whether a reading names who keeps the wanted classes and knows the size of their objects.
fn is_answered(census: &Census, options: &LookOptions) -> bool {
    let Some(who) = &options.who else { return true };
    let ways = census.who.iter().flat_map(|who| &who.classes);
    let sizes = census.classes.iter().flatten().filter(|class| who.classes.contains(&class.name));
    ways.into_iter().any(|class| !class.ways.is_empty())
        && sizes.into_iter().any(|class| class.with_held_bytes.is_some())
}

/// Mean bytes of an object of every class with what it holds alone, where that could be read.
fn bytes_each(reading: &OutsideReading) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for class in reading.processes.iter().filter_map(|census| census.classes.as_ref()).flatten() {
        let Some(held) = class.with_held_bytes else { continue };
        let (objects, bytes) = sums.entry(class.name.clone()).or_default();
        *objects += class.objects;
        *bytes += held;
    }
    sums.into_iter()
        .filter(|(_, (objects, _))| *objects > 0)
        .map(|(class, (objects, bytes))| (class, bytes as f64 / objects as f64))
        .collect()
}

/// What keeps the objects of a class that were added, if it is certain for most of these: even if every object that is kept in
/// another way were one of them.
fn keeper(reading: &OutsideReading, class: &str, grown: f64) -> Option<Way> {
    let kept = ClassKept::of(reading, class)?;
    let (way, objects) = kept.ways.iter().max_by_key(|(_, objects)| *objects)?;
    let others = kept.objects.saturating_sub(*objects) as f64;
    (grown > 0.0 && others <= grown * OTHERS).then(|| way.clone())
}

/// What keeps the objects of a class that were added from the first reading that knows it to the last one, if as good as all were added to what it keeps, and
/// they are enough to stand for all that were added.
fn grown_keeper(
    early: &[OutsideReading],
    last: &OutsideReading,
    class: &str,
    grown: f64,
) -> Option<Way> {
    let early = early.iter().find_map(|reading| ClassKept::of(reading, class))?;
    let last = ClassKept::of(last, class).filter(|last| !early.is_open && !last.is_open)?;
    let added = last.objects.saturating_sub(early.objects) as f64;
    let (way, objects) = last
        .ways
        .iter()
        .map(|(way, objects)| (way, objects.saturating_sub(early.most_by(way))))
        .max_by_key(|(_, objects)| *objects)?;
    let is_most = objects as f64 >= added * (1.0 - OTHERS);
    (grown > 0.0 && added >= grown * OTHERS && is_most).then(|| way.clone())
}

/// What keeps the objects of one class, in all processes.
#[derive(Default)]
struct ClassKept {
    /// Objects that are not known to be garbage.
    objects: u64,
    /// Whether some of them may be garbage.
    is_open: bool,
    /// Objects by way, without those of ways with few.
    ways: Vec<(Way, u64)>,
    /// Objects that a way which is not listed may have at most.
    unlisted: u64,
}

impl ClassKept {
    /// `None` if nothing was asked about the class, or one of the processes does not say.
    fn of(reading: &OutsideReading, class: &str) -> Option<Self> {
        let mut found = None;
        for census in &reading.processes {
            let classes = &census.who.as_ref()?.classes;
            let of_class = |one: &&ClassHolders| one.name == class;
            for class in classes.iter().filter(of_class) {
                found.get_or_insert_with(Self::default).add(class);
            }
        }
        found
    }

    fn add(&mut self, class: &ClassHolders) {
        // Where garbage is unknown, all of what no way was found to may be kept in others.
        self.objects += class.objects.saturating_sub(class.garbage_objects.unwrap_or(0));
        self.is_open |= class.garbage_objects.is_none();
        // The commonest are listed.
        let least = class.ways.iter().map(|counted| counted.objects).min();
        self.unlisted += class.other_objects.min(least.unwrap_or(u64::MAX));
        for counted in &class.ways {
            let common = counted.way.common();
            let any = common.of_any_symbol();
            // A thread has one value of each.
            let in_thread = common.steps.first().is_some_and(|step| step.of.name == "Thread");
            let common = if in_thread && counted.objects > 1 { any.clone() } else { common };
            match self.ways.iter_mut().find(|(way, _)| way.of_any_symbol() == any) {
                Some((way, objects)) => {
                    // As the tags of each request, in the variables of whatever thread answered it.
                    *way = if *way == common { common } else { any };
                    *objects += counted.objects;
                }
                None => self.ways.push((common, counted.objects)),
            }
        }
    }

    /// Objects that a way has at most.
    fn most_by(&self, way: &Way) -> u64 {
        let any = way.of_any_symbol();
        let listed = self.ways.iter().find(|(one, _)| one.of_any_symbol() == any);
        listed.map_or(self.unlisted, |(_, objects)| objects + self.unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::heap::ClassCount;
    use carat_outside::owners::{HolderAmount, OwnerCensus, ReachCensus};
    use carat_outside::who::{CountedWay, Holder, WayLink, WayStep, WhoCensus};

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
    fn the_holder_of_a_growing_class_is_named_only_if_most_of_the_growth_must_be_its() {
        let way = |name: &str, objects| {
            let object = Holder { name: name.into(), ..Holder::default() };
            CountedWay { objects, way: Way { object, ..Way::default() } }
        };
        let reading_of = |objects, ways: Vec<CountedWay>| {
            let class =
                ClassHolders { name: "Post".into(), objects, ways, ..ClassHolders::default() };
            let who = WhoCensus { classes: vec![class], ..WhoCensus::default() };
            reading(vec![Census { who: Some(who), ..census(7, 1, 1, None) }])
        };
        let both = reading_of(1000, vec![way("Post", 900), way("Other", 60)]);
        assert_eq!(keeper(&both, "Post", 500.0).unwrap().object.name, "Post");
        // All of the growth may be among the hundred that are kept otherwise.
        assert_eq!(keeper(&both, "Post", 200.0), None);
        assert_eq!(keeper(&both, "Page", 500.0), None);
        // Values in two hashes, or in the variables of a thread, of which the reading names one.
        let value = |symbol: &str, of: &str| {
            let of =
                Holder { name: of.into(), thread: Some((8, "puma".into())), ..Holder::default() };
            let step = WayStep { link: WayLink::Symbol(symbol.into()), of };
            let object = Holder { name: "Post".into(), ..Holder::default() };
            CountedWay { objects: 450, way: Way { object, steps: vec![step], root: None } }
        };
        let kept_by = |one, other| {
            let found = reading_of(1000, vec![one, other]);
            keeper(&found, "Post", 900.0).unwrap().keeper()
        };
        let by_hash = |one, other| kept_by(value(one, "Hash"), value(other, "Hash"));
        assert_eq!(by_hash("one", "one"), "[:one] of Hash ← …");
        assert_eq!(by_hash("one", "two"), "the value of a symbol in Hash ← …");
        let by_thread = kept_by(value("tags:1", "Thread"), value("tags:1", "Thread"));
        assert_eq!(by_thread, "the value of a symbol in Thread ← …");
        let mut unknown = both;
        unknown.processes.push(census(8, 1, 1, None));
        assert_eq!(keeper(&unknown, "Post", 500.0), None);
    }

    #[test]
    fn where_much_was_kept_before_the_holder_is_the_one_whose_objects_grew() {
        let way = |name: &str, objects| {
            let object = Holder { name: name.into(), ..Holder::default() };
            CountedWay { objects, way: Way { object, ..Way::default() } }
        };
        let reading_of = |objects, garbage, ways: [u64; 2], other| {
            let class = ClassHolders {
                name: "Post".into(),
                objects,
                garbage_objects: garbage,
                ways: vec![way("Table", ways[0]), way("Leak", ways[1])],
                other_ways: 9,
                other_objects: other,
                ..ClassHolders::default()
            };
            let who = WhoCensus { classes: vec![class], ..WhoCensus::default() };
            reading(vec![Census { who: Some(who), ..census(7, 1, 1, None) }])
        };
        let before = reading_of(5300, Some(0), [5000, 100], 200);
        let named = |last: &OutsideReading, grown| {
            grown_keeper(std::slice::from_ref(&before), last, "Post", grown)
                .map(|way| way.object.name)
        };
        let later = reading_of(6300, Some(0), [5000, 1090], 210);
        assert_eq!(keeper(&later, "Post", 1000.0), None);
        // A way with fewer may have had a hundred before, too.
        assert_eq!(named(&later, 1000.0).as_deref(), Some("Leak"));
        // Too few of all that were added, and none.
        assert_eq!((named(&later, 6000.0), named(&before, 1000.0)), (None, None));
        // Spread over several holders, and not known to be no garbage.
        assert_eq!(named(&reading_of(6300, Some(0), [5000, 700], 600), 1000.0), None);
        assert_eq!(named(&reading_of(6300, None, [5000, 1090], 210), 1000.0), None);
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
    fn workers_that_join_are_no_growth_of_a_class_and_one_that_grows_after_that_is_found() {
        let classes = |process: u32, objects: [u64; 2]| {
            let class = |(name, objects): (&str, u64)| ClassCount {
                name: name.into(),
                objects,
                ..ClassCount::default()
            };
            let classes = ["String", "Post"].into_iter().zip(objects).map(class).collect();
            Census { classes: Some(classes), ..census(process, 1, 1, None) }
        };
        let mut watch = KeptWatch::new(None);
        for second in 0..40 {
            let rubies = if second < 15 { 1 } else { 5 };
            let of = |process| {
                classes(process, [40_000 + second % 3 * 700, 7 + 30 * second.saturating_sub(20)])
            };
            let at = Progress { elapsed: Duration::from_secs(second), requests: None };
            watch.add(ClassReading::of(&reading((1..=rubies).map(of).collect()), at));
            let growing = watch.growing().1;
            let names: Vec<&str> = growing.iter().map(|one| one.class.as_str()).collect();
            assert!(names.is_empty() || (names == ["Post"] && second > 21), "{second}: {names:?}");
        }
        assert_eq!(watch.growing().1.len(), 1);
    }

    #[test]
    fn readings_become_rarer_with_their_cost_and_with_the_length_of_the_recording() {
        let mut watch = KeptWatch::new(None);
        let pause = |watch: &KeptWatch, elapsed: u64, spent: f64| {
            let spent = Duration::from_secs_f64(spent);
            watch.pause(Duration::from_secs(elapsed), Some(spent)).as_secs_f64()
        };
        assert_eq!((pause(&watch, 10, 0.05), pause(&watch, 10, 0.5)), (1.0, 2.0));
        watch.readings = vec![ClassReading::of(&reading(vec![census(7, 1, 1, None)]), AT); 30];
        assert_eq!((pause(&watch, 60, 0.2), pause(&watch, 3600, 0.2)), (10.0, 180.0));
        assert_eq!(watch.pause(Duration::ZERO, None), AFTER_FAILURE);
    }
}
