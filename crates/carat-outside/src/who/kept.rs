//! Everything that is kept, by what keeps it: each object is counted once, on its way, at a step near to where that begins.
//!
//! Steps far from the beginning are not told apart: what they lead to counts at the last step that is. So most objects need no
//! name, and a reading has the same size for small and large processes.

use super::data::{KeptAmount, KeptBy, KeptClass, KeptNode, KeptTree, WayLink, WayRoot, WayStep};
use super::subject::WhoSubject;
use super::traced::{Evidence, TracedWay, is_end};
use super::ways::Ways;
use crate::heap::{ClassId, SlotType};
use std::collections::HashMap;

/// Steps of a way that are told apart.
const DEPTH: u8 = 5;
/// Places that are told apart while they are counted.
const MOST: usize = 1 << 17;
/// Places of a finished tree.
const LISTED: usize = 1200;
/// Examples of each place, to read again.
const EXAMPLES: usize = 3;
/// Classes of each place.
const CLASSES: usize = 3;
/// Objects directly behind a root for which the root's table is searched.
const ROOT_NAMES: u32 = 20_000;
/// An object that nothing leads to, or that was not looked at.
const UNKNOWN: u32 = u32::MAX;
/// Bytes of our own memory for one place.
const PLACE_BYTES: u64 = 400;

/// Objects, and old ones among them, of each class at each place.
type ByClass = HashMap<(u32, ClassId), (u64, u64)>;

/// A place in the tree while it grows.
struct Place {
    above: Option<u32>,
    depth: u8,
    own: KeptAmount,
    examples: Vec<u32>,
}

/// The tree while it grows.
pub(super) struct KeptCount<'a> {
    names: &'a dyn WhoSubject,
    ways: &'a Ways,
    places: Vec<Place>,
    numbers: HashMap<(Option<u32>, KeptBy), u32>,
    of_slot: Vec<u32>,
    /// Elements of one array have one place.
    of_elements: HashMap<u32, u32>,
    root_names: u32,
}

/// The tree, and examples of each of its nodes.
pub(super) struct DraftTree {
    tree: KeptTree,
    examples: Vec<Vec<TracedWay>>,
}

impl DraftTree {
    /// The tree, in which nodes of which no example still holds stand apart, and how many of these have changed.
    pub(super) fn confirmed(self, still: &mut dyn FnMut(Evidence) -> bool) -> (KeptTree, u64) {
        let Self { mut tree, examples } = self;
        let (mut holds, mut changed) = (Vec::with_capacity(tree.nodes.len()), 0);
        for (node, examples) in tree.nodes.iter().zip(examples) {
            // Of some no way can be followed step by step.
            let had_one = !examples.is_empty();
            let is_below = node.above.is_none_or(|above| holds[above as usize]);
            let one_holds =
                is_below && examples.into_iter().any(|example| example.confirmed(still).is_some());
            changed += u64::from(had_one && is_below && !one_holds);
            holds.push(one_holds);
        }
        // Numbers are given anew, and a node that holds is never below one that does not.
        let (held, doubtful): (Vec<usize>, Vec<usize>) =
            (0..holds.len()).partition(|number| holds[*number]);
        let mut numbers = vec![0; holds.len()];
        for (number, before) in (0..).zip(held.into_iter().chain(doubtful)) {
            numbers[before] = number;
        }
        for (node, holds) in tree.nodes.split_off(0).into_iter().zip(holds) {
            let above = node.above.map(|above| numbers[above as usize]);
            let list = if holds { &mut tree.nodes } else { &mut tree.doubtful };
            list.push(KeptNode { above, ..node });
        }
        (tree, changed)
    }
}

impl<'a> KeptCount<'a> {
    /// Bytes of memory for so many slots.
    pub(super) const fn bytes(slots: u64) -> u64 {
        slots * 4 + MOST as u64 * PLACE_BYTES
    }

    pub(super) fn new(names: &'a dyn WhoSubject, ways: &'a Ways) -> Self {
        let slots = names.objects() as usize;
        Self {
            names,
            ways,
            places: Vec::new(),
            numbers: HashMap::new(),
            of_slot: vec![UNKNOWN; slots],
            of_elements: HashMap::new(),
            root_names: 0,
        }
    }

    /// Counts everything that the roots lead to. `classes` has the class of each slot with an object.
    pub(super) fn tree(mut self, classes: &[Option<ClassId>]) -> DraftTree {
        let names = self.names;
        let mut by_class: ByClass = HashMap::new();
        for (node, class) in (0..names.objects()).zip(classes) {
            let Some(class) = class.filter(|_| self.ways.is_reached(node)) else { continue };
            // More places than are told apart: what is beyond them is in no figure of the tree.
            let Some(place) = self.place(node) else { continue };
            let is_old = names.is_old(node);
            let own = &mut self.places[place as usize];
            own.own = own.own.plus(amount(1, names.bytes(node), is_old));
            if own.examples.len() < EXAMPLES {
                own.examples.push(node);
            }
            let count = by_class.entry((place, class)).or_default();
            *count = (count.0 + 1, count.1 + u64::from(is_old));
        }
        // After all objects, because a chunk counts where the object that keeps it does.
        for chunk in names.objects()..names.roots().start {
            let Some((place, is_old)) = self.place_of_chunk(chunk) else { continue };
            let own = &mut self.places[place as usize];
            own.own = own.own.plus(amount(0, names.bytes(chunk), is_old));
        }
        self.finish(by_class)
    }

    /// The place of the object or root that keeps a chunk, and whether it is old. Roots are.
    fn place_of_chunk(&mut self, chunk: u32) -> Option<(u32, bool)> {
        let mut at = self.ways.before(chunk)?;
        while !self.names.is_step(at) {
            match self.ways.before(at) {
                Some(before) => at = before,
                None => {
                    let root = self.names.place_of_root(at)?;
                    return Some((self.number(None, KeptBy::Root(common_root(root)))?, true));
                }
            }
        }
        let is_old = self.names.is_old(at);
        Some((self.place(at)?, is_old))
    }

    /// The place of an object. Those before it on its way are placed first.
    fn place(&mut self, node: u32) -> Option<u32> {
        // A list instead of recursion: a way can have as many steps as there are objects.
        let mut waiting = Vec::new();
        let mut at = node;
        let mut above = loop {
            let known = self.of_slot[at as usize];
            if known != UNKNOWN {
                break known;
            }
            match self.beginning(at)? {
                Ok(by) => {
                    let place = self.number(None, by)?;
                    self.of_slot[at as usize] = place;
                    break place;
                }
                Err(before) => {
                    waiting.push((at, before));
                    at = before;
                }
            }
        };
        for (object, keeper) in waiting.into_iter().rev() {
            above = self.below(above, keeper, object);
            self.of_slot[object as usize] = above;
        }
        Some(above)
    }

    /// What an object is kept by, if the way begins there; otherwise the object before it.
    fn beginning(&mut self, node: u32) -> Option<Result<KeptBy, u32>> {
        let names = self.names;
        if let Some(root) = names.as_root(node) {
            return Some(Ok(KeptBy::Root(root)));
        }
        if names.is_known(node) {
            return Some(Ok(KeptBy::Itself(names.describe(node, false))));
        }
        let Some(object) = self.keeper(node)? else {
            let before = names.before(self.ways, node)?;
            let root = self.root(before.root?, &before.between, node)?;
            return Some(Ok(KeptBy::Root(root)));
        };
        if !self.may_end(object) {
            return Some(Err(object));
        }
        let between = names.before(self.ways, node)?.between;
        if let Some(root) = names.as_root_of(object, &between, node) {
            return Some(Ok(KeptBy::Root(common_root(root))));
        }
        let step = self.step(object, node)?;
        let ends = is_end(&step.of, &step.link);
        Some(if ends { Ok(KeptBy::Step(step)) } else { Err(object) })
    }

    /// Whether an object can be one that needs no explanation.
    fn may_end(&self, object: u32) -> bool {
        // The table of symbols is an array or an object.
        const ENDS: [SlotType; 5] =
            [SlotType::CLASS, SlotType::MODULE, SlotType::ICLASS, SlotType::IMEMO, SlotType::DATA];
        self.names.is_main(object)
            || self.names.as_root(object).is_some()
            || self.names.slot_type(object).is_some_and(|kind| ENDS.contains(&kind))
    }

    /// The object before one; `None` inside for a root.
    fn keeper(&self, node: u32) -> Option<Option<u32>> {
        let mut at = self.ways.before(node)?;
        while !self.names.is_step(at) {
            match self.ways.before(at) {
                Some(before) => at = before,
                None => return Some(None),
            }
        }
        Some(Some(at))
    }

    fn step(&self, keeper: u32, object: u32) -> Option<WayStep> {
        let between = self.names.before(self.ways, object)?.between;
        let link = match self.names.common_link(keeper, &between, object) {
            // The methods of a class are one thing: its code.
            WayLink::Method(_) => WayLink::Unnamed,
            link => link,
        };
        Some(WayStep { link, of: self.names.describe(keeper, false) })
    }

    /// The place of an object that is kept by another one, whose place is known.
    fn below(&mut self, above: u32, keeper: u32, object: u32) -> u32 {
        // Steps that are not told apart need no name, which is what takes time.
        if self.places[above as usize].depth >= DEPTH {
            return above;
        }
        let kind = |node| self.names.slot_type(node);
        let is_element = kind(keeper) == Some(SlotType::ARRAY)
            && !matches!(kind(object), Some(SlotType::CLASS | SlotType::MODULE));
        if let Some(known) = self.of_elements.get(&keeper).filter(|_| is_element) {
            return *known;
        }
        let step = self.step(keeper, object).unwrap_or_default();
        let place = self.number(Some(above), KeptBy::Step(step)).unwrap_or(above);
        if is_element {
            self.of_elements.insert(keeper, place);
        }
        place
    }

    fn root(&mut self, root: u32, between: &[u32], object: u32) -> Option<WayRoot> {
        let is_small = self.names.may_name_root(between);
        self.root_names += u32::from(is_small);
        // Each search goes through the root's table, so with many of them the root counts without a name.
        let may_search = is_small && self.root_names <= ROOT_NAMES;
        let named = may_search.then(|| self.names.named_root_of(between, object)).flatten();
        named.or_else(|| self.names.place_of_root(root)).map(common_root)
    }

    /// The number of a place; `None` if there are too many.
    fn number(&mut self, above: Option<u32>, by: KeptBy) -> Option<u32> {
        let key = (above, by);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        if self.places.len() >= MOST {
            return None;
        }
        let number = self.places.len() as u32;
        let depth = above.map_or(1, |above| self.places[above as usize].depth + 1);
        self.places.push(Place { above, depth, own: KeptAmount::default(), examples: Vec::new() });
        self.numbers.insert(key, number);
        Some(number)
    }

    /// The largest places.
    fn finish(self, by_class: ByClass) -> DraftTree {
        let Self { names, ways, places, numbers, .. } = self;
        let mut all: Vec<KeptAmount> = places.iter().map(|place| place.own).collect();
        let mut whole = KeptAmount::default();
        // From the last to the first: what is above a place has a smaller number, so its sum comes later.
        for (number, place) in places.iter().enumerate().rev() {
            let sum = all[number];
            match place.above {
                Some(above) => all[above as usize] = all[above as usize].plus(sum),
                None => whole = whole.plus(sum),
            }
        }
        // What is above has no fewer bytes and a smaller number, so that it is listed too.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|number| (std::cmp::Reverse(all[*number].bytes), *number));
        let others = order.split_off(order.len().min(LISTED));
        // By number again, because a node must come after the one above it.
        order.sort_unstable();
        let left_out_bytes = others.first().map_or(0, |first| all[*first].bytes);
        let mut bys: Vec<Option<KeptBy>> = vec![None; places.len()];
        for ((_, by), number) in numbers {
            bys[number as usize] = Some(by);
        }
        let mut classes = common_classes(names, by_class);
        let place_of = |number: u32| order.binary_search(&(number as usize)).ok();
        let listed = order.iter().map(|number| KeptNode {
            above: places[*number].above.and_then(place_of).map(|above| above as u32),
            by: bys[*number].take().unwrap_or_default(),
            all: all[*number],
            own: places[*number].own,
            classes: classes.remove(&(*number as u32)).unwrap_or_default(),
        });
        let mut tree = KeptTree {
            nodes: listed.collect(),
            all: whole,
            doubtful: Vec::new(),
            left_out: others.len() as u64,
            left_out_bytes,
        };
        let traced = |number: &usize| {
            let examples = places[*number].examples.iter();
            examples.filter_map(|node| names.trace(ways, *node)).collect()
        };
        let examples: Vec<Vec<TracedWay>> = order.iter().map(traced).collect();
        for (node, examples) in tree.nodes.iter_mut().zip(&examples) {
            correct(&mut node.by, examples);
        }
        DraftTree { tree, examples }
    }
}

/// A step out of a large structure was taken for one by a table of variables without a search. An example was searched for.
fn correct(by: &mut KeptBy, examples: &[TracedWay]) {
    let KeptBy::Step(step) = by else { return };
    let found = examples.first().and_then(|example| example.way.steps.first());
    let Some(found) = found.filter(|found| found.of.name == step.of.name) else { return };
    let is_symbol = matches!(found.link, WayLink::Symbol(_));
    if step.link == WayLink::Symbol(String::new()) && !is_symbol {
        step.link = found.link.clone();
    }
}

const fn amount(objects: u64, bytes: u64, is_old: bool) -> KeptAmount {
    let old = is_old as u64;
    KeptAmount { objects, bytes, old_objects: objects * old, old_bytes: bytes * old }
}

/// The commonest classes of each place.
fn common_classes(names: &dyn WhoSubject, by_class: ByClass) -> HashMap<u32, Vec<KeptClass>> {
    let mut found: HashMap<u32, Vec<KeptClass>> = HashMap::new();
    for ((place, class), (objects, old_objects)) in by_class {
        let name = names.class_name(class);
        found.entry(place).or_default().push(KeptClass { name, objects, old_objects });
    }
    for list in found.values_mut() {
        list.sort_by(|one, two| (two.objects, &one.name).cmp(&(one.objects, &two.name)));
        list.truncate(CLASSES);
    }
    found
}

/// A root without what differs from one process to the next.
fn common_root(root: WayRoot) -> WayRoot {
    match root {
        WayRoot::Stack { name, .. } => WayRoot::Stack { thread: 0, name },
        root => root,
    }
}
