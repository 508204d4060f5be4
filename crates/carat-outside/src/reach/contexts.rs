//! Execution contexts (`rb_execution_context_t`, vm_core.h): what a thread or a fiber of Ruby has on its stacks.
//!
//! A context is found by its first three words: the address of the VM stack, its size in words, and the address of the
//! newest control frame, which lies on that stack. Values are in use from the start of the stack up to where this frame says, and
//! frames from the newest to the end; what lies between is old.

use super::words::Words;
use crate::hash::AddressSet;
use crate::heap::{SlotHead, SlotType};
use crate::malloc::Chunk;
use crate::memory::{MemoryRegion, PAGE};
use carat_ruby::RubyVersion;
use carat_ruby::version::{V2_7, V3_1, V3_3, V3_4};
use std::ops::Range;

/// Bytes of chunks that can hold a context: those of a fiber or a thread.
const CHUNKS: Range<u64> = 300..6000;
/// Bytes of a fiber, which has its context in it (`rb_fiber_t`, cont.c): malloc can give more. Other versions were not measured.
const FIBER: [(RubyVersion, u64); 4] = [(V2_7, 592), (V3_1, 592), (V3_3, 768), (V3_4, 752)];
/// Words of a VM stack, of which Ruby makes whole pages (`RUBY_VM_SIZE_ALIGN`, vm_core.h).
const STACK_WORDS: Range<u64> = 1024..1 << 22;
/// Bytes of a machine stack at most.
const MACHINE_STACK: u64 = 16 << 20;
/// Addresses below are no stack.
const LOWEST_STACK: u64 = 1 << 32;
/// Bytes of the structure by which the compiler knows a context: {context, next newer one, next older one} (`struct rb_jit_cont`,
/// cont.c), and of a context in which its fiber's address stands.
const LISTED: u64 = 24;
const FIBER_WITHIN: u64 = 96;
/// Bytes of the registers that a context saves behind the bounds of its machine stack (`jmp_buf`), with what precedes them.
const REGISTERS: u64 = 224;

/// Bytes of what Ruby knows of stacks that it made at once, and stacks of them at most (`struct fiber_pool_allocation`, cont.c).
const STACKS: [u64; 2] = [48, 64];
const MOST_STACKS: u64 = 1 << 20;

/// Stacks for fibers that Ruby made at once, from the first address on, each with a guard page below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FiberStacks {
    start: u64,
    stride: u64,
    count: u64,
}

impl FiberStacks {
    /// The stacks on which nobody runs, of those who run with a stack of Ruby at these addresses.
    pub(super) fn without(&self, running: &AddressSet) -> impl Iterator<Item = (u64, u64)> {
        let of = |at: u64| at.checked_sub(self.start).map(|bytes| bytes / self.stride);
        let taken: AddressSet = running.iter().filter_map(|at| of(*at)).collect();
        let free = (0..self.count).filter(move |number| !taken.contains(number));
        free.map(|number| self.start + number * self.stride)
            .map(|start| (start, start + self.stride))
    }
}

/// A context in a chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Its address.
    pub(crate) address: u64,
    /// The end of the structure in which it is. What lies behind is old.
    pub(super) end: u64,
    /// The VM stack as a whole.
    pub(crate) vm_stack: (u64, u64),
    /// Parts of stacks that are in use.
    pub(crate) live: Vec<(u64, u64)>,
    /// The mapping of the machine stack of a fiber that waits.
    pub(crate) machine_mapping: Option<(u64, u64)>,
    /// Saved registers: only objects count, because other words are old.
    pub(crate) registers: Option<(u64, u64)>,
}

impl Context {
    /// Bytes between its address and that of the registers it saves.
    pub(super) fn bytes_before_registers(&self) -> Option<u64> {
        Some(self.registers?.0 - self.address)
    }
}

impl Words<'_> {
    /// The context in a chunk.
    pub(crate) fn context_in(&self, chunk: &Chunk) -> Option<Context> {
        if !CHUNKS.contains(&chunk.size) {
            return None;
        }
        let bytes = self.memory.copy(chunk.user(), chunk.user_bytes())?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let at = words.windows(3).position(|words| self.is_context(words))?;
        let (stack, end, frame) = (words[at], words[at] + words[at + 1] * 8, words[at + 2]);
        // A control frame is {pc, sp, iseq, self, ep, …}.
        let top = self.memory.word_at(frame, 8)?;
        let code = self.memory.word_at(frame, 16)?;
        let is_code = code == 0 || self.object(code).is_some_and(is_internal);
        if !is_code || top < stack || top > frame {
            return None;
        }
        let mut context = Context {
            address: chunk.user() + at as u64 * 8,
            end: self.end_of_fiber(chunk),
            vm_stack: (stack, end),
            live: vec![(stack, top + 8), (frame, end)],
            ..Context::default()
        };
        self.machine_stack(chunk, &words, at + 3, &mut context);
        Some(context)
    }

    /// What is in use of a chunk by which the compiler knows a context: its neighbours in the list of all, of which there must be one. It
    /// keeps nothing: the list has the contexts of threads that have ended, too.
    pub(crate) fn listed_context(&self, chunk: &Chunk) -> Option<Range<u64>> {
        let word = |at: u64| self.memory.word_at(chunk.user(), at).filter(|_| chunk.fits(LISTED));
        let (context, newer, older) = (word(0)?, word(8)?, word(16)?);
        let leads_back =
            |at: u64, offset| at == 0 || self.memory.word_at(at, offset) == Some(chunk.user());
        if newer == older || !leads_back(newer, 16) || !leads_back(older, 8) {
            return None;
        }
        let fiber = self.chunks.get(self.chunks.find(context)?)?.user();
        let mut within = (0..FIBER_WITHIN).step_by(8);
        within.any(|at| self.memory.word_at(context, at) == Some(fiber)).then_some(8..LISTED)
    }

    /// The stacks for fibers, if a chunk is what Ruby knows of them: {start, bytes of one, with its guard page, number}, and its bytes. It
    /// reuses a stack without clearing it.
    pub(super) fn stacks_of_fibers(&self, chunk: &Chunk) -> Option<(FiberStacks, u64)> {
        let used = STACKS.into_iter().find(|bytes| chunk.fits(*bytes))?;
        let word = |at: u64| self.memory.word_at(chunk.user(), at);
        let (start, bytes, stride, count) = (word(0)?, word(8)?, word(16)?, word(24)?);
        let sound = bytes > 0
            && bytes.checked_add(PAGE) == Some(stride)
            && [start, bytes].into_iter().all(|one| one.is_multiple_of(PAGE))
            && (1..MOST_STACKS).contains(&count);
        let end = stride.checked_mul(count).and_then(|all| start.checked_add(all));
        let last = end.filter(|_| sound)?.checked_sub(PAGE)?;
        let is_stack = |at: u64| {
            self.memory.region(at).is_some_and(|region| region.writable && is_fiber_stack(region))
                && self.chunks.find(at).is_none()
                && self.heap.page_at(at).is_none()
        };
        let stacks = FiberStacks { start, stride, count };
        (is_stack(start + PAGE) && is_stack(last)).then_some((stacks, used))
    }

    /// Where the fiber in a chunk ends, without its last word: that is room, as a fiber has a multiple of 16 bytes, or what is known of its
    /// stack (`fiber_pool_allocation`, cont.c), and no object.
    fn end_of_fiber(&self, chunk: &Chunk) -> u64 {
        let known = self.heap.version().among(&FIBER).filter(|bytes| chunk.fits(*bytes));
        let end = known.map_or(chunk.user_end(), |bytes| chunk.user() + bytes);
        end.min(chunk.user_end().saturating_sub(8))
    }

    fn is_context(&self, words: &[u64]) -> bool {
        let [stack, size, frame] = *words else { return false };
        STACK_WORDS.contains(&size)
            && (size * 8).is_multiple_of(PAGE)
            && stack.is_multiple_of(8)
            && stack > LOWEST_STACK
            && stack.checked_add(size * 8).is_some_and(|end| frame > stack && frame <= end)
            && self.memory.word(frame & !7).is_some()
    }

    /// The bounds of the machine stack: two words, the higher address first, in one mapping.
    fn machine_stack(&self, chunk: &Chunk, words: &[u64], from: usize, context: &mut Context) {
        let bounds = (from..words.len().saturating_sub(1)).find_map(|at| {
            let (start, end) = (words[at], words[at + 1]);
            let sound = start > end && start - end < MACHINE_STACK && end > LOWEST_STACK;
            let region = sound.then(|| self.memory.region(start - 8)).flatten()?;
            // Without a list of all chunks the size that follows tells stacks from addresses of two structs.
            let size = words.get(at + 2).copied().unwrap_or(0);
            let has_size = (start - end..LOWEST_STACK).contains(&size);
            let is_known = !self.chunks.is_told() || has_size;
            let is_stack = end >= region.start && self.chunks.find(end).is_none() && is_known;
            is_stack.then_some((at, start, end, region))
        });
        let Some((at, start, end, region)) = bounds else { return };
        let registers = chunk.user() + (at as u64 + 3) * 8;
        context.registers = Some((registers, (registers + REGISTERS).min(context.end)));
        // The mapping of a thread's own stack is searched from its stack pointer on.
        if is_fiber_stack(region) && end.is_multiple_of(8) {
            context.live.push((end, start));
            context.machine_mapping = Some((region.start, region.end));
        }
    }
}

fn is_fiber_stack(region: &MemoryRegion) -> bool {
    region.path.is_empty() || region.path.starts_with("[anon")
}

fn is_internal(flags: u64) -> bool {
    SlotHead { flags, class: 0 }.slot_type() == SlotType::IMEMO
}
