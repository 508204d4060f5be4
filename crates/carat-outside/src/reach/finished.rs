//! Threads of Ruby that have ended. Ruby frees what it knows of one when it frees the object. Until then words that are no references
//! lead there, as that of the thread that ran last (`struct rb_thread_sched`), and the struct itself leads to the stack that Ruby made
//! for it, where its variables still are, and to what another thread may run on by now (`context_stack`, `nt`, thread_pthread.h).

use super::graph::Graph;
use crate::hash::AddressSet;
use crate::malloc::Chunk;
use crate::memory::for_each_word;

impl Graph<'_> {
    /// Finds the threads that have ended. Only its own object leads to the struct of one, unless it has fibers. `threads` and `fibers`
    /// are the addresses of structs.
    pub(super) fn finished_threads(&mut self, threads: &[u64], fibers: &[u64]) {
        let with_fiber = self.threads_of_fibers(fibers);
        for thread in threads {
            let Some((number, chunk)) = self.words.chunk_at(*thread) else { continue };
            let words = self.words_of(&chunk);
            if self.is_listed(&chunk, &words) {
                continue;
            }
            self.finished.insert(number as u64, ());
            self.owned[number] |= !with_fiber.contains(thread);
        }
    }

    /// Words of the structs of fibers: a fiber keeps its thread, also when that has ended (`cont_mark`, cont.c).
    fn threads_of_fibers(&self, fibers: &[u64]) -> AddressSet {
        let chunks = &self.words.chunks;
        let with_context = self.contexts.keys().map(|number| *number as usize);
        let with_object = fibers.iter().filter_map(|fiber| chunks.exact(*fiber));
        let found = with_context.chain(with_object).filter_map(|number| chunks.get(number));
        found.flat_map(|chunk| self.words_of(&chunk)).collect()
    }

    fn words_of(&self, chunk: &Chunk) -> Vec<u64> {
        let mut words = Vec::new();
        for_each_word(self.words.memory, chunk.user(), chunk.user_end(), |word| words.push(word));
        words
    }

    /// Whether a struct is in a list: {next, before}, and both lead back (`struct ccan_list_node`, ccan/list). Those of a thread that has
    /// ended keep what they had, and no other leads back to them.
    fn is_listed(&self, chunk: &Chunk, words: &[u64]) -> bool {
        let memory = self.words.memory;
        let is_elsewhere = |at: u64| !(chunk.user()..chunk.user_end()).contains(&at);
        let nodes = (chunk.user()..).step_by(8).zip(words.windows(2));
        nodes.filter(|(_, links)| links.iter().all(|at| is_elsewhere(*at))).any(|(node, links)| {
            memory.word_at(links[0], 8) == Some(node) && memory.word(links[1]) == Some(node)
        })
    }
}
