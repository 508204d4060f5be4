//! What an object is, for a reader: its class, its length, the place of its code.

use super::data::{CodePlace, Holder, KeeperKind};
use super::links::{Names, contents};
use super::ways::NodeKinds;
use crate::heap::{SlotType, imemo_kind};
use crate::reach::fields::SlotView;

/// Words of a C struct that are searched.
const WORDS: u64 = 1024;
/// Offset of a thread's number behind the start of its block, by processor (`struct pthread`, nptl/descr.h).
const THREAD_NUMBER: u64 = 720;

/// The name of an object that Ruby hides by giving it no class.
fn hidden_name(view: &SlotView<'_>) -> Option<&'static str> {
    let class = view.memory.word_at(view.address, 8)?;
    match view.kind() {
        _ if class != 0 => None,
        SlotType::ARRAY => Some("Array"),
        SlotType::HASH => Some("Hash"),
        SlotType::STRING => Some("String"),
        _ => None,
    }
}

impl Names<'_> {
    /// What the object of a slot is. `in_full`: with what differs from one object to the next.
    pub(super) fn holder(&self, node: u32, in_full: bool) -> Holder {
        let Some(view) = self.nodes.view(node) else { return Holder::default() };
        let mut name = self.class_of(node).unwrap_or_default();
        if let Some(hidden) = hidden_name(&view) {
            name = hidden.to_owned();
        }
        // The main object is a plain `Object`; only that it is this one says anything.
        let kind = if self.main == Some(node) { KeeperKind::Main } else { KeeperKind::Object };
        let holder = Holder { kind, name, ..Holder::default() };
        match view.kind() {
            SlotType::CLASS | SlotType::MODULE => self.class(&view),
            SlotType::ICLASS => {
                let module = self.memory().word_at(view.address, 8).unwrap_or(0);
                Holder { kind: KeeperKind::Included, name: self.name_of_class(module), ..holder }
            }
            SlotType::ARRAY | SlotType::HASH if !in_full => holder,
            SlotType::ARRAY => Holder {
                length: contents(&view)
                    .map(|(_, count)| count)
                    .or_else(|| self.shared_length(&view)),
                ..holder
            },
            SlotType::HASH => Holder { length: Some(self.entries(&view)), ..holder },
            SlotType::IMEMO => self.internal(&view),
            SlotType::DATA => Holder { code: self.code_of_data(&view, &holder.name), ..holder },
            _ => holder,
        }
    }

    /// The length of an array that shares its elements.
    fn shared_length(&self, view: &SlotView<'_>) -> Option<u64> {
        self.memory().word_at(view.address, 16)
    }

    fn class(&self, view: &SlotView<'_>) -> Holder {
        let singleton =
            view.kind() == SlotType::CLASS && self.classes.borrow().is_singleton(view.flags);
        let kind = if singleton { KeeperKind::Singleton } else { KeeperKind::Class };
        Holder { kind, name: self.name_of_class(view.address), ..Holder::default() }
    }

    fn internal(&self, view: &SlotView<'_>) -> Holder {
        let kind = imemo_kind(view.flags, self.nodes.words().heap.version()).unwrap_or("object");
        let (holder, code) = match kind {
            "env" => (KeeperKind::Variables, self.memory().word_at(view.address, 8)),
            "iseq" => (KeeperKind::Code, Some(view.address)),
            _ => (KeeperKind::Internal, None),
        };
        let code = code.and_then(|code| self.code.place(code));
        Holder { kind: holder, name: kind.to_owned(), code, ..Holder::default() }
    }

    /// The place of a block, or of the block that a thread runs.
    fn code_of_data(&self, view: &SlotView<'_>, class: &str) -> Option<CodePlace> {
        let data = self.memory().word_at(view.address, 32)?;
        match class {
            // What a block captures, `ep`, and its code (`struct rb_captured_block`, vm_core.h).
            "Proc" => self.code.place(self.memory().word_at(data, 16)?),
            "Thread" => {
                let (_, chunk) = self.nodes.words().chunk_at(data)?;
                let words = (0..chunk.size / 8).take(WORDS as usize);
                let words = words.filter_map(|number| self.memory().word_at(data, number * 8));
                let mut blocks = words.filter_map(|word| {
                    let node = self.nodes.reach.slot_number(word)?;
                    let block =
                        self.nodes.view(node).filter(|view| view.kind() == SlotType::DATA)?;
                    (self.class_of(node).as_deref() == Some("Proc")).then_some(block)
                });
                self.code_of_data(&blocks.next()?, "Proc")
            }
            _ => None,
        }
    }

    /// Number and name of the thread that an object is, or to which it belongs as a fiber; `None` for other objects, and for a
    /// thread that has ended.
    pub(super) fn running_thread(&self, node: u32) -> Option<(u32, String)> {
        // Asked for every object, and few can be one.
        if self.nodes.slot_type(node) != Some(SlotType::DATA) {
            return None;
        }
        // A thread that has ended does not start again while a copy is searched.
        if self.running.borrow().get(&node) == Some(&false) {
            return None;
        }
        let found = match self.class_of(node).as_deref() {
            Some("Thread") => self.thread_of(node),
            Some("Fiber") => self.thread_of_fiber(node),
            _ => return None,
        };
        self.running.borrow_mut().insert(node, found.is_some());
        found
    }

    /// Whether a reader knows what an object is without knowing what keeps it: the main object, a thread that runs, Ruby's own table
    /// of symbols.
    pub(super) fn is_known_object(&self, node: u32) -> bool {
        self.main == Some(node) || self.is_symbol_table(node) || self.running_thread(node).is_some()
    }

    /// Whether an object is Ruby's table of symbols.
    pub(super) fn is_symbol_table(&self, node: u32) -> bool {
        let table = self.nodes.words().symbols;
        table.is_some_and(|table| self.nodes.address(node) == Some(table.object))
    }

    /// The thread to which a fiber belongs: its context has the address of the thread's structure (`thread_ptr`).
    pub(super) fn thread_of_fiber(&self, node: u32) -> Option<(u32, String)> {
        let words = self.nodes.words();
        let data = words.memory.word_at(self.nodes.address(node)?, 32)?;
        let (_, chunk) = words.chunk_at(data)?;
        let all = (0..chunk.size / 8).take(WORDS as usize);
        let all = all.filter_map(|number| words.memory.word_at(data, number * 8));
        let mut found = all.filter_map(|word| {
            let object = self.nodes.reach.object_of_struct(words.chunk_at(word)?.0)?;
            let thread = self.nodes.reach.slot_number(object)?;
            (self.class_of(thread).as_deref() == Some("Thread")).then_some(thread)
        });
        self.thread_of(found.next()?)
    }

    /// Number and name of the thread that a `Thread` is, unless it has ended: its structure, or one that this leads to, has the address of the block of
    /// a thread, which begins with its own address twice (`tcbhead_t`, x86-64).
    pub(super) fn thread_of(&self, node: u32) -> Option<(u32, String)> {
        let words = self.nodes.words();
        let data = words.memory.word_at(self.nodes.address(node)?, 32)?;
        // Another thread may run on what it ran on.
        if words.chunk_at(data).is_some_and(|(chunk, _)| self.nodes.reach.is_finished_thread(chunk))
        {
            return None;
        }
        let in_chunk = |at: u64| -> Vec<u64> {
            let size = words.chunk_at(at).map_or(0, |(_, chunk)| chunk.size);
            let words_in = (0..size / 8).take(WORDS as usize);
            words_in.filter_map(|number| words.memory.word_at(at, number * 8)).collect()
        };
        let block = |word: u64| {
            // Two words that point at themselves are rare enough in other memory.
            let is_block = word.is_multiple_of(16)
                && words.memory.word(word) == Some(word)
                && words.memory.word_at(word, 16) == Some(word);
            let number =
                words.memory.half(word.checked_add(THREAD_NUMBER)?).filter(|_| is_block)?;
            let thread = self.threads.iter().find(|thread| thread.inner_id == number)?;
            Some((thread.id, thread.name.clone()))
        };
        let own = in_chunk(data);
        // From 3.3 on a structure of its own stands for the operating system's thread.
        own.iter().find_map(|word| block(*word)).or_else(|| {
            let small = |at: &&u64| words.chunk_at(**at).is_some_and(|(_, chunk)| chunk.size < 512);
            own.iter().filter(small).flat_map(|at| in_chunk(*at)).find_map(block)
        })
    }
}
