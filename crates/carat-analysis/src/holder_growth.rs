//! What keeps more objects alive than before, by name: two readings of one process, or of two of the same program.
//!
//! Only old objects count. Young ones belong to what runs at the moment, and there are always many of them.

use carat_outside::census::{Census, CensusPart};
use carat_outside::who::{KeptAmount, KeptBy, KeptTree};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// What is kept in one way grows there, and not only somewhere below it, if so many of a hundred new objects are its own.
const OWN: i128 = 2;
/// Bytes of the smallest object.
const SMALLEST: u64 = 40;

/// What is kept in one way, and grew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderGrowth {
    /// By what it is kept, the nearest first.
    pub by: Vec<KeptBy>,
    /// The classes of what is kept in this way itself, the one that grew most first.
    pub classes: Vec<ClassGrown>,
    /// Growth of the old objects that are kept in this way and of all to which they lead. Not more than that where a reading
    /// does not list the way.
    pub objects: i128,
    /// Growth of their bytes; at least, as the objects.
    pub bytes: i128,
    /// Whether a reading does not list the way, so that the growth can be larger.
    pub at_least: bool,
    /// How much it is now.
    pub now: KeptAmount,
}

/// Old objects of one class.
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
    /// All that was kept.
    pub before: KeptAmount,
    /// All that is kept.
    pub after: KeptAmount,
    /// What grew, the most bytes first.
    pub grown: Vec<HolderGrowth>,
}

/// Compares what two readings keep, each summed over its processes.
///
/// # Errors
/// The reason why one of them does not say it.
pub fn holder_growth(before: &[Census], after: &[Census]) -> Result<HolderGrowths, String> {
    let trees = (trees(before)?, trees(after)?);
    let mut joined = JoinedTree::default();
    trees.0.iter().for_each(|tree| joined.add(tree, Side::Before));
    trees.1.iter().for_each(|tree| joined.add(tree, Side::After));
    joined.unlisted = trees
        .0
        .iter()
        .map(|tree| if tree.left_out > 0 { tree.left_out_bytes } else { 0 })
        .collect();
    let mut grown = Vec::new();
    joined.tops.iter().for_each(|top| joined.grown(*top, &mut grown));
    grown.sort_by_key(|one| std::cmp::Reverse((one.bytes, one.objects)));
    let sum = |trees: &[&KeptTree]| {
        trees.iter().fold(KeptAmount::default(), |sum, tree| sum.plus(tree.all))
    };
    Ok(HolderGrowths {
        processes: (before.len(), after.len()),
        before: sum(&trees.0),
        after: sum(&trees.1),
        grown,
    })
}

/// What each process keeps.
fn trees(reading: &[Census]) -> Result<Vec<&KeptTree>, String> {
    reading.iter().map(kept_by).collect()
}

fn kept_by(census: &Census) -> Result<&KeptTree, String> {
    let kept = census.who.as_ref().and_then(|who| who.kept.as_ref());
    kept.ok_or_else(|| {
        let reason = census.reason(CensusPart::Who).unwrap_or("it was not asked who keeps what");
        format!("process {}: {reason}", census.process)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// One way in both readings.
#[derive(Debug, Default)]
struct JoinedNode {
    above: Option<usize>,
    by: KeptBy,
    below: Vec<usize>,
    before: KeptAmount,
    after: KeptAmount,
    own_before: u64,
    own_after: u64,
    /// Old objects by class.
    classes: BTreeMap<String, (u64, u64)>,
    /// Trees of the first reading that list it.
    listed: usize,
}

/// The ways of both readings.
#[derive(Debug, Default)]
struct JoinedTree {
    nodes: Vec<JoinedNode>,
    tops: Vec<usize>,
    numbers: HashMap<(Option<usize>, KeptBy), usize>,
    /// Bytes that a way has at most which a tree of the first reading does not list.
    unlisted: Vec<u64>,
}

impl JoinedTree {
    fn add(&mut self, tree: &KeptTree, side: Side) {
        let mut places: Vec<usize> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            // What is above comes before; otherwise somebody else made the file.
            let above = node.above.and_then(|above| places.get(above as usize).copied());
            let number = self.number(above, &node.by);
            places.push(number);
            let joined = &mut self.nodes[number];
            let (sum, own) = match side {
                Side::Before => (&mut joined.before, &mut joined.own_before),
                Side::After => (&mut joined.after, &mut joined.own_after),
            };
            *sum = sum.plus(node.all);
            *own = own.saturating_add(node.own.old_objects);
            joined.listed += usize::from(side == Side::Before);
            for class in &node.classes {
                let counts = joined.classes.entry(class.name.clone()).or_default();
                let count = if side == Side::Before { &mut counts.0 } else { &mut counts.1 };
                *count = count.saturating_add(class.old_objects);
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

    /// Bytes that a way may have had in trees of the first reading that do not list it.
    fn unlisted_bytes(&self, node: &JoinedNode) -> u64 {
        // Which trees list it is not kept: the largest bounds are taken.
        let mut bounds = self.unlisted.clone();
        bounds.sort_unstable_by(|one, two| two.cmp(one));
        bounds.iter().take(self.unlisted.len().saturating_sub(node.listed)).sum()
    }

    fn bytes(&self, node: &JoinedNode) -> i128 {
        let before = node.before.old_bytes.saturating_add(self.unlisted_bytes(node));
        i128::from(node.after.old_bytes) - i128::from(before)
    }

    fn objects(&self, node: &JoinedNode) -> i128 {
        let unlisted = self.unlisted_bytes(node) / SMALLEST;
        let before = node.before.old_objects.saturating_add(unlisted);
        i128::from(node.after.old_objects) - i128::from(before)
    }

    /// Adds what grew of a way: the way itself if objects are added there, otherwise what grew below it.
    fn grown(&self, number: usize, found: &mut Vec<HolderGrowth>) {
        // Ways have few steps, but a file can have any.
        let mut waiting = vec![number];
        while let Some(number) = waiting.pop() {
            let node = &self.nodes[number];
            let (bytes, objects) = (self.bytes(node), self.objects(node));
            let own = i128::from(node.own_after) - i128::from(node.own_before);
            let below = || node.below.iter().copied();
            let grows = |one: &usize| self.bytes(&self.nodes[*one]) > 0;
            let grows_here = own > 0 && own * 100 >= objects * OWN;
            let by_those =
                || -> i128 { below().filter(grows).map(|one| self.bytes(&self.nodes[one])).sum() };
            if !grows_here && by_those() * 2 > bytes.max(0) {
                waiting.extend(below());
            } else if bytes > 0 {
                found.push(self.growth(number));
            }
        }
    }

    fn growth(&self, number: usize) -> HolderGrowth {
        let node = &self.nodes[number];
        let mut by = vec![node.by.clone()];
        let mut at = node.above;
        while let Some(above) = at {
            by.push(self.nodes[above].by.clone());
            at = self.nodes[above].above;
        }
        let classes = node.classes.iter().map(|(name, (before, after))| ClassGrown {
            name: name.clone(),
            grown: i128::from(*after) - i128::from(*before),
            now: *after,
        });
        let mut classes: Vec<ClassGrown> = classes.collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.grown));
        HolderGrowth {
            by,
            classes,
            objects: self.objects(node),
            bytes: self.bytes(node),
            at_least: self.unlisted_bytes(node) > 0,
            now: node.after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{
        Holder, KeeperKind, KeptClass, KeptNode, WayLink, WayStep, WhoCensus,
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
        let classes = |name: &str, count| vec![KeptClass { name: name.into(), old_objects: count }];
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
        assert_eq!(found.grown[1].objects, 20);
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
    fn nothing_grows_where_nothing_is_added_and_a_reading_without_holders_says_so() {
        assert!(holder_growth(&reading(300, 9), &reading(300, 9)).unwrap().grown.is_empty());
        assert!(holder_growth(&reading(300, 9), &reading(200, 9)).unwrap().grown.is_empty());
        let error = holder_growth(&[Census::default()], &reading(1, 1)).unwrap_err();
        assert_eq!(error, "process 0: it was not asked who keeps what");
    }
}
