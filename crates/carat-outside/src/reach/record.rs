//! Every reference from what is reached, as it is found: the graph of the process.
//!
//! Nodes are numbers: slots in the order of the heap's pages, then chunks in the order of their table, then roots. The list of each
//! node is written once, when the node is visited, so that nothing is sorted and nothing is held twice.

use crate::hash::AddressMap;
use crate::number_set::NumberSet;

/// No node, or a node without a list.
pub(crate) const NO_NODE: u32 = u32::MAX;
/// Pointers into the middle of chunks, and others, that are kept until it is known whether they count; more are left out.
const MOST_INSIDE: usize = 4 << 20;

/// What a root is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootPlace {
    /// Data of a library.
    Library,
    /// The stack of the thread at this place of the list.
    Thread(u32),
    /// Anything else.
    Other,
}

/// The references as they are recorded.
#[derive(Debug, Clone)]
pub(super) struct ReferenceRecord {
    slots: u32,
    chunks: u32,
    /// Addresses between roots.
    boundaries: Vec<u64>,
    /// Where the list of each node starts in `targets`.
    starts: Vec<u32>,
    /// For each list its length and then its nodes.
    targets: Vec<u32>,
    /// The address of each root, and what it is a part of.
    roots: Vec<(u64, RootPlace)>,
    /// The node that is visited, and where its list starts.
    current: Option<(u32, usize)>,
    /// References into the middle of chunks: from a node, to a chunk.
    inside: Vec<(u32, u32)>,
    /// The chunks to which only such references lead, and the node that they mean.
    counted: AddressMap<u32>,
    /// References to chunks that may be others': from a node, to a chunk.
    parts: Vec<(u32, u32)>,
    /// The chunks that are nobody else's.
    counted_parts: NumberSet,
    /// The chunk to which only references from roots and from its own object count: to everything in it leads a better way.
    only_from_roots: Option<usize>,
    is_paused: bool,
    is_full: bool,
}

impl ReferenceRecord {
    pub(super) fn new(slots: usize, chunks: usize, boundaries: Vec<u64>) -> Self {
        Self {
            slots: slots as u32,
            chunks: chunks as u32,
            boundaries,
            starts: vec![NO_NODE; slots + chunks],
            targets: Vec::new(),
            roots: Vec::new(),
            current: None,
            inside: Vec::new(),
            counted: AddressMap::default(),
            parts: Vec::new(),
            counted_parts: NumberSet::new(chunks),
            only_from_roots: None,
            is_paused: false,
            // Numbers have 32 bits, of which half are left for roots and for the places of lists.
            is_full: slots + chunks >= (NO_NODE >> 1) as usize,
        }
    }

    /// References from other nodes than roots and its own object to a chunk are not recorded.
    pub(super) fn only_from_roots(mut self, chunk: Option<usize>) -> Self {
        self.only_from_roots = chunk;
        self
    }

    pub(super) const fn chunk_node(&self, chunk: usize) -> u32 {
        self.slots + chunk as u32
    }

    /// A part of the ground, cut at the boundaries.
    pub(super) fn pieces(&self, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        // Variables of C begin at the boundaries, so each piece can be named.
        let first = self.boundaries.partition_point(|boundary| *boundary <= start);
        let inner = self.boundaries[first..].iter().take_while(|boundary| **boundary < end);
        let mut pieces = Vec::new();
        let mut at = start;
        for boundary in inner.copied().chain([end]) {
            pieces.push((at, boundary));
            at = boundary;
        }
        pieces
    }

    /// Begins the list of a node.
    pub(super) fn begin(&mut self, node: u32) {
        self.end();
        let start = self.targets.len();
        self.is_full |= start >= (NO_NODE >> 1) as usize;
        if !self.is_full {
            // The place of the length, which is known when the list ends.
            self.targets.push(0);
            self.current = Some((node, start));
        }
    }

    /// Begins the list of a root at an address.
    pub(super) fn begin_root(&mut self, address: u64, place: RootPlace) {
        self.end();
        if self.slots as usize + self.chunks as usize + self.roots.len() + 2 >= NO_NODE as usize {
            self.is_full = true;
            return;
        }
        self.roots.push((address, place));
        self.starts.push(NO_NODE);
        self.begin(self.slots + self.chunks + self.roots.len() as u32 - 1);
    }

    /// Ends the list. A root that leads to nothing is forgotten.
    pub(super) fn end(&mut self) {
        let Some((node, start)) = self.current.take() else { return };
        let is_root = node >= self.slots + self.chunks;
        let has_later = [&self.inside, &self.parts]
            .iter()
            .any(|later| later.last().is_some_and(|(from, _)| *from == node));
        let length = self.targets.len() - start - 1;
        if length > 0 || has_later {
            self.targets[start] = length as u32;
            self.starts[node as usize] = start as u32;
        } else {
            self.targets.truncate(start);
            if is_root {
                self.roots.pop();
                self.starts.pop();
            }
        }
    }

    /// A reference of the node that is visited.
    pub(super) fn add(&mut self, target: u32) {
        let Some((node, start)) = self.current.filter(|_| !self.is_paused) else { return };
        // A word is often there twice.
        let is_again = self.targets.len() > start + 1 && self.targets.last() == Some(&target);
        if target != node && !is_again {
            self.targets.push(target);
        }
    }

    /// A reference to the start of a chunk.
    pub(super) fn add_chunk(&mut self, chunk: usize) {
        self.add(self.chunk_node(chunk));
    }

    /// Records nothing while a pointer to a chunk is followed from where it does not count; `None` ends that.
    pub(super) fn pause(&mut self, chunk: Option<usize>) {
        self.is_paused = chunk.is_some_and(|chunk| !self.is_recorded(chunk));
    }

    fn is_recorded(&self, chunk: usize) -> bool {
        let is_root = self.current.is_some_and(|(node, _)| node >= self.slots + self.chunks);
        is_root || self.only_from_roots != Some(chunk)
    }

    /// A reference into the middle of a chunk to which no other one leads yet.
    pub(super) fn add_inside(&mut self, chunk: usize) {
        let Some((node, _)) = self.current.filter(|_| self.is_recorded(chunk)) else { return };
        let pair = (node, chunk as u32);
        // Most of these are old words that never count, so they must not fill our memory.
        if self.inside.len() < MOST_INSIDE && self.inside.last() != Some(&pair) {
            self.inside.push(pair);
        }
    }

    /// A reference to a chunk that counts unless it is another's.
    pub(super) fn add_part(&mut self, chunk: usize) {
        let Some((node, _)) = self.current else { return };
        let pair = (node, chunk as u32);
        if self.parts.len() < MOST_INSIDE && self.parts.last() != Some(&pair) {
            self.parts.push(pair);
        }
    }

    /// Such references to this chunk count.
    pub(super) fn keep_part(&mut self, chunk: usize) {
        self.counted_parts.insert(chunk);
    }

    /// References into the middle of this chunk count, and mean this node.
    pub(super) fn keep_inside(&mut self, chunk: usize, target: u32) {
        self.counted.insert(chunk as u64, target);
    }

    /// The graph; `None` if it has more references than numbers.
    pub(super) fn finish(mut self) -> Option<ReferenceGraph> {
        self.end();
        let inside = self.inside.iter();
        let inside = inside
            .filter_map(|(from, chunk)| Some((*from, *self.counted.get(&u64::from(*chunk))?)));
        let parts = self.parts.iter();
        let parts = parts.filter(|(_, chunk)| self.counted_parts.contains(*chunk as usize));
        let parts = parts.map(|(from, chunk)| (*from, self.chunk_node(*chunk as usize)));
        let mut counted: Vec<(u32, u32)> = inside.chain(parts).collect();
        // By node, so that each list is written anew only once.
        counted.sort_unstable();
        counted.dedup();
        let graph = ReferenceGraph {
            slots: self.slots,
            chunks: self.chunks,
            starts: self.starts,
            targets: self.targets,
            roots: self.roots,
        };
        (!self.is_full).then(|| graph.with(&counted))
    }
}

/// The nodes to which each node refers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lists<'a> {
    /// Where the list of each node starts in `targets`; [`NO_NODE`] for a node without one.
    pub(crate) starts: &'a [u32],
    /// For each list its length and then its nodes.
    pub(crate) targets: &'a [u32],
}

impl<'a> Lists<'a> {
    /// Number of nodes.
    pub(crate) const fn nodes(self) -> u32 {
        self.starts.len() as u32
    }

    /// Whether a node may refer to others: where its list starts tells, and the list itself need not be looked at.
    pub(crate) fn leads_on(self, node: u32) -> bool {
        self.starts.get(node as usize).is_some_and(|start| *start != NO_NODE)
    }

    /// The nodes that a node refers to.
    pub(crate) fn of(self, node: u32) -> &'a [u32] {
        let start = self.starts.get(node as usize).copied().unwrap_or(NO_NODE) as usize;
        let Some(length) = self.targets.get(start) else { return &[] };
        self.targets.get(start + 1..start + 1 + *length as usize).unwrap_or(&[])
    }
}

/// Lists that are made up.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct MadeLists {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

#[cfg(test)]
impl MadeLists {
    pub(crate) fn of(lists: &[Vec<u32>]) -> Self {
        let mut made = Self::default();
        for list in lists {
            made.starts.push(made.targets.len() as u32);
            made.targets.push(list.len() as u32);
            made.targets.extend(list);
        }
        made
    }

    pub(crate) fn lists(&self) -> Lists<'_> {
        Lists { starts: &self.starts, targets: &self.targets }
    }
}

/// The references of a process.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceGraph {
    slots: u32,
    chunks: u32,
    starts: Vec<u32>,
    targets: Vec<u32>,
    roots: Vec<(u64, RootPlace)>,
}

impl ReferenceGraph {
    /// Bytes of memory for the graph of so many slots and chunks: a start for each, and some three references.
    pub(crate) const fn bytes(slots: u64, chunks: u64) -> u64 {
        (slots + chunks) * 4 + slots * 20 + chunks * 8
    }

    /// Adds references, which are sorted.
    fn with(mut self, more: &[(u32, u32)]) -> Self {
        for group in more.chunk_by(|one, other| one.0 == other.0) {
            let Some((from, _)) = group.first().copied() else { continue };
            // Copied to the end: between two lists there is no room for more.
            let before = self.of(from).to_vec();
            let Ok(start) = u32::try_from(self.targets.len()) else { return self };
            self.targets.push((before.len() + group.len()) as u32);
            self.targets.extend(before);
            self.targets.extend(group.iter().map(|(_, to)| *to));
            self.starts[from as usize] = start;
        }
        // Growing has left up to half of it unused, and the searches that follow need memory.
        self.targets.shrink_to_fit();
        self
    }

    /// What each node refers to.
    pub(crate) fn lists(&self) -> Lists<'_> {
        Lists { starts: &self.starts, targets: &self.targets }
    }

    /// The nodes that a node refers to.
    pub(crate) fn of(&self, node: u32) -> &[u32] {
        self.lists().of(node)
    }

    /// Number of nodes.
    pub(crate) const fn nodes(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Number of slots.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots
    }

    /// The node of the first chunk of the table.
    pub(crate) const fn first_chunk(&self) -> u32 {
        self.slots
    }

    /// The first root.
    pub(crate) const fn first_root(&self) -> u32 {
        self.slots + self.chunks
    }

    /// The address of a root, and what it is a part of.
    pub(crate) fn root(&self, node: u32) -> Option<(u64, RootPlace)> {
        self.roots.get(node.checked_sub(self.first_root())? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_found_by_its_node_and_roots_that_lead_nowhere_are_forgotten() {
        let mut record = ReferenceRecord::new(10, 4, vec![0x100, 0x200]);
        assert_eq!(record.pieces((0x80, 0x300)), [(0x80, 0x100), (0x100, 0x200), (0x200, 0x300)]);
        record.begin_root(0x80, RootPlace::Other);
        record.begin_root(0x100, RootPlace::Library);
        record.add(3);
        record.add(3);
        record.add_chunk(1);
        record.begin(3);
        record.add(3);
        record.begin(11);
        record.add(4);
        record.end();
        record.add(5);
        let graph = record.finish().unwrap();
        assert_eq!((graph.nodes(), graph.first_root()), (15, 14));
        assert_eq!(graph.of(14), [3, 11]);
        assert_eq!((graph.of(3), graph.of(11), graph.of(99)), (&[][..], &[4][..], &[][..]));
        assert_eq!((graph.root(14), graph.root(13)), (Some((0x100, RootPlace::Library)), None));
    }

    #[test]
    fn references_into_the_middle_count_only_for_chunks_that_have_no_others() {
        let mut record = ReferenceRecord::new(10, 4, vec![]).only_from_roots(Some(3));
        record.begin(2);
        record.add(7);
        record.add_inside(0);
        record.add_inside(1);
        record.add_inside(3);
        record.pause(Some(3));
        record.add_chunk(3);
        record.pause(None);
        record.begin_root(8, RootPlace::Thread(2));
        record.add_chunk(3);
        record.add_inside(0);
        record.keep_inside(0, 10);
        record.keep_inside(3, 13);
        let graph = record.finish().unwrap();
        assert_eq!(graph.of(2), [7, 10]);
        assert_eq!(graph.of(14), [13, 10]);
    }
}
