//! The search as a whole.

use super::code::CodeLayout;
use super::data::{ClassHolders, CountedWay, SoleHolder, WayRoot, WhoCensus};
use super::dominators::Dominators;
use super::frames::{frame_bytes, main_object};
use super::holders::{Retained, holder_of, largest};
use super::kept::{DraftTree, KeptCount};
use super::libraries::Libraries;
use super::links::Names;
use super::nodes::Nodes;
use super::patterns::Patterns;
use super::subject::WhoSubject;
use super::traced::{Evidence, TracedWay};
use super::ways::{NodeKinds, Ways};
use crate::elf::RubyAnchors;
use crate::heap::{ClassId, ClassNames, Heap, NamesUnknown, SlotType};
use crate::malloc::ChunkTable;
use crate::memory::{Memory, MemoryRegion};
use crate::need::{MemoryNeed, NeedPart};
use crate::owners::{ReachCensus, ThreadPlace};
use crate::reach::record::ReferenceGraph;
use crate::reach::symbols::Symbols;
use crate::reach::{ReachUnknown, Recorded, reach_recorded};
use carat_ruby::version::SHAPES;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;

/// Classes without a request, and holders.
const CLASSES: usize = 3;
const HOLDERS: usize = 5;
/// Classes of what a program consists of, in contrast to its data.
const CODE: [&str; 3] = ["Class", "Module", "Regexp"];
/// Holders that are looked at for each that is told.
const LOOKED_AT: usize = 4;
/// A holder is told if it keeps one of so many bytes.
const SMALL: u64 = 100;
/// Ways to the objects of one class.
const WAYS: usize = 4;
/// A way is told if one of so many objects has it. Rarer ones are mostly old words in memory that may hold anything.
const RARE: u64 = 100;

/// What is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhoRequest {
    /// Who keeps the objects of these classes; if there are none, of the classes with most bytes of old objects.
    pub classes: Vec<String>,
    /// Also the objects that keep most memory alive alone, which come unasked where no class is named.
    pub holders: bool,
    /// Also count everything that is kept, by what keeps it.
    pub kept: bool,
}

/// What is known of a process.
pub struct WhoSources<'a> {
    pub heap: &'a Heap,
    pub chunks: &'a ChunkTable,
    /// Its symbols.
    pub anchors: &'a RubyAnchors,
    pub threads: &'a [ThreadPlace],
    /// Opens the file of a mapping, for the names of C variables.
    pub open: &'a dyn Fn(&MemoryRegion) -> Option<File>,
}

/// Why it is unknown who keeps what.
#[derive(Debug, thiserror::Error)]
pub enum WhoUnknown {
    /// What the roots reach is unknown.
    #[error(transparent)]
    Reach(#[from] ReachUnknown),
    /// Classes have no names.
    #[error(transparent)]
    Names(#[from] NamesUnknown),
    /// Too many references.
    #[error("it has more references than can be numbered")]
    TooMany,
    /// A dump says nothing of roots.
    #[error("the dump has no roots, so what keeps objects is unknown")]
    NoRoots,
    /// The requested class has no objects.
    #[error("there is no object of class {0}")]
    NoClass(String),
}

/// What the search takes of our own memory, for so many slots and chunks, beside the tables of both.
pub fn who_need(process: u32, (slots, chunks): (u64, u64), request: &WhoRequest) -> MemoryNeed {
    let nodes = slots.saturating_add(chunks);
    let references = slots.saturating_mul(3).saturating_add(chunks);
    // While dominators are searched, ways are known; sums come after.
    let graph = ReferenceGraph::bytes(slots, chunks) + Nodes::bytes(slots);
    let by_holder = if request.kept { KeptCount::bytes(slots) } else { 0 };
    let kept = graph + nodes * 4;
    let searches = [
        Ways::bytes(nodes, references),
        Dominators::bytes(nodes, references),
        nodes * 8 + Retained::bytes_needed(nodes) + slots * 8 + nodes * 8 + by_holder,
    ];
    let most = searches.into_iter().max().unwrap_or(0);
    MemoryNeed { process, part: NeedPart::Graph, bytes: kept.saturating_add(most) }
}

/// Who keeps what, and what is known of garbage when it was found out.
#[derive(Debug)]
pub struct WhoFound {
    pub who: WhoCensus,
    /// Unknown where contents moved while they were read; then the numbers of garbage are too high.
    pub reach: Result<ReachCensus, ReachUnknown>,
    /// Objects of each class that a full collection would free, by the class's name; a class that is missing has none.
    pub garbage: HashMap<String, u64>,
}

/// Finds out who keeps what. `memory` is read again at the end, to confirm what is told.
///
/// # Errors
/// If it is unknown what the roots reach, or how classes are called.
pub fn find_who(
    memory: &mut dyn Memory,
    sources: &WhoSources<'_>,
    request: &WhoRequest,
) -> Result<WhoFound, WhoUnknown> {
    let (mut draft, reach) = draft(memory, sources, request)?;
    let garbage = std::mem::take(&mut draft.garbage);
    let who = draft.confirmed(&mut |evidence| evidence.holds(memory));
    Ok(WhoFound { who, reach, garbage })
}

/// A class, the ways to its objects, and who keeps most of them.
type DraftClass = (ClassHolders, Vec<DraftWay>, Option<DraftHolder>);

/// What was found, before it is confirmed.
pub(super) struct WhoDraft {
    census: WhoCensus,
    classes: Vec<DraftClass>,
    holders: Vec<DraftHolder>,
    kept: Option<DraftTree>,
    /// Objects of each class that a full collection would free, where there are any.
    garbage: HashMap<String, u64>,
}

/// Ways that differ only in numbers, with examples.
struct DraftWay {
    objects: u64,
    examples: Vec<TracedWay>,
}

struct DraftHolder {
    way: Option<TracedWay>,
    of_class: Option<u64>,
    objects: u64,
    bytes: u64,
}

impl WhoDraft {
    /// What was found, without what no longer holds.
    pub(super) fn confirmed(self, holds: &mut dyn FnMut(Evidence) -> bool) -> WhoCensus {
        let Self { mut census, classes, holders, kept, .. } = self;
        let mut left_out = 0;
        for (mut class, ways, holder) in classes {
            for way in ways {
                // One example that still holds is enough; the others may have changed since.
                let found = way.examples.into_iter().find_map(|example| example.confirmed(holds));
                match found {
                    Some(found) => class.ways.push(CountedWay { objects: way.objects, way: found }),
                    None => {
                        left_out += 1;
                        class.changed_objects += way.objects;
                    }
                }
            }
            class.holder = holder.and_then(|holder| holder.confirmed(holds, &mut left_out));
            census.classes.push(class);
        }
        let holders = holders.into_iter();
        census.holders =
            holders.filter_map(|holder| holder.confirmed(holds, &mut left_out)).collect();
        if let Some(kept) = kept {
            let (tree, lost) = kept.confirmed(holds);
            (census.kept, left_out) = (Some(tree), left_out + lost);
        }
        census.left_out = left_out;
        census
    }
}

impl DraftHolder {
    fn confirmed(
        self,
        holds: &mut dyn FnMut(Evidence) -> bool,
        left_out: &mut u64,
    ) -> Option<SoleHolder> {
        let way = self.way.and_then(|way| way.confirmed(holds));
        *left_out += u64::from(way.is_none());
        let Self { of_class, objects, bytes, .. } = self;
        Some(SoleHolder { way: way?, of_class, objects, bytes })
    }
}

fn draft(
    memory: &dyn Memory,
    sources: &WhoSources<'_>,
    request: &WhoRequest,
) -> Result<(WhoDraft, Result<ReachCensus, ReachUnknown>), WhoUnknown> {
    with_names(memory, sources, Recorded::Reached, &mut |names, object| {
        let whole = names.nodes.reach.is_whole();
        let reach = names.nodes.reach.census();
        let census = WhoCensus {
            reached_objects: reach.reached_objects,
            unreached_objects: reach.unreached_objects,
            garbage_objects: whole.is_ok().then_some(reach.unreached_objects),
            slots_only: sources.chunks.is_told(),
            unnamed: unnamed(names),
            ..WhoCensus::default()
        };
        Ok((draft_of(names, object, request, census)?, whole.map(|()| reach)))
    })
}

/// Searches a graph. `object` is the node of the class `Object`.
pub(super) fn draft_of(
    names: &dyn WhoSubject,
    object: Option<u32>,
    request: &WhoRequest,
    census: WhoCensus,
) -> Result<WhoDraft, WhoUnknown> {
    let ways = Ways::find(names, names, object);
    let knows_garbage = census.garbage_objects.is_some();
    // Whatever is kept in a way that is not known would not go.
    let alone = knows_garbage.then(|| {
        let dominators = Dominators::find(names);
        let retained = Retained::sum(names, &dominators);
        (dominators, retained)
    });
    let alone = alone.as_ref();
    let found = WhoFinder { names, ways: &ways, alone, knows_garbage };
    let ids = found.class_ids();
    let sums = found.sums(&ids);
    let classes = found.classes(request, (&ids, &sums))?;
    let wants_holders = request.holders || request.classes.is_empty();
    let holders = if wants_holders { found.holders() } else { Vec::new() };
    let kept = request.kept.then(|| KeptCount::new(names, &ways).tree(&ids));
    Ok(WhoDraft { census, classes, holders, kept, garbage: found.garbage(&sums) })
}

/// What is done with the names and the class `Object`.
type NamesUse<'a, T> = dyn FnMut(&Names<'_>, Option<u32>) -> Result<T, WhoUnknown> + 'a;

/// Follows the references of a process, learns where names are, and hands both on.
pub(super) fn with_names<T>(
    memory: &dyn Memory,
    sources: &WhoSources<'_>,
    recorded: Recorded,
    then: &mut NamesUse<'_, T>,
) -> Result<T, WhoUnknown> {
    let WhoSources { heap, chunks, anchors, threads, open } = *sources;
    let classes = ClassNames::learn(memory, heap, anchors)?;
    let libraries = Libraries::read(memory, open);
    let roots = (libraries.boundaries(), recorded);
    let (reach, graph) = reach_recorded(memory, heap, chunks, (anchors, threads), roots)?;
    let nodes = Nodes::new(&reach, graph.ok_or(WhoUnknown::TooMany)?, libraries);
    let object = anchors.value(memory, "rb_cObject").and_then(|object| reach.slot_number(object));
    let names = learn_names(nodes, classes, (object, threads));
    then(&names, object)
}

/// Learns where names are.
fn learn_names<'a>(
    nodes: Nodes<'a>,
    classes: ClassNames,
    (object, threads): (Option<u32>, &'a [ThreadPlace]),
) -> Names<'a> {
    let words = nodes.words();
    let symbols = Symbols::of(words);
    let internal =
        (0..nodes.graph.slots()).filter(|node| nodes.slot_type(*node) == Some(SlotType::IMEMO));
    let code: Vec<u64> = internal.filter_map(|node| nodes.address(node)).collect();
    let code = CodeLayout::learn(words, symbols, code);
    let frame = frame_bytes(&nodes, &code);
    let mut names = Names {
        symbols,
        code,
        frame,
        classes: RefCell::new(classes),
        nodes,
        main: None,
        threads,
        running: RefCell::default(),
        known: RefCell::default(),
    };
    names.main = main_object(&names, object);
    names
}

/// What has numbers in place of names.
pub(super) fn unnamed(names: &Names<'_>) -> Vec<String> {
    let (places, locals) = names.code.knows();
    let version = names.nodes.words().heap.version();
    let variables = !SHAPES.contains(version) || names.nodes.words().shapes.is_some();
    let known = [
        (
            names.symbols.is_some(),
            "the table of symbols was not found: constants and variables have no names",
        ),
        (
            variables || names.symbols.is_none(),
            "the table of shapes was not found: instance variables have numbers",
        ),
        (places, "the places of code were not found: blocks have no file and line"),
        (locals || names.symbols.is_none(), "the names of local variables were not found"),
    ];
    known.into_iter().filter(|(known, _)| !known).map(|(_, reason)| reason.to_owned()).collect()
}

/// Everything that was found.
struct WhoFinder<'a> {
    names: &'a dyn WhoSubject,
    ways: &'a Ways,
    /// What keeps what alone, and how much that is, where every reference is known.
    alone: Option<&'a (Dominators, Retained)>,
    knows_garbage: bool,
}

/// What is counted of one class.
#[derive(Debug, Clone, Copy, Default)]
struct ClassSums {
    objects: u64,
    old_objects: u64,
    bytes: u64,
    old_bytes: u64,
    unreached: u64,
}

impl WhoFinder<'_> {
    /// The class of each object.
    fn class_ids(&self) -> Vec<Option<ClassId>> {
        (0..self.names.objects()).map(|node| self.names.class_id(node)).collect()
    }

    fn sums(&self, ids: &[Option<ClassId>]) -> Vec<ClassSums> {
        let names = self.names;
        let mut sums = vec![ClassSums::default(); names.classes()];
        for (node, id) in (0..).zip(ids) {
            let Some(sum) = id.and_then(|id| sums.get_mut(id.index())) else { continue };
            let bytes = names.bytes(node);
            let old = u64::from(names.is_old(node));
            sum.objects += 1;
            sum.old_objects += old;
            sum.bytes += bytes;
            sum.old_bytes += bytes * old;
            sum.unreached += u64::from(!names.is_reached(node));
        }
        let Some((dominators, _)) = self.alone else { return sums };
        // Chunks that one object alone keeps, directly.
        for chunk in names.objects()..names.roots().start {
            let owner = dominators.of(chunk).filter(|owner| *owner < names.objects());
            let Some(owner) = owner else { continue };
            let id = ids.get(owner as usize).copied().flatten();
            let Some(sum) = id.and_then(|id| sums.get_mut(id.index())) else { continue };
            let bytes = names.bytes(chunk);
            sum.bytes += bytes;
            sum.old_bytes += bytes * u64::from(names.is_old(owner));
        }
        sums
    }

    /// Objects that a full collection would free, by the name of their class.
    fn garbage(&self, sums: &[ClassSums]) -> HashMap<String, u64> {
        let mut garbage = HashMap::new();
        for (id, sum) in (0..).zip(sums).filter(|(_, sum)| sum.unreached > 0) {
            *garbage.entry(self.names.class_name(ClassId(id))).or_default() += sum.unreached;
        }
        garbage
    }

    /// The requested class, or those with most bytes of old objects.
    fn classes(
        &self,
        request: &WhoRequest,
        (ids, sums): (&[Option<ClassId>], &[ClassSums]),
    ) -> Result<Vec<DraftClass>, WhoUnknown> {
        let name = |id: usize| self.names.class_name(ClassId(id as u32));
        let mut chosen: Vec<usize> = (0..sums.len()).filter(|id| sums[*id].objects > 0).collect();
        match request.classes.is_empty() {
            false => chosen.retain(|id| request.classes.contains(&name(*id))),
            true => {
                // What keeps code and internal objects is the program itself.
                chosen.retain(|id| {
                    !name(*id).starts_with('(') && !CODE.contains(&name(*id).as_str())
                });
                chosen.sort_by_key(|id| std::cmp::Reverse((sums[*id].old_bytes, sums[*id].bytes)));
                chosen.truncate(CLASSES);
            }
        }
        if !request.classes.is_empty() && chosen.is_empty() {
            return Err(WhoUnknown::NoClass(request.classes.join(", ")));
        }
        let mut objects: HashMap<usize, Vec<u32>> =
            chosen.iter().map(|id| (*id, Vec::new())).collect();
        for (node, id) in (0..).zip(ids) {
            let Some(list) = id.and_then(|id| objects.get_mut(&id.index())) else { continue };
            if self.names.is_reached(node) {
                list.push(node);
            }
        }
        let of_class = |id: &usize| {
            let objects = objects.get(id).map_or(&[][..], Vec::as_slice);
            self.class(name(*id), sums[*id], objects)
        };
        Ok(chosen.iter().map(of_class).collect())
    }

    /// The ways to the objects of a class, and who keeps most of them.
    fn class(&self, name: String, sums: ClassSums, objects: &[u32]) -> DraftClass {
        let mut patterns = Patterns::new(self.names, self.ways);
        objects.iter().for_each(|object| patterns.count(*object));
        let mut counted = patterns.finish();
        let often = counted.iter().take_while(|way| way.objects * RARE >= objects.len() as u64);
        let others = counted.split_off(often.count().min(WAYS));
        let class = ClassHolders {
            name,
            objects: sums.objects,
            old_objects: sums.old_objects,
            bytes: sums.bytes,
            unreached_objects: sums.unreached,
            garbage_objects: self.knows_garbage.then_some(sums.unreached),
            other_ways: others.len() as u64,
            other_objects: others.iter().map(|other| other.objects).sum(),
            ..ClassHolders::default()
        };
        let ways = counted.into_iter().map(|way| DraftWay {
            objects: way.objects,
            examples: way.examples.iter().filter_map(|node| self.trace(*node)).collect(),
        });
        let holder = self.alone.and_then(|(dominators, retained)| {
            let (node, of_class) = holder_of(self.names, dominators, objects)?;
            Some(self.holder(retained, node, Some(of_class)))
        });
        (class, ways.collect(), holder)
    }

    fn trace(&self, node: u32) -> Option<TracedWay> {
        self.names.trace(self.ways, node)
    }

    /// The objects that keep most alone, as far as a program can let go of them.
    fn holders(&self) -> Vec<DraftHolder> {
        let Some((dominators, retained)) = self.alone else { return Vec::new() };
        let (all, _) = retained.of(self.names.nodes());
        // More than are told, because some turn out to be Ruby's own.
        let candidates = largest(self.names, dominators, retained, HOLDERS * LOOKED_AT);
        let large = candidates.into_iter().filter(|node| retained.of(*node).0 * SMALL >= all);
        let drafts = large
            .filter(|node| !self.names.is_known(*node))
            .map(|node| self.holder(retained, node, None));
        let of_program = drafts.filter(|draft| {
            let way = draft.way.as_ref().map(|traced| &traced.way);
            way.is_none_or(|way| way.root != Some(WayRoot::SymbolTable))
        });
        of_program.take(HOLDERS).collect()
    }

    fn holder(&self, retained: &Retained, node: u32, of_class: Option<u64>) -> DraftHolder {
        let (bytes, objects) = retained.of(node);
        DraftHolder { way: self.trace(node), of_class, objects, bytes }
    }
}
