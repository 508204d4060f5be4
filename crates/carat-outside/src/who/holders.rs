//! Without which object others would go: how much each object keeps alone, and the objects that are worth naming.
//!
//! Only objects that a program can let go are named: arrays, hashes, structs, and objects with instance variables. A thread, a
//! fiber or a class keeps much and is not what anybody would remove.

use super::dominators::Dominators;
use super::subject::WhoSubject;
use crate::heap::SlotType;
use crate::number_set::NumberSet;

/// A holder is worth naming in place of the one above it if it keeps so many tenths of that.
const MOST_OF_IT: u64 = 8;
/// Tenths of the objects of a class that its holder keeps.
const OF_CLASS: u64 = 9;

/// How much each node keeps alone, itself included. What nothing leads to keeps itself.
pub(super) struct Retained {
    bytes: Vec<u64>,
    objects: Vec<u32>,
}

impl Retained {
    /// Bytes of memory for so many nodes.
    pub(super) const fn bytes_needed(nodes: u64) -> u64 {
        nodes * (8 + 4)
    }

    pub(super) fn sum(nodes: &dyn WhoSubject, dominators: &Dominators) -> Self {
        let count = nodes.nodes() as usize + 1;
        let mut sums = Self { bytes: Vec::with_capacity(count), objects: vec![0; count] };
        // By number, so that memory is read in long stretches; the order of dominators jumps.
        sums.bytes.extend((0..=nodes.nodes()).map(|node| nodes.bytes(node)));
        sums.objects[..nodes.objects() as usize].fill(1);
        // Whatever a node dominates comes after it.
        for node in dominators.order().iter().rev() {
            let place = *node as usize;
            if let Some(above) = dominators.of(*node) {
                let (bytes, objects) = (sums.bytes[place], sums.objects[place]);
                sums.bytes[above as usize] = sums.bytes[above as usize].saturating_add(bytes);
                sums.objects[above as usize] = sums.objects[above as usize].saturating_add(objects);
            }
        }
        sums
    }

    /// Bytes in memory and objects that would go without a node.
    pub(super) fn of(&self, node: u32) -> (u64, u64) {
        let place = node as usize;
        (
            self.bytes.get(place).copied().unwrap_or(0),
            u64::from(self.objects.get(place).copied().unwrap_or(0)),
        )
    }
}

/// Whether a program can let go of an object.
fn is_container(nodes: &dyn WhoSubject, node: u32) -> bool {
    const CONTAINERS: [SlotType; 4] =
        [SlotType::OBJECT, SlotType::ARRAY, SlotType::HASH, SlotType::STRUCT];
    nodes.slot_type(node).is_some_and(|kind| CONTAINERS.contains(&kind))
}

/// Whether both are objects of one class of the program.
fn is_of_one_class(nodes: &dyn WhoSubject, one: u32, other: u32) -> bool {
    let kinds = [one, other].map(|node| nodes.slot_type(node));
    kinds == [Some(SlotType::OBJECT); 2] && nodes.class_id(one) == nodes.class_id(other)
}

/// The containers that keep most, the largest first. Where one is most of what another keeps, only the inner one is named.
pub(super) fn largest(
    nodes: &dyn WhoSubject,
    dominators: &Dominators,
    retained: &Retained,
    most: usize,
) -> Vec<u32> {
    let count = nodes.nodes() as usize + 1;
    // The nearest container that dominates each node; of a container the outermost of those of which it is most.
    let mut above = vec![u32::MAX; count];
    let mut is_passed = NumberSet::new(count);
    let is_most = |part: u32, whole: u32| {
        retained.of(part).0.saturating_mul(10) >= retained.of(whole).0.saturating_mul(MOST_OF_IT)
    };
    for node in dominators.order().iter().copied() {
        let Some(nearest) = dominators.of(node) else { continue };
        let container =
            if is_container(nodes, nearest) { nearest } else { above[nearest as usize] };
        if !is_container(nodes, node) {
            above[node as usize] = container;
            continue;
        }
        above[node as usize] = node;
        if container == u32::MAX || !is_most(node, container) {
            continue;
        }
        let outermost = above[container as usize];
        above[node as usize] = outermost;
        // In a list each element keeps nearly all that the one before it keeps: one of the first says it.
        let says_less = is_of_one_class(nodes, node, container) || !is_most(node, outermost);
        is_passed.insert(if says_less { node } else { container } as usize);
    }
    let containers = dominators.order().iter().copied().filter(|node| is_container(nodes, *node));
    let mut found: Vec<u32> =
        containers.filter(|node| !is_passed.contains(*node as usize)).collect();
    let size = |node: &u32| (std::cmp::Reverse(retained.of(*node).0), *node);
    if found.len() > most {
        found.select_nth_unstable_by_key(most, size);
        found.truncate(most);
    }
    found.sort_unstable_by_key(size);
    found
}

/// The innermost container without which nine tenths of some objects would go, and how many of them would.
pub(super) fn holder_of(
    nodes: &dyn WhoSubject,
    dominators: &Dominators,
    objects: &[u32],
) -> Option<(u32, u64)> {
    let mut counts = vec![0_u32; nodes.nodes() as usize + 1];
    for object in objects {
        counts[*object as usize] = 1;
    }
    let all = objects.len() as u64;
    let keeps = |count: u32| u64::from(count) * 10 >= all * OF_CLASS;
    let is_one_of_them = |node: u32| all > 1 && objects.binary_search(&node).is_ok();
    // Those that keep so many lie on one way down, each after the one above it.
    let (mut outside, mut first) = (None, None);
    for node in dominators.order().iter().rev().copied() {
        let count = counts[node as usize];
        if count == 0 {
            continue;
        }
        if keeps(count) && is_container(nodes, node) {
            first = Some(node);
            outside = outside.or_else(|| (!is_one_of_them(node)).then_some(node));
        }
        if let Some(above) = dominators.of(node) {
            counts[above as usize] += count;
        }
    }
    // Where only their own kind keeps them, as in a list, it is the first of them.
    let found = outside.or(first)?;
    Some((found, u64::from(counts[found as usize])))
}
