//! Who alone keeps what: dominators.
//!
//! A node dominates another if every way from the roots to that one leads through it. The algorithm is semi-NCA (Georgiadis, 2005),
//! which is nearly linear; nothing in it recurses, so a list of a million objects is no trouble.

use crate::number_set::NumberSet;
use crate::reach::record::Lists;

/// Nodes with the nodes that they refer to. One more node, [`References::top`], refers to all roots.
pub(super) trait References {
    fn roots(&self) -> std::ops::Range<u32>;
    /// What each node refers to.
    fn lists(&self) -> Lists<'_>;
    /// Number of nodes, the top not among them.
    fn nodes(&self) -> u32 {
        self.lists().nodes()
    }
    /// The node above the roots.
    fn top(&self) -> u32 {
        self.nodes()
    }
}

/// No node, or no number.
pub(super) const NONE: u32 = u32::MAX;

/// The dominators of every node that the roots lead to.
#[derive(Debug, Clone)]
pub(super) struct Dominators {
    /// The nearest dominator of each node; `NONE` for the top and for what nothing leads to.
    nearest: Vec<u32>,
    /// The nodes in an order in which a dominator precedes what it dominates.
    order: Vec<u32>,
}

impl Dominators {
    /// Bytes of memory while they are searched, for so many nodes and references.
    pub(super) const fn bytes(nodes: u64, references: u64) -> u64 {
        nodes * 4 * 8 + references * 4
    }

    pub(super) fn find(graph: &dyn References) -> Self {
        let mut walk = Walk::of(graph);
        walk.lift_what_two_roots_keep(graph);
        let Walk { order, parents, visits } = walk;
        let before = Predecessors::of(graph, &order, &visits);
        // As long as the list of nodes, like each of those that the search needs.
        drop(visits);
        let dominators = nearest(parents, before);
        let mut found = vec![NONE; graph.nodes() as usize + 1];
        for (number, node) in order.iter().enumerate().skip(1) {
            found[*node as usize] = order[dominators[number] as usize];
        }
        Self { nearest: found, order }
    }

    /// The nearest dominator of a node.
    pub(super) fn of(&self, node: u32) -> Option<u32> {
        self.nearest.get(node as usize).copied().filter(|found| *found != NONE)
    }

    /// The nodes, each after its dominators.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }
}

/// A walk in depth: nodes by the number of their visit.
struct Walk {
    order: Vec<u32>,
    parents: Vec<u32>,
    visits: Vec<Visit>,
}

/// The visit of a node: both figures in one place, because each reference asks for both.
#[derive(Debug, Clone, Copy)]
struct Visit {
    /// Its number; [`NONE`] for a node that was not visited.
    number: u32,
    /// Nodes that refer to it, as far as these were visited.
    referrers: u32,
}

impl Walk {
    fn of(graph: &dyn References) -> Self {
        let top = graph.top();
        let roots: Vec<u32> = graph.roots().collect();
        let lists = graph.lists();
        let mut walk = Self {
            order: vec![top],
            parents: vec![0],
            visits: vec![Visit { number: NONE, referrers: 0 }; graph.nodes() as usize + 1],
        };
        walk.visits[top as usize].number = 0;
        // The place in the list of each node is kept, as the stack of a recursion would.
        let mut waiting = vec![(top, 0_u32)];
        while let Some((node, at)) = waiting.last_mut() {
            let targets = if *node == top { &roots } else { lists.of(*node) };
            match walk.next_with_list(lists, (*node, at), targets) {
                Some(below) => waiting.push((below, 0)),
                None => {
                    waiting.pop();
                }
            }
        }
        walk
    }

    /// Visits the nodes of a list from a place on, up to the first new one that has a list itself, as few have; `None` at the end.
    fn next_with_list(
        &mut self,
        lists: Lists<'_>,
        (node, at): (u32, &mut u32),
        targets: &[u32],
    ) -> Option<u32> {
        let from = self.visits[node as usize].number;
        for target in targets.get(*at as usize..)? {
            *at += 1;
            let visit = &mut self.visits[*target as usize];
            visit.referrers += 1;
            if visit.number == NONE {
                visit.number = self.order.len() as u32;
                self.order.push(*target);
                self.parents.push(from);
                if lists.leads_on(*target) {
                    return Some(*target);
                }
            }
        }
        None
    }

    /// Only the top dominates a node to which two roots refer, whatever else refers to it. That spares the list of a class to which
    /// every one of its objects refers.
    fn lift_what_two_roots_keep(&mut self, graph: &dyn References) {
        let mut first = NumberSet::new(self.visits.len());
        for root in graph.roots() {
            let mut targets = graph.lists().of(root).to_vec();
            targets.sort_unstable();
            targets.dedup();
            for target in targets.into_iter().filter(|target| *target < graph.roots().start) {
                if !first.insert(target as usize) {
                    let visit = &mut self.visits[target as usize];
                    visit.referrers = 1;
                    self.parents[visit.number as usize] = 0;
                }
            }
        }
    }
}

/// The nodes that refer to each node, all by the number of their visit; none where it is its parent alone, as for most nodes.
struct Predecessors {
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

impl Predecessors {
    fn of(graph: &dyn References, order: &[u32], visits: &[Visit]) -> Self {
        // Counted by the walk and placed here, so that all lists lie in one array without gaps.
        let mut starts = Vec::with_capacity(order.len() + 1);
        let mut next = 0;
        for node in order {
            starts.push(next);
            let referrers = visits[*node as usize].referrers;
            next += if referrers > 1 { referrers } else { 0 };
        }
        starts.push(next);
        let mut nodes = vec![0; next as usize];
        // Each start moves to the end of its list, which is the start of the next one.
        let mut add = |from: u32, to: u32| {
            let Visit { number, referrers } = visits[to as usize];
            if referrers > 1 {
                let place = &mut starts[number as usize];
                nodes[*place as usize] = from;
                *place += 1;
            }
        };
        graph.roots().for_each(|root| add(0, root));
        let lists = graph.lists();
        for (from, node) in (0..).zip(order).skip(1) {
            lists.of(*node).iter().for_each(|target| add(from, *target));
        }
        Self { starts, nodes }
    }

    fn of_number(&self, number: usize) -> &[u32] {
        let start = number.checked_sub(1).map_or(0, |before| self.starts[before]);
        &self.nodes[start as usize..self.starts[number] as usize]
    }
}

/// The nearest dominator of each visited node, all by number.
fn nearest(parents: Vec<u32>, before: Predecessors) -> Vec<u32> {
    let visited = parents.len() as u32;
    let mut semi: Vec<u32> = (0..visited).collect();
    let mut labels = semi.clone();
    let mut ancestors = vec![NONE; visited as usize];
    let mut waiting = Vec::new();
    // From the last visit to the first: what was visited later has its semidominator already.
    for number in (1..visited).rev() {
        // Of a node without a list.
        let mut least = parents[number as usize];
        // The last ones first: they are in other parts of the tree, and so the likelier to lead to the top, below which is nothing.
        for from in before.of_number(number as usize).iter().rev() {
            let label = best_label(*from, &semi, &mut labels, &mut ancestors, &mut waiting);
            least = least.min(semi[label as usize]);
            if least == 0 {
                break;
            }
        }
        semi[number as usize] = least;
        ancestors[number as usize] = parents[number as usize];
    }
    drop((before, labels, ancestors));
    let mut found = parents;
    for number in 1..visited as usize {
        // Up the tree until the number is not above that of the semidominator (Georgiadis, 2005, semi-NCA).
        while found[number] > semi[number] {
            found[number] = found[found[number] as usize];
        }
    }
    found
}

/// The node with the least semidominator on the way up from a node, which is shortened for the next question.
fn best_label(
    node: u32,
    semi: &[u32],
    labels: &mut [u32],
    ancestors: &mut [u32],
    waiting: &mut Vec<u32>,
) -> u32 {
    if ancestors[node as usize] == NONE {
        return node;
    }
    // Twice along the path instead of recursion: down the list first, and shortened on the way back.
    let mut at = node;
    while ancestors[ancestors[at as usize] as usize] != NONE {
        waiting.push(at);
        at = ancestors[at as usize];
    }
    while let Some(below) = waiting.pop() {
        let above = ancestors[below as usize] as usize;
        if semi[labels[above] as usize] < semi[labels[below as usize] as usize] {
            labels[below as usize] = labels[above];
        }
        ancestors[below as usize] = ancestors[above];
    }
    labels[node as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::record::MadeLists;
    use std::collections::BTreeSet;

    /// A graph whose last nodes are the roots.
    struct Made {
        lists: MadeLists,
        roots: u32,
    }

    impl References for Made {
        fn roots(&self) -> std::ops::Range<u32> {
            self.nodes() - self.roots..self.nodes()
        }

        fn lists(&self) -> Lists<'_> {
            self.lists.lists()
        }
    }

    /// What the roots reach without a node.
    fn reached_without(graph: &Made, left_out: u32) -> BTreeSet<u32> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<u32> = graph.roots().filter(|root| *root != left_out).collect();
        while let Some(node) = waiting.pop() {
            if reached.insert(node) {
                waiting.extend(graph.lists().of(node).iter().filter(|to| **to != left_out));
            }
        }
        reached
    }

    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *seed >> 33
    }

    #[test]
    fn a_node_dominates_exactly_what_cannot_be_reached_without_it() {
        let mut seed = 7;
        for round in 0..400_u64 {
            let nodes = 2 + random(&mut seed) % 24;
            let roots = 1 + random(&mut seed) % 3;
            let most = 1 + round % 4;
            let lists: Vec<Vec<u32>> = (0..nodes + roots)
                .map(|_| {
                    (0..random(&mut seed) % (most + 1))
                        .map(|_| (random(&mut seed) % nodes) as u32)
                        .collect()
                })
                .collect();
            let graph = Made { lists: MadeLists::of(&lists), roots: roots as u32 };
            let found = Dominators::find(&graph);
            let all = reached_without(&graph, NONE);
            for node in 0..graph.nodes() {
                let lost: BTreeSet<u32> =
                    all.difference(&reached_without(&graph, node)).copied().collect();
                let dominated: BTreeSet<u32> = (0..graph.nodes())
                    .filter(|other| {
                        let mut above = Some(*other);
                        while above.is_some_and(|one| one != node) {
                            above = above.and_then(|one| found.of(one));
                        }
                        above.is_some() && all.contains(other)
                    })
                    .collect();
                assert_eq!(dominated, lost, "{:?} {node}", graph.lists());
            }
            let place = |node: u32| found.order().iter().position(|one| *one == node);
            for node in all {
                assert!(place(found.of(node).unwrap()) < place(node));
            }
        }
    }

    #[test]
    fn a_list_and_a_ring_of_a_million_objects_end() {
        const NODES: u32 = 1_000_000;
        let mut lists: Vec<Vec<u32>> = (0..NODES).map(|node| vec![(node + 1) % NODES]).collect();
        lists.push(vec![0]);
        let found = Dominators::find(&Made { lists: MadeLists::of(&lists), roots: 1 });
        assert_eq!((found.of(0), found.of(NODES - 1)), (Some(NODES), Some(NODES - 2)));
        assert_eq!(found.order().len(), NODES as usize + 2);
    }
}
