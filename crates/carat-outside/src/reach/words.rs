//! What a word of the process can be: an object, a chunk, captured variables.

use super::fields::SlotView;
use super::shapes::ShapeTable;
use crate::bytes::word_in;
use crate::elf::RubyAnchors;
use crate::heap::{Heap, SlotHead, SlotType, imemo_kind};
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, MemoryRegion, words_between};

/// Contents of young objects outside of chunks, in the transient heap of Ruby 2.7 to 3.2, have at most so many words.
pub(crate) const TRANSIENT_WORDS: u64 = 1 << 12;

/// The kernel maps nothing below for programs (`vm.mmap_min_addr`).
pub(crate) const LOWEST_ADDRESS: u64 = 1 << 16;

/// Smaller numbers than this are seldom the lower half of an address, and often a number of 32 bits.
const SMALL_NUMBER: u64 = 1 << 12;

/// The memory of the process with its heap and its chunks.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) heap: &'a Heap,
    pub(crate) chunks: &'a ChunkTable,
    /// Where the names of symbols are.
    pub(crate) symbols: Option<SymbolTable>,
    /// Where shapes are.
    pub(crate) shapes: Option<ShapeTable>,
}

/// Where the names of symbols are (symbols.rs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymbolTable {
    /// The outer array.
    pub(crate) object: u64,
    /// Address of its first element.
    pub(super) start: u64,
    /// Number of inner arrays.
    pub(super) count: u64,
}

impl<'a> Words<'a> {
    /// Without any table of names.
    pub(super) const fn new(
        memory: &'a dyn Memory,
        heap: &'a Heap,
        chunks: &'a ChunkTable,
    ) -> Self {
        Self { memory, heap, chunks, symbols: None, shapes: None }
    }

    /// The slot at an address, if it holds an object.
    pub(crate) fn view(&self, address: u64, bytes: u64) -> Option<SlotView<'a>> {
        let contents = self.memory.piece(address, bytes);
        let flags = contents.and_then(|bytes| word_in(bytes, 0));
        let flags = flags.or_else(|| self.memory.word(address))?;
        let (memory, heap, shapes) = (self.memory, self.heap, self.shapes);
        let view = SlotView { memory, heap, shapes, address, bytes, contents, flags };
        (view.kind() != SlotType::NONE).then_some(view)
    }

    /// The chunk of the VM, by number. Up to 3.2 Ruby's library exports where it is.
    pub(super) fn vm(&self, anchors: &RubyAnchors) -> Option<usize> {
        self.chunks.find(anchors.value(self.memory, "ruby_current_vm_ptr")?)
    }

    /// The flags of the object that a word is.
    pub(crate) fn object(&self, word: u64) -> Option<u64> {
        self.heap.slot_of(word)?;
        self.memory.word(word).filter(|flags| flags & 31 != 0)
    }

    /// The kind of the internal object that a word is.
    pub(crate) fn internal_kind(&self, word: u64) -> Option<&'static str> {
        let flags = self.object(word)?;
        let is_internal = SlotHead { flags, class: 0 }.slot_type() == SlotType::IMEMO;
        imemo_kind(flags, self.heap.version()).filter(|_| is_internal)
    }

    /// The chunk into whose middle a word points. Nobody clears what stands beside a number of 32 bits: with half of an old address it
    /// looks like a place behind the border of four GiB, which may be in a chunk.
    pub(super) fn chunk_around(&self, word: u64) -> Option<usize> {
        let is_number = word & u64::from(u32::MAX) < SMALL_NUMBER;
        (!is_number && word.is_multiple_of(8)).then(|| self.chunks.find(word))?
    }

    /// The chunk in use for which malloc returned exactly this address, with its number.
    pub(crate) fn chunk_at(&self, address: u64) -> Option<(usize, Chunk)> {
        let number = self.chunks.exact(address)?;
        self.chunks.get(number).filter(Chunk::held).map(|chunk| (number, chunk))
    }

    /// The words of a chunk.
    pub(super) fn words_of(&self, chunk: &Chunk) -> Vec<u64> {
        words_between(self.memory, chunk.user(), chunk.user_end())
    }

    /// The number of the chunk in use at an address, if it has room for so many bytes and for few more.
    pub(super) fn buffer(&self, address: u64, bytes: u64) -> Option<usize> {
        let (number, chunk) = self.chunk_at(address).filter(|_| bytes > 0)?;
        chunk.may_hold(bytes).then_some(number)
    }

    /// Captured local variables: their object, if a word is the address of such variables (`ep`), whose next word is
    /// the object, which points back.
    pub(crate) fn environment(&self, word: u64) -> Option<u64> {
        let variables = word & !3;
        if !(LOWEST_ADDRESS..1 << 47).contains(&variables) || !variables.is_multiple_of(8) {
            return None;
        }
        let object = self.memory.word_at(variables, 8)?;
        let flags = self.object(object)?;
        let is_environment =
            SlotHead { flags, class: 0 }.slot_type() == SlotType::IMEMO && flags >> 12 & 15 == 0;
        (is_environment && self.memory.word_at(object, 16) == Some(variables)).then_some(object)
    }

    /// Whether an address lies in what a file or the program was loaded to.
    pub(crate) fn is_static(&self, address: u64) -> bool {
        self.memory.region(address).is_some_and(|region| region.inode != 0)
    }

    /// Whether an address lies in the code of a file.
    pub(super) fn is_code(&self, address: u64) -> bool {
        self.memory.region(address).is_some_and(MemoryRegion::is_code_of_file)
    }
}
