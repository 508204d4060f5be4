//! Ways that differ only in numbers, counted.

use super::data::{Holder, WayLink};
use super::subject::WhoSubject;
use super::traced::is_end;
use super::ways::Ways;
use crate::hash::{AddressHash, NodeMap};
use crate::heap::SlotType;
use std::collections::HashMap;

/// Objects of a way that tell it from another one.
const DEPTH: usize = 40;
/// Different ways of one class; more count as others.
const MOST: usize = 1 << 20;
/// Examples of each way: the first may be gone when it is looked for again.
pub(super) const EXAMPLES: usize = 3;

/// The number of a pattern.
type PatternId = u32;
/// A way that begins here.
const START: PatternId = u32::MAX;

/// One step of a pattern, and the number of the rest of the way.
type Step = (WayLink, Holder, PatternId);

/// The ways to the objects of one class.
pub(super) struct Patterns<'a> {
    names: &'a dyn WhoSubject,
    ways: &'a Ways,
    numbers: HashMap<Step, PatternId, AddressHash>,
    /// The pattern of the way to each object on a way that was followed.
    of_node: NodeMap<PatternId>,
    /// Elements of one array have one pattern.
    of_elements: NodeMap<PatternId>,
    counts: NodeMap<PatternCount>,
}

/// Objects at the end of ways with one pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternCount {
    pub(super) objects: u64,
    pub(super) examples: Vec<u32>,
}

impl<'a> Patterns<'a> {
    pub(super) fn new(names: &'a dyn WhoSubject, ways: &'a Ways) -> Self {
        Self {
            names,
            ways,
            numbers: HashMap::default(),
            of_node: NodeMap::default(),
            of_elements: NodeMap::default(),
            counts: NodeMap::default(),
        }
    }

    /// Counts the way to an object.
    pub(super) fn count(&mut self, node: u32) {
        let pattern = self.pattern(node);
        let counted = self.counts.entry(pattern).or_default();
        counted.objects += 1;
        if counted.examples.len() < EXAMPLES {
            counted.examples.push(node);
        }
    }

    /// The ways, the commonest first.
    pub(super) fn finish(self) -> Vec<PatternCount> {
        let mut all: Vec<PatternCount> = self.counts.into_values().collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.objects), one.examples.first().copied()));
        all
    }

    /// The pattern of the way to an object. Objects are followed up to one whose pattern is known, and numbered on the way back.
    fn pattern(&mut self, node: u32) -> PatternId {
        let mut steps: Vec<(u32, WayLink, Holder, u32)> = Vec::new();
        let mut at = node;
        let mut rest = START;
        while steps.len() < DEPTH {
            if let Some(known) = self.of_node.get(&at) {
                rest = *known;
                break;
            }
            if self.names.is_known(at) {
                rest = self.number((WayLink::Unnamed, self.names.describe(at, false), START));
                self.remember(at, rest);
                break;
            }
            let Some(before) = self.names.before(self.ways, at) else { break };
            let Some(object) = before.object else {
                // Roots are told apart by what they are, not by their name: that costs too much for each.
                let root = before.root.unwrap_or(0);
                rest = self.number((
                    WayLink::Unnamed,
                    Holder { length: Some(root.into()), ..Holder::default() },
                    START,
                ));
                self.remember(at, rest);
                break;
            };
            if self.is_element(object, at)
                && let Some(known) = self.of_elements.get(&object)
            {
                rest = *known;
                if at != node {
                    self.remember(at, rest);
                }
                break;
            }
            let link = self.names.common_link(object, &before.between, at);
            let of = self.names.describe(object, false);
            let ends = is_end(&of, &link);
            steps.push((at, link, of, object));
            if ends {
                break;
            }
            at = object;
        }
        for (object, link, of, keeper) in steps.into_iter().rev() {
            rest = self.number((link, of, rest));
            // The object itself is asked for once.
            if object != node {
                self.remember(object, rest);
            }
            if self.is_element(keeper, object) && self.of_elements.len() < MOST {
                self.of_elements.insert(keeper, rest);
            }
        }
        rest
    }

    /// Whether a keeper is an array that keeps an object as every other element: a class can be that of the array itself.
    fn is_element(&self, keeper: u32, object: u32) -> bool {
        self.names.slot_type(keeper) == Some(SlotType::ARRAY)
            && !matches!(self.names.slot_type(object), Some(SlotType::CLASS | SlotType::MODULE))
    }

    fn remember(&mut self, node: u32, pattern: PatternId) {
        if self.of_node.len() < MOST {
            self.of_node.insert(node, pattern);
        }
    }

    fn number(&mut self, step: Step) -> PatternId {
        let next = self.numbers.len() as u32;
        if self.numbers.len() >= MOST {
            return self.numbers.get(&step).copied().unwrap_or(START - 1);
        }
        *self.numbers.entry(step).or_insert(next)
    }
}
