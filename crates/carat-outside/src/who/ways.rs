//! The way from the roots to each node that says most: the one with the least cost, not with the fewest steps.
//!
//! A step through a constant, an instance variable or a container explains something, one through bytecode or a method table does
//! not. So every kind of step has a cost, and a way that a person would name is cheaper than a short one.

use super::dominators::{NONE, References};
use crate::heap::SlotType;
use crate::reach::record::Lists;

/// Larger costs of one step do not exist.
const BUCKETS: usize = 128;
/// An object refers to its class: true, and no explanation.
const TO_CLASS: u32 = 20;
const TO_ICLASS: u32 = 6;
/// What stands for the type of a node that is no slot: types have five bits (`RUBY_T_MASK`, value_type.h).
const NO_SLOT: SlotType = SlotType(u8::MAX);

/// What is known of nodes for the cost of a step.
pub(super) trait NodeKinds {
    /// The type of a slot; `None` for a chunk or a root.
    fn slot_type(&self, node: u32) -> Option<SlotType>;
    /// The cost of a way that begins at a root.
    fn root_cost(&self, root: u32) -> u32;
}

/// The node before each node on its way; `NONE` for roots and for what nothing leads to.
pub(super) struct Ways {
    parents: Vec<u32>,
}

impl Ways {
    /// Bytes of memory while they are searched, for so many nodes and references: where from, what for, and what waits.
    pub(super) const fn bytes(nodes: u64, references: u64) -> u64 {
        nodes * 11 + references * 2
    }

    /// Searches them. `start` is a node that needs no explanation, such as the class `Object`.
    pub(super) fn find(graph: &dyn References, kinds: &dyn NodeKinds, start: Option<u32>) -> Self {
        let lists = graph.lists();
        let mut search = WaySearch {
            lists,
            costs: vec![NONE; lists.nodes() as usize],
            parents: vec![NONE; lists.nodes() as usize],
            buckets: vec![Vec::new(); BUCKETS],
            waiting: 0,
        };
        // Asked once for each node here and not for each reference to it.
        let types: Vec<u8> = (0..graph.roots().start).map(|node| type_of(kinds, node)).collect();
        let type_at = |node: u32| types.get(node as usize).copied().map(SlotType);
        let type_at = |node: u32| type_at(node).filter(|kind| *kind != NO_SLOT);
        if let Some(start) = start {
            search.offer(start, NONE, 0);
        }
        for root in graph.roots() {
            search.offer(root, NONE, kinds.root_cost(root));
        }
        let mut cost = 0;
        while search.waiting > 0 {
            let Some(node) = search.buckets[cost as usize % BUCKETS].pop() else {
                cost += 1;
                continue;
            };
            search.waiting -= 1;
            // It was offered again at a lower cost, and visited then.
            if search.costs[node as usize] != cost {
                continue;
            }
            let from = type_at(node);
            let step = step_from(from);
            for target in lists.of(node) {
                // Most have a cheaper way already, whatever they are.
                if search.costs.get(*target as usize).is_some_and(|known| *known > cost + step) {
                    search.offer(*target, node, cost + step + step_to(from, type_at(*target)));
                }
            }
        }
        Self { parents: search.parents }
    }

    /// Whether something leads to a node.
    pub(super) fn is_reached(&self, node: u32) -> bool {
        self.before(node).is_some()
    }

    /// The node before a node.
    pub(super) fn before(&self, node: u32) -> Option<u32> {
        self.parents.get(node as usize).copied().filter(|before| *before != NONE)
    }
}

struct WaySearch<'a> {
    lists: Lists<'a>,
    costs: Vec<u32>,
    parents: Vec<u32>,
    buckets: Vec<Vec<u32>>,
    waiting: u64,
}

impl WaySearch<'_> {
    fn offer(&mut self, node: u32, from: u32, cost: u32) {
        let Some(known) = self.costs.get_mut(node as usize) else { return };
        if cost < *known {
            *known = cost;
            self.parents[node as usize] = from;
            // Most nodes lead nowhere.
            if self.lists.leads_on(node) {
                self.buckets[cost as usize % BUCKETS].push(node);
                self.waiting += 1;
            }
        }
    }
}

/// The type of a slot, and what no slot has for another node.
fn type_of(kinds: &dyn NodeKinds, node: u32) -> u8 {
    kinds.slot_type(node).unwrap_or(NO_SLOT).0
}

/// The cost of a step away from a node.
fn step_from(from: Option<SlotType>) -> u32 {
    match from {
        None | Some(SlotType::CLASS | SlotType::MODULE) => 1,
        Some(SlotType::ICLASS) => 10,
        Some(SlotType::IMEMO) => 8,
        Some(SlotType::DATA) => 4,
        Some(_) => 2,
    }
}

/// What a step to a class costs in addition.
fn step_to(from: Option<SlotType>, to: Option<SlotType>) -> u32 {
    let from_object = !matches!(from, None | Some(SlotType::CLASS | SlotType::MODULE));
    match to {
        Some(SlotType::CLASS | SlotType::ICLASS) if from_object => TO_CLASS,
        Some(SlotType::ICLASS) => TO_ICLASS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::reach::record::MadeLists;

    struct Made {
        lists: MadeLists,
        types: Vec<u8>,
    }

    impl References for Made {
        fn roots(&self) -> std::ops::Range<u32> {
            self.types.len() as u32..self.nodes()
        }

        fn lists(&self) -> Lists<'_> {
            self.lists.lists()
        }
    }

    impl NodeKinds for Made {
        fn slot_type(&self, node: u32) -> Option<SlotType> {
            self.types.get(node as usize).copied().map(SlotType)
        }

        fn root_cost(&self, root: u32) -> u32 {
            if root + 1 == self.nodes() { 60 } else { 3 }
        }
    }

    #[test]
    fn a_way_through_containers_is_better_than_a_shorter_one_from_a_stack_or_through_bytecode() {
        // An object; two arrays in each other; a method; a root that is named, and a stack.
        let lists = [vec![], vec![0], vec![1], vec![0], vec![3, 2], vec![0]];
        let made = Made { lists: MadeLists::of(&lists), types: vec![1, 7, 7, 26] };
        let ways = Ways::find(&made, &made, None);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|node| ways.before(node)),
            [Some(1), Some(2), Some(4), Some(4), None]
        );
    }

    #[test]
    fn an_object_does_not_explain_its_class() {
        let lists = [vec![1], vec![], vec![1], vec![0], vec![2]];
        // An object and its class; a container of classes behind a dear root.
        let made = Made { lists: MadeLists::of(&lists), types: vec![1, 2, 3] };
        assert_eq!(Ways::find(&made, &made, None).before(1), Some(0));
        assert_eq!(Ways::find(&made, &made, Some(2)).before(1), Some(2));
    }
}
