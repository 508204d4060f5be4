//! Where the root of jemalloc's tree from pages to extents is: found by votes.
//!
//! A leaf and the records of its extents say the same thing twice: which pages an extent has, of which class it is, and in which
//! state. No other data does so dozens of times. The addresses of the extents tell which entry of the root leads to the leaf, and so
//! where the root is; then every other leaf must agree with its own place.

use super::layout::{LAYOUTS, TreeLayout};
use super::places::{Window, is_own_place, present_pages, windows};
use crate::bytes::word_in;
use crate::memory::{Memory, PAGE, PAGE_LENGTH};

/// Votes that a leaf is asked for: at first, and where its root is known.
const FIRST: u64 = 64;
const MORE: u64 = 512;
/// Fewer votes for a root may be chance.
const LEAST: u64 = 8;
/// After so many votes against, and none for it, a leaf is none.
const HOPELESS: u64 = 4;
/// Words of one file's data that may lead to a leaf.
const CANDIDATES: usize = 1 << 16;
/// Nodes below the root that are followed; each covers at least 128 MiB of addresses.
pub(super) const NODES: usize = 1 << 14;

/// The root of one jemalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    /// Name of the file that it is in.
    pub(super) file: String,
    pub(super) address: u64,
    pub(super) layout: TreeLayout,
    /// Votes for it and against it.
    pub(super) votes: (u64, u64),
}

/// Votes about a leaf, or about the leaves below a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Votes {
    yes: u64,
    no: u64,
    /// The upper bits of the addresses that it covers, once a vote told them.
    prefix: Option<u64>,
}

impl Votes {
    /// Whether it is what it is thought to be. Some entries change while they are read.
    const fn accept(&self, least: u64) -> bool {
        self.yes >= least && self.no * 4 <= self.yes
    }
}

/// The roots that the votes elect, at most one in each file, and the best vote that was not enough.
pub(super) fn find_roots(memory: &dyn Memory) -> (Vec<Root>, (u64, u64)) {
    // A root lies in data that starts as zero, so only files with enough of it can have one.
    let least = LAYOUTS.iter().map(TreeLayout::node_bytes).min().unwrap_or(0);
    let mut best = (0, 0);
    let mut roots = Vec::new();
    for window in windows(memory, least) {
        let layouts = LAYOUTS.iter().filter(|layout| layout.node_bytes() <= window.zeroed);
        let mut searches =
            layouts.map(|layout| RootSearch { memory, layout: *layout, window: &window });
        roots.extend(searches.find_map(|search| search.root(&mut best)));
    }
    (roots, best)
}

/// The search for a root with one layout in one file.
struct RootSearch<'a> {
    memory: &'a dyn Memory,
    layout: TreeLayout,
    window: &'a Window,
}

impl RootSearch<'_> {
    fn root(&self, best: &mut (u64, u64)) -> Option<Root> {
        let mut candidates = 0;
        let mut page = [0; PAGE_LENGTH];
        for at in present_pages(self.memory, self.window.start, self.window.end) {
            if !self.memory.read(at, &mut page) {
                continue;
            }
            for (number, word) in (0..).zip(page.chunks_exact(8)) {
                let child = word_in(word, 0).unwrap_or(0);
                if child == 0 || !is_own_place(self.memory, child, self.child_bytes()) {
                    continue;
                }
                candidates += 1;
                // Data full of addresses is no jemalloc's, and every candidate costs reads.
                if candidates > CANDIDATES {
                    return None;
                }
                let found = self.root_of(at + number * 8, child, best);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Bytes of what an entry of the root leads to.
    const fn child_bytes(&self) -> u64 {
        if self.layout.levels == 2 { self.layout.leaf_bytes() } else { self.layout.node_bytes() }
    }

    /// The root whose entry at `place` leads to `child`.
    fn root_of(&self, place: u64, child: u64, best: &mut (u64, u64)) -> Option<Root> {
        let votes = self.child_votes(child, None, FIRST);
        // Kept also if it is not enough, so that the reason can say how near it came.
        if votes.yes > best.0 {
            *best = (votes.yes, votes.no);
        }
        let prefix = votes.prefix.filter(|prefix| *prefix < self.layout.entries());
        let address = place.checked_sub(prefix.filter(|_| votes.accept(LEAST))? * 8)?;
        let end = address.checked_add(self.layout.node_bytes())?;
        // A root that would reach beyond the file's data is none.
        if address < self.window.start || end > self.window.end {
            return None;
        }
        let votes = self.all_votes(address)?;
        let file = self.window.file.clone();
        Some(Root { file, address, layout: self.layout, votes })
    }

    /// The votes of every leaf of a root; `None` if too many are against it.
    fn all_votes(&self, root: u64) -> Option<(u64, u64)> {
        let (mut sound, mut wrong, mut yes, mut no) = (0, 0, 0, 0);
        for (number, child) in children(self.memory, root, &self.layout).into_iter().take(NODES) {
            let votes = match is_own_place(self.memory, child, self.child_bytes()) {
                true => self.child_votes(child, Some(number), MORE),
                false => Votes { no: 1, ..Votes::default() },
            };
            (yes, no) = (yes + votes.yes, no + votes.no);
            // A leaf of which only a few entries are in use may be in motion.
            if votes.no * 4 <= votes.yes + 4 { sound += 1 } else { wrong += 1 }
        }
        (sound > 0 && wrong * 8 <= sound && no * 4 <= yes).then_some((yes, no))
    }

    fn child_votes(&self, child: u64, prefix: Option<u64>, most: u64) -> Votes {
        match self.layout.levels {
            2 => self.leaf_votes(child, prefix, most),
            _ => self.node_votes(child, prefix),
        }
    }

    /// The votes of the leaves below a node, whose places in it they must agree with.
    fn node_votes(&self, node: u64, expected: Option<u64>) -> Votes {
        let mut sum = Votes { prefix: expected, ..Votes::default() };
        let leaves = children(self.memory, node, &self.layout);
        let bytes = self.layout.leaf_bytes();
        // The first wrong word of what is no node ends it.
        if leaves.is_empty()
            || !leaves.iter().all(|(_, leaf)| is_own_place(self.memory, *leaf, bytes))
        {
            return Votes { no: HOPELESS, ..sum };
        }
        for (number, leaf) in leaves.into_iter().take(NODES) {
            // Without an expected place: that all leaves find their own is the proof.
            let votes = self.leaf_votes(leaf, None, FIRST);
            let Some(prefix) = votes.prefix else {
                sum.no += votes.no;
                continue;
            };
            let own = prefix >> self.layout.level_bits;
            let is_here = prefix & (self.layout.entries() - 1) == number;
            if votes.accept(1) && is_here && sum.prefix.is_none_or(|prefix| prefix == own) {
                sum.prefix = Some(own);
                (sum.yes, sum.no) = (sum.yes + votes.yes, sum.no + votes.no);
            } else {
                sum.no += votes.yes + votes.no;
            }
        }
        sum
    }

    /// The votes of the entries of a leaf.
    fn leaf_votes(&self, leaf: u64, prefix: Option<u64>, most: u64) -> Votes {
        let mut votes = Votes { prefix, ..Votes::default() };
        let end = leaf.saturating_add(self.layout.leaf_bytes());
        let entry_bytes = self.layout.entry_bytes();
        let mut bytes = [0; PAGE_LENGTH];
        for page in present_pages(self.memory, leaf, end) {
            // A leaf begins at a line of the cache, which may be within a page.
            let (from, to) = (page.max(leaf), (page + PAGE).min(end));
            let part = &mut bytes[..(to - from) as usize];
            if !self.memory.read(from, part) {
                continue;
            }
            for (number, entry) in
                ((from - leaf) / entry_bytes..).zip(part.chunks_exact(entry_bytes as usize))
            {
                self.vote(number, entry, &mut votes);
                // Enough for an answer; a leaf has up to 262,144 entries.
                if votes.yes + votes.no >= most || (votes.yes == 0 && votes.no >= HOPELESS) {
                    return votes;
                }
            }
        }
        votes
    }

    /// The vote of one entry of a leaf, if it is not empty.
    fn vote(&self, number: u64, bytes: &[u8], votes: &mut Votes) {
        let Some(entry) = self.layout.entry(bytes) else { return };
        // Before the record is read: a word that is no address would cost a read of a page.
        let is_place = is_own_place(self.memory, entry.record, 128);
        let extent = is_place.then(|| self.layout.extent(self.memory, entry.record)).flatten();
        let agreed = extent.and_then(|extent| {
            let own = extent.address >> self.layout.leaf_bits();
            let prefix = votes.prefix.unwrap_or(own);
            let page =
                prefix.checked_shl(self.layout.leaf_bits())? | number << self.layout.page_bits;
            extent.agrees(&self.layout, &entry, page).then_some(prefix)
        });
        match agreed {
            Some(prefix) => {
                votes.prefix = Some(prefix);
                votes.yes += 1;
            }
            None => votes.no += 1,
        }
    }
}

/// The entries of the root, or of a node, that are not empty: their numbers and what they lead to.
pub(super) fn children(memory: &dyn Memory, node: u64, layout: &TreeLayout) -> Vec<(u64, u64)> {
    let end = node.saturating_add(layout.node_bytes());
    let mut found = Vec::new();
    let mut bytes = [0; PAGE_LENGTH];
    for page in present_pages(memory, node, end) {
        let (from, to) = (page.max(node), (page + PAGE).min(end));
        let part = &mut bytes[..(to - from) as usize];
        if memory.read(from, part) {
            let words = ((from - node) / 8..).zip(part.chunks_exact(8));
            let words = words.map(|(number, word)| (number, word_in(word, 0).unwrap_or(0)));
            found.extend(words.filter(|(_, child)| *child != 0));
        }
    }
    found
}
