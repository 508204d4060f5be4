//! The dump of one process as a whole.

use super::edges::Edges;
use super::line::ObjectLines;
use super::roots::write_roots;
use crate::census::{LookOptions, open, table_of_chunks, unless_ended};
use crate::copy::CopiedMemory;
use crate::heap::Heap;
use crate::mapped_file::{FileAccess, open_mapped};
use crate::memory::{Memory, MemoryRegion};
use crate::need::MemoryNeed;
use crate::owners::read_threads;
use crate::reach::Recorded;
use crate::refusal::Refused;
use crate::swapped::in_swap;
use crate::who::nodes::Nodes;
use crate::who::search::{WhoRequest, WhoSources, WhoUnknown, unnamed, who_need, with_names};
use std::io::{self, Write};

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The process is not read.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something of the process is not known, or there is no room for it.
    #[error("{0}")]
    Unknown(String),
    /// The dump could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DumpSums {
    /// Objects, each a line.
    pub objects: u64,
    /// References of objects.
    pub references: u64,
    /// Objects of which not all references were followed.
    pub cut: u64,
    /// What has no names, and why.
    pub unnamed: Vec<String>,
    /// Time for which the process was read, in seconds.
    pub read_seconds: f64,
}

/// Writes the heap of a process. `strings`: with the contents of strings and symbols.
///
/// The process is copied first, so that the dump is of one moment as far as the copy is; it runs meanwhile.
///
/// # Errors
/// If the process is not read, or not known well enough, or `out` fails. Something may have been written then.
pub fn dump_heap(
    process: u32,
    options: &LookOptions,
    strings: bool,
    out: &mut dyn Write,
) -> Result<DumpSums, DumpError> {
    let (mut live, anchors) = open(process, options)?;
    // A line would be missing for each of its objects.
    if let Some(reason) = in_swap(&live) {
        return Err(unknown(reason));
    }
    let room = |need| options.memory.ask(need).map_err(DumpError::Unknown);
    // Asked for step by step: the sizes of the later tables are only known from the copy.
    room(CopiedMemory::need(process, &live))?;
    let started = std::time::Instant::now();
    let mut copy = CopiedMemory::of(&mut live);
    let read_seconds = started.elapsed().as_secs_f64();
    let heap = Heap::find(&copy, anchors.version).map_err(unknown)?;
    let chunks = table_of_chunks(&mut copy, &heap, (options, process)).map_err(unknown)?;
    let slots: u64 = heap.pages().iter().map(|page| page.slots).sum();
    room(dump_need(process, slots, chunks.len() as u64))?;
    if let Some(stopped) = copy.stopped() {
        return Err(unknown(stopped));
    }
    let threads = read_threads(&options.proc, process);
    let open =
        |region: &MemoryRegion| open_mapped(&options.proc, process, region, FileAccess::Read);
    let sources = WhoSources {
        heap: &heap,
        chunks: &chunks,
        anchors: &anchors,
        threads: &threads,
        open: &open,
    };
    let written = write_heap(&copy, &sources, strings, out);
    let mut sums = written.map_err(unknown)??;
    // After the last line: what could not be read would be missing without a sign.
    unless_ended(&live, &anchors)?;
    sums.read_seconds = read_seconds;
    Ok(sums)
}

fn unknown(reason: impl ToString) -> DumpError {
    DumpError::Unknown(reason.to_string())
}

/// What a dump takes of our own memory beside the copy and the tables of slots and chunks.
fn dump_need(process: u32, slots: u64, chunks: u64) -> MemoryNeed {
    let nodes = slots.saturating_add(chunks);
    let searched = Edges::bytes(nodes).saturating_add(ChunkOwners::bytes(chunks));
    // The references of garbage are recorded too; dominators and ways are not searched.
    let all = who_need(process, (slots, chunks), &WhoRequest::default());
    MemoryNeed { bytes: all.bytes.max(searched), ..all }
}

/// Writes the heap of a process that is known.
pub(super) fn write_heap(
    memory: &dyn Memory,
    sources: &WhoSources<'_>,
    strings: bool,
    out: &mut dyn Write,
) -> Result<io::Result<DumpSums>, WhoUnknown> {
    with_names(memory, sources, Recorded::All, &mut |names, _| {
        let nodes = &names.nodes;
        let mut edges = Edges::new(nodes);
        let owners = ChunkOwners::find(nodes, &mut edges);
        let mut lines = ObjectLines::new(names, sources.anchors, strings);
        let mut sums = DumpSums { unnamed: unnamed(names), ..DumpSums::default() };
        Ok(write_roots(names, &mut edges, out)
            .and_then(|()| {
                for node in 0..nodes.graph.slots() {
                    let Some(view) = nodes.view(node) else { continue };
                    let is_whole = edges.follow(node);
                    let memsize = owners.bytes_of(nodes, &edges, node);
                    sums.objects += 1;
                    sums.cut += u64::from(!is_whole);
                    sums.references += lines.write(out, &view, (node, &edges), memsize)?;
                }
                out.flush()
            })
            .map(|()| sums.clone()))
    })
}

/// Which slot alone leads to each chunk.
struct ChunkOwners {
    of: Vec<u32>,
}

/// Nobody leads to a chunk, or more than one do.
const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

impl ChunkOwners {
    const fn bytes(chunks: u64) -> u64 {
        chunks * 4
    }

    fn find(nodes: &Nodes<'_>, edges: &mut Edges<'_, '_>) -> Self {
        let first = nodes.graph.first_chunk();
        let mut of = vec![NOBODY; (nodes.graph.first_root() - first) as usize];
        let roots = nodes.graph.first_root()..nodes.graph.nodes();
        // Roots too: a chunk that a library keeps belongs to no object alone.
        for node in (0..nodes.graph.slots()).chain(roots) {
            edges.follow(node);
            let owner = if nodes.is_slot(node) { node } else { SEVERAL };
            for chunk in edges.chunks() {
                let known = &mut of[(chunk - first) as usize];
                *known = if *known == NOBODY { owner } else { SEVERAL };
            }
        }
        Self { of }
    }

    /// Bytes of a slot and of the chunks to which it alone leads.
    fn bytes_of(&self, nodes: &Nodes<'_>, edges: &Edges<'_, '_>, node: u32) -> u64 {
        let slot = nodes.reach.slot(node).map_or(0, |slot| slot.1);
        let own = edges
            .chunks()
            .filter(|chunk| self.of[(*chunk - nodes.graph.first_chunk()) as usize] == node);
        let chunks = own.filter_map(|chunk| nodes.chunk(chunk));
        chunks.fold(slot, |sum, (_, chunk)| sum + chunk.user_bytes())
    }
}
