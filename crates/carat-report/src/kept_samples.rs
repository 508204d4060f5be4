//! What is kept, by what keeps it, as the samples of a profile: each with its way, and with what only that way keeps.

use crate::text::one_line;
use carat_outside::who::{CodePlace, KeptAmount, KeptBy, KeptTree, WayLink, WayRoot};
use std::collections::HashMap;
use std::hash::Hash;

/// One frame of a way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeptFrame {
    /// What a person reads.
    pub(crate) name: String,
    /// The file and line of its code; empty and 0 without.
    pub(crate) place: (String, u64),
}

/// What one way keeps.
pub(crate) struct KeptSample {
    /// The frames, the outermost first: where the way begins.
    pub(crate) frames: Vec<KeptFrame>,
    /// Objects of this way and of none above it.
    pub(crate) objects: u64,
    /// Bytes of them in memory.
    pub(crate) bytes: u64,
}

/// Numbers that are given in the order of the first mention.
pub(crate) struct Numbered<T> {
    numbers: HashMap<T, u64>,
    /// By number.
    pub(crate) all: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    pub(crate) fn new() -> Self {
        Self { numbers: HashMap::new(), all: Vec::new() }
    }

    pub(crate) fn number(&mut self, one: T) -> u64 {
        let next = self.all.len() as u64;
        let number = *self.numbers.entry(one.clone()).or_insert(next);
        if number == next {
            self.all.push(one);
        }
        number
    }
}

/// The samples of a tree. They add up to all that is kept.
pub(crate) fn kept_samples(tree: &KeptTree) -> Vec<KeptSample> {
    let mut below = vec![KeptAmount::default(); tree.nodes.len()];
    for node in &tree.nodes {
        if let Some(sum) = node.above.and_then(|above| below.get_mut(above as usize)) {
            *sum = sum.plus(node.all);
        }
    }
    let mut samples = Vec::new();
    let mut total = KeptAmount::default();
    for (number, (node, below)) in tree.nodes.iter().zip(below).enumerate() {
        let objects = node.all.objects.saturating_sub(below.objects);
        let bytes = node.all.bytes.saturating_sub(below.bytes);
        if bytes == 0 {
            continue;
        }
        let frames = tree.path(number).into_iter().rev().map(frame).collect();
        samples.push(KeptSample { frames, objects, bytes });
        total = total.plus(KeptAmount { objects, bytes, ..KeptAmount::default() });
    }
    let bytes = tree.all.bytes.saturating_sub(total.bytes);
    if bytes > 0 {
        let objects = tree.all.objects.saturating_sub(total.objects);
        let frames = vec![KeptFrame::named("everything else")];
        samples.push(KeptSample { frames, objects, bytes });
    }
    samples
}

impl KeptFrame {
    /// A frame without a place.
    pub(crate) fn named(name: &str) -> Self {
        Self { name: one_line(name), place: (String::new(), 0) }
    }
}

fn frame(by: &KeptBy) -> KeptFrame {
    let place = code(by).map(|code| (one_line(&code.path), code.line));
    KeptFrame { place: place.unwrap_or_default(), ..KeptFrame::named(&by.to_string()) }
}

/// The place in the program that a frame is about.
fn code(by: &KeptBy) -> Option<&CodePlace> {
    match by {
        KeptBy::Step(step) => match &step.link {
            WayLink::Frame { code: Some(code), .. } => Some(code),
            _ => step.of.code.as_ref(),
        },
        KeptBy::Itself(holder) => holder.code.as_ref(),
        KeptBy::Root(WayRoot::Frame { code, .. }) => code.as_ref(),
        KeptBy::Root(_) => None,
    }
}
