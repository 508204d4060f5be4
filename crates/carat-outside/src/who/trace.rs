//! The way of one object of a process in words.

use super::data::{Holder, Way, WayLink, WayRoot, WayStep};
use super::links::{Names, Passage};
use super::subject::WhoSubject;
use super::traced::{Evidence, STEPS, TracedWay, is_end};
use super::ways::{NodeKinds, Ways};
use crate::heap::SlotType;
use crate::reach::forms::TableKind;
use crate::reach::record::RootPlace;

impl Names<'_> {
    /// The way to an object; `None` if nothing leads to it, or if a reference on it is not found again.
    pub(super) fn traced(&self, ways: &Ways, node: u32) -> Option<TracedWay> {
        let mut traced = TracedWay::default();
        traced.way.object = self.described(node, &mut traced.evidence)?;
        let mut at = node;
        if self.is_known_object(node) {
            return Some(traced);
        }
        while let Some(before) = self.before(ways, at) {
            let Some(object) = before.object else {
                let root = before.root?;
                traced.way.root =
                    Some(self.root(root, &before.between, at, &mut traced.evidence)?);
                break;
            };
            let passage = self.passage(object, &before.between, at)?;
            self.rests_on(Some(object), &passage, &mut traced.evidence);
            if self.is_vm(object) {
                traced.way.root = Some(self.named_root(&passage).unwrap_or(WayRoot::Vm));
                break;
            }
            if self.is_symbol_table(object) {
                traced.way.root = Some(WayRoot::SymbolTable);
                break;
            }
            let mut of = self.described(object, &mut traced.evidence)?;
            if of.thread.is_some() {
                // A thread that runs is named well enough by its number.
                of.code = None;
            }
            let link = self.link(object, &passage);
            let ends = is_end(&of, &link);
            let link = self.join_shared(&mut traced.way, object, &passage, link);
            traced.way.steps.push(WayStep { link, of });
            if ends || traced.way.steps.len() >= STEPS {
                break;
            }
            at = object;
        }
        Some(traced)
    }

    /// Whether an object is the one that Ruby's virtual machine has of itself.
    pub(super) fn is_vm(&self, node: u32) -> bool {
        self.nodes.slot_type(node) == Some(SlotType::DATA)
            && self.class_of(node).as_deref() == Some("RubyVM")
    }

    /// An array that shares its elements with a hidden one is the array of the program: its elements are named as its own.
    fn join_shared(&self, way: &mut Way, array: u32, passage: &Passage, link: WayLink) -> WayLink {
        let is_array = self.nodes.view(array).is_some_and(|view| view.kind() == SlotType::ARRAY);
        let Some(hidden) = way.steps.last().filter(|_| is_array && link == WayLink::Shared) else {
            return link;
        };
        let (WayLink::Element(Some(number)), "Array") = (&hidden.link, hidden.of.name.as_str())
        else {
            return link;
        };
        let number = *number;
        way.steps.pop();
        WayLink::Element(self.number_in_part(array, passage, number))
    }

    /// The place in an array of what has this place in the array that it shares a part of.
    fn number_in_part(&self, array: u32, passage: &Passage, number: u64) -> Option<u64> {
        let view = self.nodes.view(array)?;
        let owner = self.memory().word(passage.spots.first()?.address()?)?;
        let owner = self.nodes.view(self.nodes.reach.slot_number(owner)?)?;
        let (start, _) = super::links::contents(&owner)?;
        let (part, length) =
            (self.memory().word_at(view.address, 32)?, self.memory().word_at(view.address, 16)?);
        let number = start.checked_add(number * 8)?.checked_sub(part)? / 8;
        (number < length).then_some(number)
    }

    fn described(&self, node: u32, evidence: &mut Vec<Evidence>) -> Option<Holder> {
        let mut holder = self.holder(node, true);
        holder.thread = self.running_thread(node);
        let head = self.nodes.head(node)?;
        evidence.push(Evidence::Object {
            at: self.nodes.address(node)?,
            flags: head.flags,
            class: head.class,
        });
        Some(holder)
    }

    /// Adds the words on which a passage from an object, or from a root, rests.
    fn rests_on(&self, from: Option<u32>, passage: &Passage, evidence: &mut Vec<Evidence>) {
        for (number, spot) in passage.spots.iter().enumerate() {
            let Some(at) = spot.address() else { continue };
            let Some(word) = self.memory().word(at) else { continue };
            // Only the object itself says where its contents are.
            let content = from.filter(|_| number == 0).and_then(|from| {
                let from = self.nodes.leads_to(from, at)?;
                let offset = at.checked_sub(self.memory().word(from)?)?;
                Some(Evidence::Content { from, offset, word })
            });
            evidence.push(content.unwrap_or(Evidence::Word { at, word }));
        }
    }

    /// Where a way begins.
    pub(super) fn root(
        &self,
        root: u32,
        between: &[u32],
        object: u32,
        evidence: &mut Vec<Evidence>,
    ) -> Option<WayRoot> {
        let passage = self.passage_from_root(between, object);
        if let Some(passage) = &passage {
            self.rests_on(None, passage, evidence);
            if let Some(named) = self.named_root(passage) {
                return Some(named);
            }
        } else if !between.is_empty() {
            return None;
        }
        self.root_by_place(root)
    }

    /// What a root is by its place alone.
    pub(super) fn root_by_place(&self, root: u32) -> Option<WayRoot> {
        let (address, place) = self.nodes.root(root)?;
        Some(match place {
            RootPlace::Library => match self.nodes.libraries.at(address) {
                Some((
                    Some("ruby_current_vm_ptr" | "ruby_current_vm" | "ruby_single_main_ractor"),
                    _,
                )) => WayRoot::Vm,
                Some((Some(name), library)) => {
                    WayRoot::Symbol { name: name.to_owned(), library: library.to_owned() }
                }
                Some((None, library)) => WayRoot::StaticData { library: library.to_owned() },
                None => WayRoot::OtherMemory,
            },
            RootPlace::Thread(number) => {
                let thread = self.threads.get(number as usize)?;
                WayRoot::Stack { thread: thread.id, name: thread.name.clone() }
            }
            RootPlace::Other => WayRoot::OtherMemory,
        })
    }

    /// The passage from the first node behind a root to an object.
    pub(super) fn passage_from_root(&self, between: &[u32], object: u32) -> Option<Passage> {
        let (first, rest) = between.split_first()?;
        let mut passage = self.passage(*first, rest, object)?;
        // The root's own reference is not among the spots, so that the first node is not between.
        passage.between.insert(0, *first);
        passage.spots.insert(0, super::nodes::Spot::GenericFields);
        Some(passage)
    }

    /// A root that has a better name than its place: a global variable, a finalizer, a local variable of code that runs.
    pub(super) fn named_root(&self, passage: &Passage) -> Option<WayRoot> {
        let name =
            self.id_item(passage).and_then(|(serial, _)| self.symbols.as_ref()?.serial(serial));
        if let Some(name) = name.filter(|name| name.starts_with('$')) {
            return Some(WayRoot::Global { name: crate::printable::printable(&name) });
        }
        let is_finalizer = passage.between.iter().any(|node| {
            let table =
                self.nodes.chunk(*node).and_then(|(number, _)| self.nodes.reach.own_table(number));
            table.is_some_and(|(_, kind)| kind == TableKind::StrongRecords)
        });
        if is_finalizer {
            return Some(WayRoot::Finalizer);
        }
        let (variable, code) = self.frame_variable(passage)?;
        Some(WayRoot::Frame { variable, code })
    }
}
