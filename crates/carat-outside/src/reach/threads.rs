//! Threads of Ruby: which have ended, and which stacks are those of the others.
//!
//! Ruby frees what it knows of a thread that has ended when it frees the object. Until then words that are no references lead there, as
//! that of the thread that ran last (`struct rb_thread_sched`), and the struct itself leads to the stack that Ruby made for it, where its
//! variables still are, and to what another thread may run on by now (`context_stack`, `nt`, thread_pthread.h).
//!
//! In a forked process those have ended that did not fork. Their list was begun anew (`rb_ractor_living_threads_init`, ractor.c; vm.c),
//! and they still lead to each other.

use super::contexts::Context;
use super::graph::Graph;
use crate::hash::{AddressMap, AddressSet};
use crate::malloc::Chunk;
use crate::memory::{Memory, MemoryRegion, PAGE, PAGE_LENGTH};
use crate::owners::ground::GroundKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of chunks that can be what Ruby knows of a native thread, and of the stack for signals.
const NATIVE_THREAD: Range<u64> = 64..512;
const SIGNAL_STACK: Range<u64> = 2 * PAGE..33 * PAGE;
/// Bytes that Ruby gives a stack for signals at least (`RUBY_SIGALTSTACK_SIZE`, signal.c).
const LEAST_SIGNAL_STACK: u64 = 16 << 10;
/// Bytes of what is known of a native thread from 3.3 on, where in it the addresses of its stack for signals and of its context stand, and
/// bytes of that (`struct rb_native_thread`, thread_pthread.h; `struct coroutine_context`, coroutine/amd64/Context.h).
const NATIVE_BYTES: u64 = 120;
const NATIVE_STACK: u64 = 88;
const NATIVE_CONTEXT: u64 = 96;
const CONTEXT_BYTES: u64 = 16;
/// Nodes of one list at most.
const MOST_NODES: usize = 1 << 20;

impl Graph<'_> {
    /// Finds the threads that have ended. Only its own object leads to the struct of one, unless it has fibers. `threads` and `fibers`
    /// are the addresses of structs.
    pub(super) fn threads(&mut self, threads: &[u64], fibers: &[u64]) {
        let with_fiber = self.threads_of_fibers(fibers);
        let mut lists = Lists::new(self.words.memory);
        let mut stacks = AddressSet::default();
        let before = self.bytes_before_registers();
        for thread in threads {
            let Some((number, chunk)) = self.words.chunk_at(*thread) else { continue };
            let words = self.words.words_of(&chunk);
            if is_listed(&mut lists, &chunk, &words) {
                self.living_thread(words, &mut stacks);
            } else {
                self.finished.insert(number as u64, ());
                self.owned[number] |= !with_fiber.contains(thread);
                if let Some(before) = before {
                    self.registers_of_finished(&words, *thread, before);
                }
            }
        }
        self.stacks_of_others(&stacks);
    }

    /// What a living thread leads to, and what it knows of its native thread: its stacks, to which it adds the mappings.
    fn living_thread(&mut self, mut words: Vec<u64>, stacks: &mut AddressSet) {
        let native = words.iter().filter_map(|word| self.words.chunk_at(*word));
        let native = native.filter(|(_, chunk)| NATIVE_THREAD.contains(&chunk.size));
        let native: Vec<Chunk> = native.map(|(_, chunk)| chunk).collect();
        for chunk in native {
            self.native_thread(&chunk);
            words.extend(self.words.words_of(&chunk));
        }
        for word in words {
            stacks.extend(self.words.memory.region(word).map(|region| region.start));
            if let Some((number, chunk)) = self.words.chunk_at(word) {
                self.signal_stack(number, &chunk);
            } else if let Some(number) = self.words.chunks.find(word)
                && let Some(context) = self.contexts.get(&(number as u64))
                && context.address == word
            {
                let (start, _) = context.vm_stack;
                stacks.extend(self.words.memory.region(start).map(|region| region.start));
                // It need not say where its stack ends.
                self.running.extend(context.machine_mapping.is_none().then_some(start));
            }
        }
    }

    /// A native thread that has a thread of its own never writes its context, which has no objects in any case. From glibc 2.34 on its stack
    /// for signals has four times what the registers of the processor need (`_SC_SIGSTKSZ`), which need not be whole pages.
    fn native_thread(&mut self, native: &Chunk) {
        if !native.fits(NATIVE_BYTES) {
            return;
        }
        let chunk = |at: u64| {
            let word = self.words.memory.word_at(native.user(), at);
            word.and_then(|word| self.words.chunk_at(word))
        };
        let context = chunk(NATIVE_CONTEXT).filter(|(_, chunk)| chunk.fits(CONTEXT_BYTES));
        let stack = chunk(NATIVE_STACK).filter(|(_, chunk)| SIGNAL_STACK.contains(&chunk.size));
        let unused = context.into_iter().chain(stack).map(|(number, _)| (number as u64, 0..0));
        self.used.extend(unused);
    }

    /// The stack on which a thread handles signals holds what was in the memory before: whole pages, or what the registers of the
    /// processor need where that is more (`rb_allocate_sigaltstack`, signal.c). The VM, to which a thread leads too, may have as many bytes.
    fn signal_stack(&mut self, number: usize, chunk: &Chunk) {
        let by_registers =
            self.words.memory.signal_stack().filter(|bytes| *bytes > LEAST_SIGNAL_STACK);
        let by_registers = by_registers.filter(|_| self.vm.is_some_and(|vm| vm != number));
        if SIGNAL_STACK.step_by(PAGE_LENGTH).chain(by_registers).any(|bytes| chunk.fits(bytes)) {
            self.used.insert(number as u64, 0..0);
        }
    }

    /// The collector does not look at the stacks of threads that are none of Ruby's, as those of extensions, or those that wait to become
    /// one again (`register_cached_thread_and_wait`, thread_pthread.c).
    fn stacks_of_others(&mut self, stacks: &AddressSet) {
        if stacks.is_empty() {
            return;
        }
        let memory = self.words.memory;
        self.ground.retain(|pages| {
            let at = pages.ranges.first().map_or(0, |range| range.0);
            let is_of_ruby =
                |region: &MemoryRegion| region.path == "[stack]" || stacks.contains(&region.start);
            !matches!(pages.kind, GroundKind::Thread(_)) || memory.region(at).is_none_or(is_of_ruby)
        });
    }

    /// Words of the structs of fibers: a fiber keeps its thread, also when that has ended (`cont_mark`, cont.c).
    fn threads_of_fibers(&self, fibers: &[u64]) -> AddressSet {
        let chunks = &self.words.chunks;
        let with_context = self.contexts.keys().map(|number| *number as usize);
        let with_object = fibers.iter().filter_map(|fiber| chunks.exact(*fiber));
        let found = with_context.chain(with_object).filter_map(|number| chunks.get(number));
        found.flat_map(|chunk| self.words.words_of(&chunk)).collect()
    }

    /// Bytes between the address of a context and its registers, by what most say: some may only look like one.
    fn bytes_before_registers(&self) -> Option<u64> {
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for bytes in self.contexts.values().filter_map(Context::bytes_before_registers) {
            *votes.entry(bytes).or_default() += 1;
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(bytes, _)| bytes)
    }

    /// The context of a thread that has ended, which says whose it is, has the registers of then, up to the end of its chunk. They begin
    /// where they do in any other context.
    fn registers_of_finished(&mut self, words: &[u64], thread: u64, before: u64) {
        for context in words {
            let Some(number) = self.words.chunks.find(*context) else { continue };
            let Some(chunk) = self.words.chunks.get(number) else { continue };
            let is_context = *context > chunk.user()
                && !self.contexts.contains_key(&(number as u64))
                && (0..before)
                    .step_by(8)
                    .any(|at| self.words.memory.word_at(*context, at) == Some(thread));
            if is_context {
                self.used.insert(number as u64, 0..*context + before - chunk.user());
            }
        }
    }
}

/// Whether a struct is in a list that is not left over. The nodes of a thread that has ended keep what they had, and no other leads
/// back to them.
fn is_listed(lists: &mut Lists<'_>, chunk: &Chunk, words: &[u64]) -> bool {
    let is_elsewhere = |at: &u64| !(chunk.user()..chunk.user_end()).contains(at);
    let nodes = (chunk.user()..).step_by(8).zip(words.windows(2));
    let mut nodes = nodes.filter(|(_, links)| links.iter().all(is_elsewhere));
    nodes.any(|(node, _)| lists.has(node) && !lists.is_left_over(node))
}

/// Rings of nodes {next, before}: each leads to the next, which leads back (`struct ccan_list_node`, ccan/list).
struct Lists<'a> {
    memory: &'a dyn Memory,
    /// Nodes that were met, and whether they are left over from a list that was begun anew.
    left_over: AddressMap<bool>,
}

impl<'a> Lists<'a> {
    fn new(memory: &'a dyn Memory) -> Self {
        Self { memory, left_over: AddressMap::default() }
    }

    /// The next node, if it leads back.
    fn next(&self, node: u64) -> Option<u64> {
        let next = self.memory.word(node)?;
        (self.memory.word_at(next, 8) == Some(node)).then_some(next)
    }

    /// Whether both neighbours lead to a node.
    fn has(&self, node: u64) -> bool {
        let before = self.memory.word_at(node, 8);
        self.next(node).is_some()
            && before.is_some_and(|before| self.memory.word(before) == Some(node))
    }

    /// Whether the list of a node leads into another one that is whole, and so has a new beginning. One that is torn because it changed
    /// while it was read does not.
    fn is_left_over(&mut self, node: u64) -> bool {
        if let Some(known) = self.left_over.get(&node) {
            return *known;
        }
        let (nodes, end) = self.walk(node);
        let is_left_over = end.is_some_and(|end| self.has(end) && self.walk(end).1.is_none());
        self.left_over.extend(nodes.into_iter().map(|node| (node, is_left_over)));
        is_left_over
    }

    /// The nodes from one on. Where they do not lead back to it, also the first that does not lead back to the node before. A longer list
    /// than there can be counts as whole.
    fn walk(&self, first: u64) -> (Vec<u64>, Option<u64>) {
        let (mut nodes, mut last) = (vec![first], first);
        while nodes.len() < MOST_NODES {
            match self.next(last) {
                Some(next) if next == first => break,
                Some(next) => {
                    nodes.push(next);
                    last = next;
                }
                None => return (nodes, self.memory.word(last)),
            }
        }
        (nodes, None)
    }
}
