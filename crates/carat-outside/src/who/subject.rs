//! What the search asks of the graph that it searches: of a process, or of a heap dump.

use super::data::{Holder, WayLink, WayRoot};
use super::dominators::References;
use super::links::Names;
use super::traced::{Before, TracedWay};
use super::ways::{NodeKinds, Ways};
use crate::heap::{ClassId, SlotType};
use crate::reach::record::Lists;
use std::ops::Range;

/// Nodes between two objects on a way.
const BETWEEN: usize = 400;
/// Bytes of the table of a root that is searched for a name, at most.
const ROOT_TABLE: u64 = 64 << 10;

/// A graph whose first nodes are objects and whose last ones are roots; what lies between belongs to objects.
pub(super) trait WhoSubject: References + NodeKinds {
    /// Number of nodes that can be objects.
    fn objects(&self) -> u32;
    /// Bytes of a node.
    fn bytes(&self, node: u32) -> u64;
    /// Whether minor collections skip an object.
    fn is_old(&self, node: u32) -> bool;
    /// Whether the roots lead to an object.
    fn is_reached(&self, node: u32) -> bool;
    /// The class of an object; `None` for a node without one.
    fn class_id(&self, node: u32) -> Option<ClassId>;
    /// Number of the classes that were asked for.
    fn classes(&self) -> usize;
    fn class_name(&self, class: ClassId) -> String;
    /// Whether an object can be a step of a way. Others are a part of the object before them.
    fn is_step(&self, node: u32) -> bool;
    /// Whether a reader knows what an object is without knowing what keeps it.
    fn is_known(&self, node: u32) -> bool;
    /// Whether an object is the main object.
    fn is_main(&self, node: u32) -> bool;
    /// By what an object keeps another, without what differs from one object of a container to the next.
    fn common_link(&self, from: u32, between: &[u32], to: u32) -> WayLink;
    /// What an object is. `in_full`: with what differs from one object to the next.
    fn describe(&self, node: u32, in_full: bool) -> Holder;
    /// The way to an object in full; `None` if a reference on it is not found again.
    fn trace(&self, ways: &Ways, node: u32) -> Option<TracedWay>;
    /// The root that an object is itself.
    fn as_root(&self, node: u32) -> Option<WayRoot>;
    /// The root that a keeper stands for, for what it keeps.
    fn as_root_of(&self, keeper: u32, between: &[u32], object: u32) -> Option<WayRoot>;
    /// Whether a better name of a root is found by what lies behind it.
    fn may_name_root(&self, between: &[u32]) -> bool;
    /// The better name.
    fn named_root_of(&self, between: &[u32], object: u32) -> Option<WayRoot>;
    /// The name of a root by its place.
    fn place_of_root(&self, root: u32) -> Option<WayRoot>;

    /// What comes before an object; `None` if nothing does.
    fn before(&self, ways: &Ways, node: u32) -> Option<Before> {
        let mut between = Vec::new();
        let mut at = ways.before(node)?;
        while !self.is_step(at) {
            let Some(next) = ways.before(at) else { break };
            between.push(at);
            at = next;
            // So many chunks in a row are a list in C, of which no step has a name.
            if between.len() > BETWEEN {
                return None;
            }
        }
        between.reverse();
        let is_step = self.is_step(at);
        let (object, root) = (is_step.then_some(at), (!is_step).then_some(at));
        Some(Before { object, root, between })
    }
}

impl References for Names<'_> {
    fn roots(&self) -> Range<u32> {
        self.nodes.roots()
    }

    fn lists(&self) -> Lists<'_> {
        self.nodes.lists()
    }
}

impl NodeKinds for Names<'_> {
    fn slot_type(&self, node: u32) -> Option<SlotType> {
        self.nodes.slot_type(node)
    }

    fn root_cost(&self, root: u32) -> u32 {
        self.nodes.root_cost(root)
    }
}

impl WhoSubject for Names<'_> {
    fn objects(&self) -> u32 {
        self.nodes.graph.slots()
    }

    fn bytes(&self, node: u32) -> u64 {
        // Of chunks that were told only parts are known.
        let is_known = self.nodes.is_slot(node) || !self.nodes.words().chunks.is_told();
        if is_known { self.nodes.present_bytes(node) } else { 0 }
    }

    fn is_old(&self, node: u32) -> bool {
        self.nodes.is_old(node)
    }

    fn is_reached(&self, node: u32) -> bool {
        self.nodes.reach.is_reached_number(node)
    }

    fn class_id(&self, node: u32) -> Option<ClassId> {
        let head = self.nodes.head(node).filter(|head| head.slot_type() != SlotType::NONE)?;
        let words = self.nodes.words();
        Some(self.classes.borrow_mut().of_slot(words.memory, words.heap, head))
    }

    fn classes(&self) -> usize {
        self.classes.borrow().len()
    }

    fn class_name(&self, class: ClassId) -> String {
        self.classes.borrow().name(class).to_owned()
    }

    fn is_step(&self, node: u32) -> bool {
        // An object of Ruby's own that holds the fields of another one is as good as a chunk.
        self.nodes.is_slot(node) && !self.is_fields(node)
    }

    fn is_known(&self, node: u32) -> bool {
        self.is_known_object(node)
    }

    fn is_main(&self, node: u32) -> bool {
        self.main == Some(node)
    }

    fn common_link(&self, from: u32, between: &[u32], to: u32) -> WayLink {
        self.link_in_common(from, between, to)
    }

    fn describe(&self, node: u32, in_full: bool) -> Holder {
        self.holder(node, in_full)
    }

    fn trace(&self, ways: &Ways, node: u32) -> Option<TracedWay> {
        self.traced(ways, node)
    }

    fn as_root(&self, node: u32) -> Option<WayRoot> {
        self.is_symbol_table(node).then_some(WayRoot::SymbolTable)
    }

    fn as_root_of(&self, keeper: u32, between: &[u32], object: u32) -> Option<WayRoot> {
        if self.is_vm(keeper) {
            let passage = self.passage(keeper, between, object);
            let root = passage.and_then(|passage| self.named_root(&passage));
            return Some(root.unwrap_or(WayRoot::Vm));
        }
        self.as_root(keeper)
    }

    fn may_name_root(&self, between: &[u32]) -> bool {
        let mut chunks = between.iter().filter_map(|node| self.nodes.chunk(*node));
        // A name is searched word by word, which large tables would make slow for every object.
        chunks.all(|(_, chunk)| chunk.size <= ROOT_TABLE)
    }

    fn named_root_of(&self, between: &[u32], object: u32) -> Option<WayRoot> {
        let passage = self.passage_from_root(between, object)?;
        self.named_root(&passage)
    }

    fn place_of_root(&self, root: u32) -> Option<WayRoot> {
        self.root_by_place(root)
    }
}
