//! What keeps more objects alive than before, by name: two readings of one process, or of two of the same program.
//!
//! Old objects count first. Young ones mostly belong to what runs at the moment, but also to a leak that no collection has seen yet.

use carat_outside::census::{Census, CensusPart};
use carat_outside::who::{
    KeeperKind, KeptAmount, KeptBy, KeptClass, KeptTree, WayLink, WayRoot, WayStep,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// What is kept in one way grows there, and not only somewhere below it, if so many of a hundred new objects are its own.
const OWN: i128 = 2;
/// Steps of a way that are told.
const STEPS: usize = 32;
/// Bytes of the smallest object.
const SMALLEST: u64 = 40;

/// Classes of what a program consists of.
const CODE: [&str; 2] = ["Class", "Module"];

/// What grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrownKind {
    /// Objects of the program.
    Data,
    /// Objects that the stack of a thread or fiber keeps, of which no code is known that uses them: old words, mostly.
    Stack,
    /// Classes, methods, bytecode, and what Ruby keeps beside them.
    Code,
    /// Names of symbols, which others keep.
    Symbols,
}

/// What is kept in one way, and grew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderGrowth {
    /// What it is.
    pub kind: GrownKind,
    /// By what it is kept, the nearest first.
    pub by: Vec<KeptBy>,
    /// The classes of what is kept in this way itself, the one that grew most first.
    pub classes: Vec<ClassGrown>,
    /// Growth of the objects that are kept in this way and of all to which they lead; at least so much where a reading does not
    /// list the way.
    pub objects: i128,
    /// Growth of their bytes; at least, as the objects.
    pub bytes: i128,
    /// Whether a reading does not list the way, so that the growth can be larger.
    pub at_least: bool,
    /// How much it is now.
    pub now: KeptAmount,
}

/// Objects of one class that are kept in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassGrown {
    /// The class's name.
    pub name: String,
    /// By how many objects it grew.
    pub grown: i128,
    /// How many there are now.
    pub now: u64,
}

/// What keeps more than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderGrowths {
    /// Processes of both readings.
    pub processes: (usize, usize),
    /// Why a reading may lack part of what was kept, with its process.
    pub incomplete: Vec<String>,
    /// All that was kept.
    pub before: KeptAmount,
    /// All that is kept.
    pub after: KeptAmount,
    /// What grew by old objects: first objects of the program, and the most bytes first.
    pub grown: Vec<HolderGrowth>,
    /// The same by young objects.
    pub young: Vec<HolderGrowth>,
}

/// Compares what two readings keep, each summed over its processes.
///
/// # Errors
/// The reason why one of them does not say it.
pub fn holder_growth(before: &[Census], after: &[Census]) -> Result<HolderGrowths, String> {
    let trees = (trees(before)?, trees(after)?);
    let sum = |trees: &[&KeptTree]| {
        trees.iter().fold(KeptAmount::default(), |sum, tree| sum.plus(tree.all))
    };
    Ok(HolderGrowths {
        processes: (before.len(), after.len()),
        incomplete: before.iter().chain(after).filter_map(incomplete).collect(),
        before: sum(&trees.0),
        after: sum(&trees.1),
        grown: JoinedTree::of(&trees.0, &trees.1, Age::Old).all_grown(),
        young: JoinedTree::of(&trees.0, &trees.1, Age::Young).all_grown(),
    })
}

/// What each process keeps.
fn trees(reading: &[Census]) -> Result<Vec<&KeptTree>, String> {
    reading.iter().map(kept_by).collect()
}

/// What is kept is known without what the roots reach only where contents moved while they were read, or malloc is not walked.
fn incomplete(census: &Census) -> Option<String> {
    let reason = census.reason(CensusPart::Reach)?;
    Some(format!("process {}: {reason}", census.process))
}

fn kept_by(census: &Census) -> Result<&KeptTree, String> {
    let kept = census.who.as_ref().and_then(|who| who.kept.as_ref());
    kept.ok_or_else(|| {
        let reason = census.reason(CensusPart::Who).unwrap_or("it was not asked who keeps what");
        format!("process {}: {reason}", census.process)
    })
}

/// Which objects count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Age {
    #[default]
    Old,
    Young,
}

impl Age {
    /// Objects and bytes.
    const fn amount(self, all: KeptAmount) -> (u64, u64) {
        match self {
            Self::Old => (all.old_objects, all.old_bytes),
            Self::Young => (
                all.objects.saturating_sub(all.old_objects),
                all.bytes.saturating_sub(all.old_bytes),
            ),
        }
    }

    /// How many of the objects that are kept in one way count, before and after. Some never get old, such as fibers, so those of
    /// any age count where what they lead to does.
    const fn counts(self, (before, after): (AgedCount, AgedCount)) -> (u64, u64) {
        match self {
            Self::Old if before.old == 0 && after.old == 0 => (before.all, after.all),
            Self::Old => (before.old, after.old),
            Self::Young => {
                (before.all.saturating_sub(before.old), after.all.saturating_sub(after.old))
            }
        }
    }
}

/// A number of objects, and how many of them are old.
#[derive(Debug, Clone, Copy, Default)]
struct AgedCount {
    all: u64,
    old: u64,
}

impl AgedCount {
    const fn plus(self, other: &KeptClass) -> Self {
        Self {
            all: self.all.saturating_add(other.objects),
            old: self.old.saturating_add(other.old_objects),
        }
    }
}

/// One way in both readings: what it is before and after.
#[derive(Debug, Default)]
struct JoinedNode {
    above: Option<usize>,
    by: KeptBy,
    below: Vec<usize>,
    all: (KeptAmount, KeptAmount),
    own: (KeptAmount, KeptAmount),
    classes: BTreeMap<String, (AgedCount, AgedCount)>,
    /// Trees of the first reading that list it.
    listed: usize,
}

/// The ways of both readings.
#[derive(Debug, Default)]
struct JoinedTree {
    age: Age,
    nodes: Vec<JoinedNode>,
    tops: Vec<usize>,
    numbers: HashMap<(Option<usize>, KeptBy), usize>,
    /// Bytes that a way has at most which a tree of the first reading does not list, the largest first.
    unlisted: Vec<u64>,
}

/// One side of both.
fn side<T>(both: &mut (T, T), is_later: bool) -> &mut T {
    if is_later { &mut both.1 } else { &mut both.0 }
}

impl JoinedTree {
    fn of(before: &[&KeptTree], after: &[&KeptTree], age: Age) -> Self {
        let bound = |tree: &&KeptTree| if tree.left_out > 0 { tree.left_out_bytes } else { 0 };
        let mut unlisted: Vec<u64> = before.iter().map(bound).collect();
        unlisted.sort_unstable_by(|one, two| two.cmp(one));
        let mut joined = Self { age, unlisted, ..Self::default() };
        before.iter().for_each(|tree| joined.add(tree, false));
        after.iter().for_each(|tree| joined.add(tree, true));
        joined
    }

    fn add(&mut self, tree: &KeptTree, is_later: bool) {
        let mut places: Vec<usize> = Vec::with_capacity(tree.nodes.len());
        // What is doubtful is no growth, but what was there before is nothing new.
        let doubtful = tree.doubtful.iter().filter(|_| !is_later);
        for node in tree.nodes.iter().chain(doubtful) {
            // What is above comes before; otherwise somebody else made the file.
            let above = node.above.and_then(|above| places.get(above as usize).copied());
            let number = self.number(above, &node.by);
            places.push(number);
            let joined = &mut self.nodes[number];
            joined.listed += usize::from(!is_later);
            let (all, own) = (side(&mut joined.all, is_later), side(&mut joined.own, is_later));
            (*all, *own) = (all.plus(node.all), own.plus(node.own));
            for class in &node.classes {
                let counts = joined.classes.entry(class.name.clone()).or_default();
                let count = side(counts, is_later);
                *count = count.plus(class);
            }
        }
    }

    fn number(&mut self, above: Option<usize>, by: &KeptBy) -> usize {
        let key = (above, by.clone());
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let number = self.nodes.len();
        self.nodes.push(JoinedNode { above, by: by.clone(), ..JoinedNode::default() });
        match above {
            Some(above) => self.nodes[above].below.push(number),
            None => self.tops.push(number),
        }
        self.numbers.insert(key, number);
        number
    }

    /// Bytes that a way may have had in trees of the first reading that do not list it: the largest bounds, as it is not kept which
    /// trees these are.
    fn unlisted_bytes(&self, node: &JoinedNode) -> u64 {
        let missing = self.unlisted.len().saturating_sub(node.listed);
        self.unlisted.iter().take(missing).sum()
    }

    fn bytes(&self, node: &JoinedNode) -> i128 {
        let before = self.age.amount(node.all.0).1.saturating_add(self.unlisted_bytes(node));
        i128::from(self.age.amount(node.all.1).1) - i128::from(before)
    }

    fn objects(&self, node: &JoinedNode) -> i128 {
        let unlisted = self.unlisted_bytes(node) / SMALLEST;
        let before = self.age.amount(node.all.0).0.saturating_add(unlisted);
        i128::from(self.age.amount(node.all.1).0) - i128::from(before)
    }

    /// Objects that were added in a way itself.
    fn own(&self, node: &JoinedNode) -> i128 {
        let count = |own: KeptAmount| AgedCount { all: own.objects, old: own.old_objects };
        let (before, after) = self.age.counts((count(node.own.0), count(node.own.1)));
        i128::from(after) - i128::from(before)
    }

    /// Everything that grew.
    fn all_grown(&self) -> Vec<HolderGrowth> {
        let mut found = Vec::new();
        // Ways have few steps, but a file can have any.
        let mut waiting = self.tops.clone();
        while let Some(number) = waiting.pop() {
            let node = &self.nodes[number];
            let (bytes, own) = (self.bytes(node), self.own(node));
            let below = || node.below.iter().copied();
            let by_those: i128 =
                below().map(|one| self.bytes(&self.nodes[one])).filter(|bytes| *bytes > 0).sum();
            // The way itself where objects are added there, otherwise what grew below it.
            let grows_here = own > 0 && own * 100 >= self.objects(node) * OWN;
            if !grows_here && by_those * 2 > bytes.max(0) {
                waiting.extend(below());
            } else if bytes > 0 {
                found.push(self.growth(number));
            }
        }
        found.sort_by(|one, two| {
            let key = |one: &HolderGrowth| {
                (one.kind != GrownKind::Data, std::cmp::Reverse((one.bytes, one.objects)))
            };
            key(one)
                .cmp(&key(two))
                .then_with(|| format!("{:?}", one.by).cmp(&format!("{:?}", two.by)))
        });
        found
    }

    fn growth(&self, number: usize) -> HolderGrowth {
        let node = &self.nodes[number];
        let mut by = vec![node.by.clone()];
        let mut at = node.above;
        // A file can have ways of any length.
        while let Some(above) = at.filter(|_| by.len() < STEPS) {
            by.push(self.nodes[above].by.clone());
            at = self.nodes[above].above;
        }
        let classes = node.classes.iter().map(|(name, counts)| {
            let (before, now) = self.age.counts(*counts);
            ClassGrown { name: name.clone(), grown: i128::from(now) - i128::from(before), now }
        });
        let mut classes: Vec<ClassGrown> = classes.collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.grown));
        HolderGrowth {
            kind: kind(&by, classes.first()),
            by,
            classes,
            objects: self.objects(node),
            bytes: self.bytes(node),
            at_least: self.unlisted_bytes(node) > 0,
            now: node.all.1,
        }
    }
}

/// What grew, by the objects themselves and by what keeps them.
fn kind(by: &[KeptBy], class: Option<&ClassGrown>) -> GrownKind {
    if by.last() == Some(&KeptBy::Root(WayRoot::SymbolTable)) {
        return GrownKind::Symbols;
    }
    let is_stack = |by: &KeptBy| match by {
        KeptBy::Step(step) => step.link == WayLink::Frame { variable: None, code: None },
        KeptBy::Root(root) => matches!(root, WayRoot::Stack { .. } | WayRoot::OtherMemory),
        KeptBy::Itself(_) => false,
    };
    if by.iter().any(is_stack) {
        return GrownKind::Stack;
    }
    let is_code = class.is_none_or(|class| {
        class.name.starts_with('(') || CODE.contains(&class.name.as_str()) || class.grown <= 0
    });
    let of_class = matches!(by.last(), Some(KeptBy::Step(WayStep { link: WayLink::Unnamed, of }))
        if matches!(of.kind, KeeperKind::Class | KeeperKind::Included | KeeperKind::Singleton | KeeperKind::Code));
    if is_code || of_class { GrownKind::Code } else { GrownKind::Data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{
        CodePlace, Holder, KeeperKind, KeptClass, KeptNode, WayLink, WayStep, WhoCensus,
    };

    fn step(link: WayLink, of: &str) -> KeptBy {
        let kind = if of == "Array" { KeeperKind::Object } else { KeeperKind::Class };
        KeptBy::Step(WayStep { link, of: Holder { kind, name: of.into(), ..Holder::default() } })
    }

    fn amount(objects: u64) -> KeptAmount {
        let bytes = objects * 40;
        KeptAmount { objects, bytes, old_objects: objects, old_bytes: bytes }
    }

    /// `@seen of Recent` has an array of so many posts, each with four objects; a class has code.
    fn reading(posts: u64, code: u64) -> Vec<Census> {
        let classes = |name: &str, count| {
            vec![KeptClass { name: name.into(), objects: count, old_objects: count }]
        };
        let seen = step(WayLink::Variable("@seen".into()), "Recent");
        let node = |above, by, all, own: u64, class: &str| KeptNode {
            above,
            by,
            all: amount(all),
            own: amount(own),
            classes: classes(class, own),
        };
        let nodes = vec![
            node(None, seen, 1 + 5 * posts, 1, "Array"),
            node(Some(0), step(WayLink::Element(None), "Array"), 5 * posts, posts, "Post"),
            node(None, step(WayLink::Unnamed, "Base"), code, code, "(iseq)"),
        ];
        let kept = KeptTree { nodes, all: amount(1 + 5 * posts + code), ..KeptTree::default() };
        let who = WhoCensus { kept: Some(kept), ..WhoCensus::default() };
        vec![Census { who: Some(who), ..Census::default() }]
    }

    #[test]
    fn what_grows_is_named_where_objects_are_added_with_all_to_which_these_lead() {
        let found = holder_growth(&reading(100, 900), &reading(300, 920)).unwrap();
        assert_eq!(found.grown.len(), 2);
        let first = &found.grown[0];
        let by: Vec<String> = first.by.iter().map(ToString::to_string).collect();
        assert_eq!(by, ["an element of Array", "@seen of Recent"]);
        assert_eq!((first.objects, first.bytes, first.at_least), (1000, 40_000, false));
        let grown = ClassGrown { name: "Post".into(), grown: 200, now: 300 };
        assert_eq!(first.classes, [grown]);
        assert_eq!((found.grown[1].objects, found.grown[1].kind), (20, GrownKind::Code));
        assert!(found.young.is_empty());
        assert_eq!(found.after.old_objects - found.before.old_objects, 1020);
    }

    #[test]
    fn a_way_that_the_first_reading_does_not_list_grew_by_what_is_certain_only() {
        let mut before = reading(100, 900);
        let kept = before[0].who.as_mut().unwrap().kept.as_mut().unwrap();
        kept.nodes.truncate(1);
        (kept.left_out, kept.left_out_bytes) = (2, 36_000);
        let found = holder_growth(&before, &reading(300, 920)).unwrap();
        let posts = &found.grown[0];
        assert_eq!((posts.bytes, posts.objects, posts.at_least), (24_000, 600, true));
    }

    #[test]
    fn a_doubtful_way_of_the_first_reading_is_not_new_and_hides_no_other() {
        let mut before = reading(100, 900);
        let kept = before[0].who.as_mut().unwrap().kept.as_mut().unwrap();
        // The code was there before, and the array was not.
        kept.doubtful = kept.nodes.split_off(2);
        kept.nodes.clear();
        let found = holder_growth(&before, &reading(300, 920)).unwrap();
        let grown: Vec<(i128, bool)> =
            found.grown.iter().map(|one| (one.bytes, one.at_least)).collect();
        assert_eq!(grown, [(60_000, false), (800, false)]);
    }

    #[test]
    fn what_only_a_stack_keeps_is_told_apart_unless_its_code_is_known() {
        let on = |code| {
            KeptBy::Step(WayStep {
                link: WayLink::Frame { variable: None, code },
                of: Holder::default(),
            })
        };
        let class = ClassGrown { name: "Post".into(), grown: 9, now: 9 };
        assert_eq!(kind(&[on(None)], Some(&class)), GrownKind::Stack);
        assert_eq!(kind(&[on(Some(CodePlace::default()))], Some(&class)), GrownKind::Data);
    }

    #[test]
    fn code_that_was_loaded_comes_after_the_objects_of_the_program() {
        let found = holder_growth(&reading(100, 900), &reading(110, 9000)).unwrap();
        let kinds: Vec<GrownKind> = found.grown.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [GrownKind::Data, GrownKind::Code]);
        assert!(found.grown[0].bytes < found.grown[1].bytes);
    }

    #[test]
    fn objects_that_no_collection_has_seen_yet_are_told_apart() {
        let mut after = reading(300, 900);
        let kept = after[0].who.as_mut().unwrap().kept.as_mut().unwrap();
        for (node, of_before) in kept.nodes.iter_mut().zip([(501, 1), (500, 100), (900, 900)]) {
            (node.all.old_objects, node.all.old_bytes) = (of_before.0, of_before.0 * 40);
            (node.own.old_objects, node.own.old_bytes) = (of_before.1, of_before.1 * 40);
            node.classes[0].old_objects = of_before.1;
        }
        let found = holder_growth(&reading(100, 900), &after).unwrap();
        assert!(found.grown.is_empty(), "{:?}", found.grown);
        assert_eq!((found.young.len(), found.young[0].objects), (1, 1000));
        assert_eq!(found.young[0].classes[0].grown, 200);
    }

    #[test]
    fn each_object_counts_in_one_of_both_lists() {
        let mut after = reading(300, 900);
        let kept = after[0].who.as_mut().unwrap().kept.as_mut().unwrap();
        for (node, (all, own)) in kept.nodes.iter_mut().zip([(751, 1), (750, 150), (900, 900)]) {
            (node.all.old_objects, node.all.old_bytes) = (all, all * 40);
            node.own.old_objects = own;
            node.classes[0].old_objects = own;
        }
        let found = holder_growth(&reading(100, 900), &after).unwrap();
        let old = ClassGrown { name: "Post".into(), grown: 50, now: 150 };
        assert_eq!((&found.grown[0].classes[0], found.grown[0].objects), (&old, 250));
        let young = ClassGrown { name: "Post".into(), grown: 150, now: 150 };
        assert_eq!((&found.young[0].classes[0], found.young[0].objects), (&young, 750));
    }

    #[test]
    fn nothing_grows_where_nothing_is_added_and_a_reading_without_holders_says_so() {
        assert!(holder_growth(&reading(300, 9), &reading(300, 9)).unwrap().grown.is_empty());
        assert!(holder_growth(&reading(300, 9), &reading(200, 9)).unwrap().grown.is_empty());
        let error = holder_growth(&[Census::default()], &reading(1, 1)).unwrap_err();
        assert_eq!(error, "process 0: it was not asked who keeps what");
    }
}
