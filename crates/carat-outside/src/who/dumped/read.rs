//! Reads a dump twice.

use super::graph::{DumpGraph, DumpNames};
use super::line::DumpLine;
use super::objects::DumpObjects;
use crate::need::{MemoryGate, MemoryNeed, NeedPart};
use crate::who::data::WhoCensus;
use crate::who::dominators::Dominators;
use crate::who::holders::Retained;
use crate::who::search::{WhoRequest, WhoUnknown, draft_of};
use crate::who::ways::Ways;
use std::io::{self, BufRead, Read};

/// Bytes of a line at most: a hash of 30 million entries.
const LONGEST_LINE: u64 = 1 << 30;
/// Bytes of text for one object, at least, as far as one can say before reading.
const BYTES_PER_OBJECT: u64 = 150;
/// Roots of a dump at most.
const ROOTS: usize = 1 << 20;
/// Bytes for the longest lines, and for what is told.
const OTHER_BYTES: u64 = 32 << 20;
/// One reference in so many may lead out of a dump that is whole.
const PARTIAL_DUMP: u64 = 100;
/// Objects between two questions whether there is room for more.
const STEP: usize = 1 << 20;

/// Opens a dump, from its start.
pub type DumpOpener<'a> = dyn Fn() -> io::Result<Box<dyn BufRead>> + 'a;

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DumpFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// A line is too long.
    #[error("line {0} is longer than 1 GiB")]
    LongLine(u64),
    /// There is no room for the tables.
    #[error("{0}")]
    NoRoom(String),
    /// No line is one of an object.
    #[error(
        "it has no line of an object: it is no heap dump of ObjectSpace.dump_all or carat heap-dump"
    )]
    NoObject,
    /// More objects or references than numbers.
    #[error("it has more objects or references than can be numbered")]
    TooMany,
    /// The second reading found other lines.
    #[error("it changed while it was read")]
    Changed,
}

/// A dump with its references.
pub struct HeapDump {
    graph: DumpGraph,
    names: DumpNames,
    /// Lines that are no JSON or no object.
    bad_lines: u64,
    /// Whether the last line has no end.
    is_cut: bool,
    /// Objects that were there twice.
    again: u64,
}

/// Reads a dump. `text_bytes`: bytes of its text, as far as they are known before.
///
/// # Errors
/// If it cannot be read, is none, or there is no room for it.
pub fn read_dump(
    open: &DumpOpener<'_>,
    text_bytes: Option<u64>,
    room: &MemoryGate,
) -> Result<HeapDump, DumpFileError> {
    let announced = std::cell::Cell::new(0);
    let ask = |objects: u64, references: u64, names: bool| {
        let bytes = need(objects, references, names);
        // What was announced once is not announced again.
        if bytes <= announced.get() {
            return Ok(());
        }
        announced.set(bytes);
        let need = MemoryNeed { process: 0, part: NeedPart::Dump, bytes };
        room.ask(need).map_err(DumpFileError::NoRoom)
    };
    // A guess from the size of the file, so that a dump for which there is no room is refused before it is read.
    let expected = text_bytes.unwrap_or(0) / BYTES_PER_OBJECT;
    ask(expected, expected * 2, false)?;
    let mut objects = DumpObjects::default();
    let mut allowed = expected.max(STEP as u64);
    let (mut bad_lines, mut roots) = (0, Vec::new());
    let is_cut = each_line(open, &mut |line| {
        let Some(mut parsed) = DumpLine::parse(line) else {
            bad_lines += 1;
            return Ok(());
        };
        if let Some(name) = parsed.root.take().filter(|_| roots.len() < ROOTS) {
            objects.references += parsed.references.0.len() as u64;
            roots.push(name);
        } else if !objects.add(&mut parsed) && parsed.kind.as_deref() != Some("SHAPE") {
            bad_lines += 1;
        }
        // Asked again each time that twice as much is needed, because the guess can be far off.
        if objects.list.len() as u64 > allowed {
            allowed *= 2;
            ask(allowed, objects.references * 2, objects.has_names)?;
        }
        Ok(())
    })?;
    if objects.list.is_empty() {
        return Err(DumpFileError::NoObject);
    }
    ask(objects.list.len() as u64, objects.references, objects.has_names)?;
    // The first reading gives every object its number, which the references of the second are written as.
    objects.finish();
    let again = objects.again;
    let mut graph = DumpGraph::new(objects, roots).ok_or(DumpFileError::TooMany)?;
    // A second reading takes time; keeping the text of all references in between would take more memory than there is.
    each_line(
        open,
        &mut |line| match DumpLine::parse(line).is_none_or(|parsed| graph.add(parsed)) {
            true => Ok(()),
            false => Err(DumpFileError::Changed),
        },
    )?;
    let names = DumpNames::of(&graph.objects);
    graph.finish();
    Ok(HeapDump { graph, names, bad_lines, is_cut, again })
}

/// What a dump takes of our own memory: its objects and references, and what is found out from them.
fn need(objects: u64, references: u64, names: bool) -> u64 {
    let graph = DumpGraph::bytes(objects, references, names);
    let searches = [
        Ways::bytes(objects, references),
        objects.saturating_mul(4).saturating_add(Dominators::bytes(objects, references)),
        objects.saturating_mul(8 + 4 + 8 + 4 + 8).saturating_add(Retained::bytes_needed(objects)),
    ];
    let most = searches.into_iter().max().unwrap_or(0);
    let tables = DumpObjects::bytes(objects).saturating_add(graph).saturating_add(most);
    tables.saturating_add(OTHER_BYTES)
}

/// Hands every line to `each`. True if the last one has no end, as in a file that was cut.
fn each_line(
    open: &DumpOpener<'_>,
    each: &mut dyn FnMut(&[u8]) -> Result<(), DumpFileError>,
) -> Result<bool, DumpFileError> {
    // From the start each time: a compressed file cannot be wound back.
    let mut file = open()?;
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        line.clear();
        let read = match file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(read) => read,
            // A compressed file that was cut: what came before counts.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && number > 1 => {
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        if read == 0 {
            return Ok(false);
        }
        let has_end = line.last() == Some(&b'\n');
        if !has_end && read as u64 == LONGEST_LINE {
            return Err(DumpFileError::LongLine(number));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            each(text)?;
        }
        if !has_end {
            return Ok(DumpLine::parse(text).is_none());
        }
        // One line of many megabytes must not keep its memory.
        line.shrink_to(1 << 20);
    }
}

/// Whether this is the first line of a heap dump.
pub fn is_dump_line(line: &[u8]) -> bool {
    DumpLine::is_of_dump(line.trim_ascii())
}

impl HeapDump {
    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.graph.objects.list.len() as u64
    }

    /// Bytes of the objects by their own lines.
    pub fn bytes(&self) -> u64 {
        self.graph.objects.list.iter().fold(0, |sum, one| sum.saturating_add(one.bytes))
    }

    /// Number of references between objects.
    pub fn references(&self) -> u64 {
        self.graph.references()
    }

    /// What of the file does not count: sentences without a capital and a full stop.
    pub fn left_out(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_cut {
            reasons.push(
                "the last line is not complete: the dump was cut, and objects are missing".into(),
            );
        }
        // The line that was cut is told already.
        let bad = self.bad_lines.saturating_sub(u64::from(self.is_cut));
        if bad > 0 {
            reasons.push(format!("lines that are not those of an object or a root: {bad}"));
        }
        if self.again > 0 {
            reasons.push(format!(
                "addresses that are there twice, of which the first counts: {}",
                self.again
            ));
        }
        let unknown = self.graph.unknown;
        if unknown > 0 {
            let all = unknown.saturating_add(self.references());
            // What Ruby itself leaves out (objects that were made while it wrote) is far less; a file
            // that ends with a whole line shows in no other way that it was cut.
            let part = match unknown > all / PARTIAL_DUMP {
                true => ": the dump is only a part of the heap, and objects are missing",
                false => "",
            };
            reasons.push(format!(
                "references to objects that are not in the dump: {unknown} of {all}{part}"
            ));
        }
        if self.graph.has_no_roots() {
            reasons.push("it has no roots: what keeps objects is unknown".into());
        }
        reasons
    }

    /// Who keeps what.
    ///
    /// # Errors
    /// If the dump has no such class, or no roots.
    pub fn who(&self, request: &WhoRequest) -> Result<WhoCensus, WhoUnknown> {
        if self.graph.has_no_roots() {
            return Err(WhoUnknown::NoRoots);
        }
        let subject = self.graph.subject(&self.names);
        let reached = self.graph.reached_objects();
        let census = WhoCensus {
            reached_objects: reached,
            unreached_objects: self.objects().saturating_sub(reached),
            garbage_objects: Some(self.objects().saturating_sub(reached)),
            unnamed: self.unnamed(),
            ..WhoCensus::default()
        };
        let draft = draft_of(&subject, self.graph.object_class(), request, census)?;
        // A file does not change, so everything still holds.
        Ok(draft.confirmed(&mut |_| true))
    }

    fn unnamed(&self) -> Vec<String> {
        let mut reasons = self.left_out();
        let reason = "this dump has no names of references: variables and keys have no names; one of `carat heap-dump` has them";
        let without = !self.graph.has_names();
        reasons.extend(without.then(|| reason.to_owned()));
        reasons
    }

    /// Objects by class, the most bytes first: name, objects, bytes, old objects, and objects to which no root leads.
    pub fn classes(&self) -> Vec<DumpedClass> {
        let mut all: Vec<DumpedClass> =
            self.names.list.iter().map(|name| DumpedClass::named(name)).collect();
        for (number, object) in (0..).zip(&self.graph.objects.list) {
            let id = self.names.of_object(object);
            let Some(sum) = all.get_mut(id.index()) else { continue };
            sum.objects += 1;
            sum.bytes = sum.bytes.saturating_add(object.bytes);
            sum.old_objects += u64::from(object.is_old);
            sum.unreached_objects += u64::from(!self.graph.is_reached(number));
        }
        all.retain(|class| class.objects > 0);
        all.sort_by(|one, two| (two.bytes, &one.name).cmp(&(one.bytes, &two.name)));
        all
    }
}

/// The objects of one class of a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct DumpedClass {
    /// The class's name.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Bytes, by the lines of the objects.
    pub bytes: u64,
    /// Those that minor collections do not visit.
    pub old_objects: u64,
    /// Those to which no root leads.
    pub unreached_objects: u64,
}

impl DumpedClass {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}
