//! What one object refers to, over any chunks between.

use crate::who::nodes::Nodes;

/// No chunk.
const NONE: u32 = u32::MAX;
/// Chunks and references that are followed for all objects together: so many for each node.
const FOLLOWED: u64 = 200;

/// A reference from one slot to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// The slot to which it leads.
    pub(super) to: u32,
    /// The place of the last chunk before it among those of this search.
    via: u32,
}

/// The references of one slot after the other.
pub(super) struct Edges<'a, 'n> {
    nodes: &'a Nodes<'n>,
    /// The last search that came to each node.
    seen: Vec<u32>,
    round: u32,
    /// The chunks of this search, each with the place of the one before.
    chunks: Vec<(u32, u32)>,
    found: Vec<Edge>,
    left: u64,
}

impl<'a, 'n> Edges<'a, 'n> {
    /// Bytes of memory for so many nodes.
    pub(super) const fn bytes(nodes: u64) -> u64 {
        nodes * 4
    }

    pub(super) fn new(nodes: &'a Nodes<'n>) -> Self {
        let count = nodes.graph.nodes();
        Self {
            nodes,
            seen: vec![0; count as usize],
            round: 0,
            chunks: Vec::new(),
            found: Vec::new(),
            left: (u64::from(count) + 1000).saturating_mul(FOLLOWED),
        }
    }

    /// Follows the references of a slot or a root. False if there were too many of them to follow all.
    pub(super) fn follow(&mut self, node: u32) -> bool {
        self.round += 1;
        self.chunks.clear();
        self.found.clear();
        self.enter(node, NONE);
        let mut at = 0;
        while let Some((chunk, _)) = self.chunks.get(at).copied() {
            self.enter(chunk, at as u32);
            at += 1;
        }
        self.left > 0
    }

    fn enter(&mut self, node: u32, via: u32) {
        let nodes = self.nodes;
        for to in nodes.graph.of(node).iter().copied() {
            self.left = self.left.saturating_sub(1);
            let Some(seen) = self.seen.get_mut(to as usize) else { continue };
            if *seen == self.round || self.left == 0 {
                continue;
            }
            *seen = self.round;
            match nodes.is_slot(to) {
                true => self.found.push(Edge { to, via }),
                false => self.chunks.push((to, via)),
            }
        }
    }

    /// The references that were found.
    pub(super) fn found(&self) -> &[Edge] {
        &self.found
    }

    /// The chunks to which they led.
    pub(super) fn chunks(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().map(|chunk| chunk.0)
    }

    /// The chunks on the way of a reference, the outermost first.
    pub(super) fn between(&self, edge: Edge) -> Vec<u32> {
        let mut between = Vec::new();
        let mut via = edge.via;
        while let Some((chunk, before)) = self.chunks.get(via as usize).copied() {
            between.push(chunk);
            via = before;
        }
        between.reverse();
        between
    }
}
