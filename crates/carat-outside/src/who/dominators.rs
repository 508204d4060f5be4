//! Who alone keeps what: dominators.
//!
//! A node dominates another if every way from the roots to that one leads through it. The algorithm is semi-NCA (Georgiadis, 2005),
//! which is nearly linear; nothing in it recurses, so a list of a million objects is no trouble.

/// Nodes with the nodes that they refer to. One more node, [`References::top`], refers to all roots.
pub(super) trait References {
    /// Number of nodes, the top not among them.
    fn nodes(&self) -> u32;
    fn roots(&self) -> std::ops::Range<u32>;
    /// What a node refers to.
    fn of(&self, node: u32) -> &[u32];
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
        let Walk { order, parents, numbers } = Walk::of(graph);
        let before = Predecessors::of(graph, &order, &numbers);
        // As long as the list of nodes, like each of those that the search needs.
        drop(numbers);
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
    numbers: Vec<u32>,
}

impl Walk {
    fn of(graph: &dyn References) -> Self {
        let top = graph.top();
        let roots: Vec<u32> = graph.roots().collect();
        let mut walk = Self {
            order: vec![top],
            parents: vec![0],
            numbers: vec![NONE; graph.nodes() as usize + 1],
        };
        walk.numbers[top as usize] = 0;
        // The place in the list of each node is kept, as the stack of a recursion would.
        let mut waiting = vec![(top, 0_u32)];
        while let Some((node, at)) = waiting.last_mut() {
            let targets = if *node == top { &roots } else { graph.of(*node) };
            let Some(target) = targets.get(*at as usize).copied() else {
                waiting.pop();
                continue;
            };
            *at += 1;
            let from = walk.numbers[*node as usize];
            if walk.numbers[target as usize] == NONE {
                walk.numbers[target as usize] = walk.order.len() as u32;
                walk.order.push(target);
                walk.parents.push(from);
                waiting.push((target, 0));
            }
        }
        walk
    }
}

/// The nodes that refer to each node, all by the number of their visit.
struct Predecessors {
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

impl Predecessors {
    fn of(graph: &dyn References, order: &[u32], numbers: &[u32]) -> Self {
        let visited = order.len();
        let mut starts = vec![0_u32; visited + 1];
        each_reference(graph, (order, numbers), |_, to| starts[to as usize + 1] += 1);
        // Counted first and then placed, so that all lists lie in one array without gaps.
        for number in 0..visited {
            starts[number + 1] += starts[number];
        }
        let mut nodes = vec![0; starts[visited] as usize];
        // Each start moves to the end of its list, which is the start of the next one.
        each_reference(graph, (order, numbers), |from, to| {
            let place = &mut starts[to as usize];
            nodes[*place as usize] = from;
            *place += 1;
        });
        Self { starts, nodes }
    }

    fn of_number(&self, number: usize) -> &[u32] {
        let start = number.checked_sub(1).map_or(0, |before| self.starts[before]);
        &self.nodes[start as usize..self.starts[number] as usize]
    }
}

fn each_reference(
    graph: &dyn References,
    (order, numbers): (&[u32], &[u32]),
    mut each: impl FnMut(u32, u32),
) {
    for root in graph.roots() {
        each(0, numbers[root as usize]);
    }
    for (from, node) in order.iter().enumerate().skip(1) {
        for target in graph.of(*node) {
            each(from as u32, numbers[*target as usize]);
        }
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
        let mut least = NONE;
        for from in before.of_number(number as usize) {
            let label = best_label(*from, &semi, &mut labels, &mut ancestors, &mut waiting);
            least = least.min(semi[label as usize]);
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
    use std::collections::BTreeSet;

    /// A graph whose last nodes are the roots.
    struct Made {
        lists: Vec<Vec<u32>>,
        roots: u32,
    }

    impl References for Made {
        fn nodes(&self) -> u32 {
            self.lists.len() as u32
        }

        fn roots(&self) -> std::ops::Range<u32> {
            self.nodes() - self.roots..self.nodes()
        }

        fn of(&self, node: u32) -> &[u32] {
            &self.lists[node as usize]
        }
    }

    /// What the roots reach without a node.
    fn reached_without(graph: &Made, left_out: u32) -> BTreeSet<u32> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<u32> = graph.roots().filter(|root| *root != left_out).collect();
        while let Some(node) = waiting.pop() {
            if reached.insert(node) {
                waiting.extend(graph.of(node).iter().filter(|to| **to != left_out));
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
            let lists = (0..nodes + roots)
                .map(|_| {
                    (0..random(&mut seed) % (most + 1))
                        .map(|_| (random(&mut seed) % nodes) as u32)
                        .collect()
                })
                .collect();
            let graph = Made { lists, roots: roots as u32 };
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
                assert_eq!(dominated, lost, "{:?} {node}", graph.lists);
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
        let found = Dominators::find(&Made { lists, roots: 1 });
        assert_eq!((found.of(0), found.of(NODES - 1)), (Some(NODES), Some(NODES - 2)));
        assert_eq!(found.order().len(), NODES as usize + 2);
    }
}
