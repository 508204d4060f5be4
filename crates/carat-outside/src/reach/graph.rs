//! What is known of a process before its objects are marked: which chunks belong to whom, and which words are no references.

use super::compiled::{Compiled, find_compiled, lists_of_rust};
use super::contexts::{Context, FiberStacks};
use super::fields::{Reference, SlotView};
use super::forms::{GLOBAL_ENTRY, GLOBAL_VARIABLE, MARK_STACK, NAMES, StTable, TableKind};
use super::named::{ruby_data, with_tables};
use super::shapes::is_too_complex;
use super::struct_kinds::{StructKind, StructKinds, words_of_struct};
use super::words::Words;
use crate::elf::{RubyAnchors, libraries_without_ruby};
use crate::hash::{AddressMap, AddressSet};
use crate::heap::{Heap, SlotType};
use crate::jit::Jit;
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, for_each_word, joined, words_between};
use crate::number_set::NumberSet;
use crate::owners::ground::{GroundKind, GroundPages, find_ground};
use crate::owners::threads::ThreadPlace;
use carat_ruby::RubyVersion;
use carat_ruby::version::{
    COMPILED_IN_BLOCKS, FILES_WITHOUT_SELF, FILES_WITHOUT_TIMEOUT, OBJECT_FIELDS_OUTSIDE_BY_FLAG,
    SHAPES, SHORT_GLOBAL_VARIABLES, TRANSIENT_HEAP, VARIABLE_ENTRIES,
};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// Bytes of chunks that may be the VM, or what the collector knows of the heap: some 1 to 7 kB (`rb_vm_t`, `rb_objspace_t`).
const LARGE: RangeInclusive<u64> = 512..=32_768;

/// Bytes of what a class of 3.1 knows of an instance variable: a number, a serial number and a class.
const VARIABLE_ENTRY: u64 = 24;

/// Bytes of what traces allocations.
const TRACER: u64 = 48;

/// Bytes of what is known of a file, with all that later versions added.
const FILE: u64 = 208;

/// The same of one version: what `ObjectSpace.memsize_of` says of a file that was not read from, without its slot.
pub(super) fn file_bytes(version: RubyVersion) -> u64 {
    let added = [FILES_WITHOUT_TIMEOUT, FILES_WITHOUT_SELF];
    FILE - 8 * added.into_iter().filter(|without| without.contains(version)).count() as u64
}

/// Bytes of the name of an environment variable, with what ends it, that are looked at.
const LONGEST_NAME: u64 = 64;

/// The process as its objects are marked.
pub(super) struct Graph<'a> {
    pub(super) words: Words<'a>,
    /// The chunk of the VM, by number, where its address is exported.
    pub(super) vm: Option<usize>,
    /// Slots with an object, by number, as they were met first.
    objects: NumberSet,
    /// Chunks that belong to one object or table, by number: pointers from elsewhere do not count.
    pub(super) owned: Vec<bool>,
    /// The object whose C struct a chunk is, by the chunk's number; 0 for a struct of several.
    structs: AddressMap<u64>,
    /// Tables of Ruby itself that are special, by the number of their header's chunk.
    pub(super) tables: AddressMap<(StTable, TableKind)>,
    /// The bytes of chunks with old words that may refer to something, by number.
    pub(super) used: AddressMap<Range<u64>>,
    /// The chunks of inline caches, by number.
    pub(super) inline_caches: AddressMap<()>,
    /// The structs of threads that have ended, by the number of their chunk.
    pub(super) finished: AddressMap<()>,
    /// Structs that keep objects to which so many bytes of them lead, and no more, by the number of their chunk.
    pub(super) shallow: AddressMap<u64>,
    /// Chunks of Ruby's own sets, which keep nothing alive.
    weak_sets: AddressMap<()>,
    /// The chunk of what the collector knows of the heap (`rb_objspace_t`, gc.c), by number.
    object_space: Option<usize>,
    /// Records with the instance variables of objects that have no room for any.
    generic_fields: AddressMap<u64>,
    /// What the collector marks for the compiler, by the number of the chunk that stands for it.
    pub(super) compiled: AddressMap<Compiled>,
    /// Execution contexts by the number of their chunk.
    pub(super) contexts: AddressMap<Context>,
    /// Data of libraries, stacks, and other memory that is searched for pointers.
    pub(super) ground: Vec<GroundPages>,
    /// Stacks that Ruby made for fibers.
    fiber_stacks: Vec<FiberStacks>,
    /// The stacks of Ruby of those who run and do not say where their machine stack ends.
    pub(super) running: AddressSet,
    /// Stacks of which only a part is in use, by address; none overlaps another.
    old_stacks: Vec<(u64, u64)>,
}

impl<'a> Graph<'a> {
    /// Learns what belongs to whom.
    pub(super) fn learn(
        memory: &'a dyn Memory,
        heap: &'a Heap,
        chunks: &'a ChunkTable,
        (anchors, threads): (&RubyAnchors, &[ThreadPlace]),
    ) -> Self {
        let words = with_tables(Words::new(memory, heap, chunks), anchors);
        let slots: u64 = heap.pages().iter().map(|page| page.slots).sum();
        let mut ground = find_ground(memory, heap, chunks, threads);
        // Most of the rest is malloc's then: freed memory, and what nobody tells.
        ground.retain(|pages| !chunks.is_told() || pages.kind != GroundKind::Other);
        // The collector looks at no data of a library that has not said so or marks them itself, for which it must know Ruby.
        let others = libraries_without_ruby(memory);
        ground.retain(
            |pages| !matches!(&pages.kind, GroundKind::Library(name) if others.contains(name)),
        );
        let mut graph = Self {
            words,
            vm: words.vm(anchors),
            objects: NumberSet::new(slots as usize),
            owned: vec![false; chunks.len()],
            structs: AddressMap::default(),
            tables: AddressMap::default(),
            used: AddressMap::default(),
            inline_caches: AddressMap::default(),
            finished: AddressMap::default(),
            shallow: AddressMap::default(),
            weak_sets: AddressMap::default(),
            object_space: None,
            generic_fields: AddressMap::default(),
            compiled: AddressMap::default(),
            contexts: AddressMap::default(),
            ground,
            fiber_stacks: Vec::new(),
            running: AddressSet::default(),
            old_stacks: Vec::new(),
        };
        // In this order: what belongs to the collector or to a slot is no structure that is known by its form.
        graph.collector();
        let structs = graph.slots();
        graph.compiler(&ruby_data(memory, anchors));
        let lists = graph.structures();
        graph.rooms_of_fields();
        graph.object_space = graph.object_space(anchors, &lists);
        graph.mark_stack();
        graph.special_structs(&structs);
        graph.promoted_list();
        graph.environment();
        graph.old_stacks();
        graph
    }

    /// What is known of a file, behind which a word of room may lie, and whose buffers and converters keep no object (`struct rb_io`, io.h;
    /// `struct rb_econv_t`, transcode.c). From 4.0 on it is longer.
    fn file(&mut self, view: &SlotView<'_>) {
        let is_known = !OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(self.words.heap.version());
        if is_known && view.kind() == SlotType::FILE {
            let bytes = file_bytes(self.words.heap.version());
            let chunk = self.words.chunk_at(view.word(16)).filter(|(_, chunk)| chunk.fits(bytes));
            self.shallow.extend(chunk.map(|(number, _)| (number as u64, bytes)));
        }
    }

    /// The collector's own tables point at every page, and a page that malloc made is no reference.
    fn collector(&mut self) {
        for page in self.words.heap.pages() {
            for address in [page.descriptor, page.address] {
                if let Some(number) = self.words.chunks.find(address) {
                    self.owned[number] = true;
                }
            }
        }
        let transient = self.words.heap.transient_heap().map(|(start, _)| start);
        if let Some(number) = transient.and_then(|start| self.words.chunks.find(start)) {
            self.owned[number] = true;
        }
    }

    /// The chunks that slots own. Returns the slots with a struct of C, and the bytes of each.
    fn slots(&mut self) -> Vec<(u64, u64)> {
        let mut structs = Vec::new();
        let pages = self.words.heap.pages().iter();
        let slots = pages.flat_map(|page| (0..page.slots).map(move |slot| (page, slot)));
        for (number, (page, slot)) in slots.enumerate() {
            if let Some(view) = self.words.view(page.slot(slot), page.slot_bytes) {
                self.objects.insert(number);
                view.references(&mut |reference| self.own(view.address, reference));
                self.tables_of_class(&view);
                self.code(&view);
                self.file(&view);
                if view.kind() == SlotType::DATA {
                    structs.push((view.address, view.bytes));
                }
            }
        }
        structs
    }

    fn own(&mut self, object: u64, reference: Reference) {
        match reference {
            Reference::Values(address, _)
            | Reference::Fields(address, _)
            | Reference::Pattern(address)
            | Reference::Bytes(address) => self.own_chunk(address),
            Reference::Buffer(address, bytes) => {
                if let Some(number) = self.words.buffer(address, bytes) {
                    self.owned[number] = true;
                }
            }
            Reference::Table(address) => {
                self.own_chunk(address);
                if let Some(table) = StTable::read(self.words.memory, address) {
                    self.own_chunk(table.bins);
                    self.own_chunk(table.entries);
                }
            }
            Reference::Struct(address) => {
                if let Some(number) = self.words.chunks.exact(address) {
                    let owner = self.structs.entry(number as u64).or_insert(object);
                    // A struct that two objects share is kept by both, so neither stands for it.
                    *owner = if *owner == object { object } else { 0 };
                }
            }
            Reference::Value(_) | Reference::Words(..) | Reference::Plain(..) => {}
        }
    }

    fn own_chunk(&mut self, address: u64) {
        if let Some(number) = self.words.chunks.exact(address) {
            self.owned[number] = true;
        }
    }

    /// What Ruby's compiler keeps. Its code is no root then; where what it keeps is not known, whatever its code has is kept.
    fn compiler(&mut self, data: &[(u64, u64)]) {
        let Words { memory, heap, chunks, .. } = self.words;
        if !COMPILED_IN_BLOCKS.contains(heap.version()) {
            return;
        }
        let jit = Jit::find(memory, heap, chunks).filter(Jit::knows_tables);
        let Some(jit) = jit else { return };
        let is_free =
            |number: usize| !self.is_owned(number) && self.object_of_struct(number).is_none();
        self.compiled = find_compiled(&self.words, &jit, data, &is_free);
        // What they keep is known: in the room of the compiler's lists old words lead to them.
        let blocks = self.compiled.values().flat_map(|compiled| &compiled.blocks);
        self.used.extend(blocks.map(|number| (*number as u64, 0..0)));
        let lists = lists_of_rust(&self.words, data).into_iter();
        self.used.extend(lists.map(|(number, used)| (number as u64, used)));
        self.ground.retain(|pages| {
            let start = pages.ranges.first().map_or(0, |range| range.0);
            !memory.region(start).is_some_and(|region| jit.is_code(region))
        });
    }

    /// Structures that are known by their form. Returns the collector's lists of heap pages.
    fn structures(&mut self) -> AddressSet {
        let pages = self.words.heap.pages().iter().map(|page| page.descriptor);
        let descriptors: AddressSet = pages.collect();
        let held = self.words.chunks.iter().enumerate().filter(|(_, chunk)| chunk.held());
        let mut lists = AddressSet::default();
        for (number, chunk) in held {
            // What belongs to somebody, or is known of code and classes, is no structure of its own, whatever its room looks like.
            if self.owned[number] || self.used.contains_key(&(number as u64)) {
                continue;
            }
            if self.words.is_method_cache(&chunk) {
                self.used.insert(number as u64, 0..0);
            } else if self.words.is_list_of_pages(&chunk, &descriptors) {
                self.owned[number] = true;
                lists.insert(chunk.user());
            } else if let Some(table) = self.words.table_in(&chunk) {
                self.table(number, table);
            } else if let Some((_, entries, _)) = self.words.call_caches(&chunk) {
                // Behind those in use are old words. From 4.0 on they lie in this chunk.
                self.own_chunk(entries);
            } else if let Some(context) = self.words.context_in(&chunk) {
                self.context(number, context);
            } else if let Some((stacks, used)) = self.words.stacks_of_fibers(&chunk) {
                self.fiber_stacks.push(stacks);
                self.used.insert(number as u64, 0..used);
            } else if let Some(used) = self.words.listed_context(&chunk) {
                self.used.insert(number as u64, used);
            } else if let Some(variable) = self.words.global_entry(&chunk) {
                self.used.insert(number as u64, 0..GLOBAL_ENTRY);
                let variable = self.words.chunk_at(variable);
                let is_short = SHORT_GLOBAL_VARIABLES.contains(self.words.heap.version());
                let bytes = GLOBAL_VARIABLE - if is_short { 8 } else { 0 };
                let variable = variable.filter(|(_, chunk)| chunk.fits(bytes));
                self.used.extend(variable.map(|(number, _)| (number as u64, 0..bytes)));
            }
        }
        lists
    }

    /// The chunk that leads to a list of heap pages. The VM leads to it, to which data of Ruby's library lead; the variable's name is
    /// exported only up to Ruby 3.2.
    fn object_space(&self, anchors: &RubyAnchors, lists: &AddressSet) -> Option<usize> {
        let mut vms = BTreeMap::new();
        for range in ruby_data(self.words.memory, anchors) {
            self.structures_behind(range, &mut vms);
        }
        let mut found = BTreeMap::new();
        for vm in vms.into_values() {
            self.structures_behind((vm.user(), vm.user_end()), &mut found);
        }
        let leads_to_list =
            |chunk: &Chunk| self.words.words_of(chunk).iter().any(|word| lists.contains(word));
        found.into_iter().find(|(_, chunk)| leads_to_list(chunk)).map(|(number, _)| number)
    }

    /// The pieces of the mark stack, whose words are old: what the collector knows of the heap leads to the first of those in use and of
    /// those for later, and each to the next (`mark_stack_t`, gc.c). Where that is not known, all that look like one.
    fn mark_stack(&mut self) {
        let chunks = self.words.chunks;
        let Some(space) = self.object_space.and_then(|number| chunks.get(number)) else {
            let held = chunks.iter().enumerate().filter(|(_, chunk)| chunk.held());
            for (number, chunk) in held {
                self.owned[number] |= self.words.is_mark_stack(&chunk);
            }
            return;
        };
        let mut next = self.words.words_of(&space);
        while let Some(at) = next.pop() {
            if let Some((number, chunk)) = self.words.chunk_at(at)
                && chunk.fits(MARK_STACK)
                && !std::mem::replace(&mut self.owned[number], true)
            {
                next.extend(self.words.memory.word_at(at, MARK_STACK - 8));
            }
        }
    }

    /// Adds the chunks that words of a range lead to and that have the size of a large structure.
    fn structures_behind(&self, (start, end): (u64, u64), found: &mut BTreeMap<usize, Chunk>) {
        for_each_word(self.words.memory, start, end, |word| {
            let at = self.words.chunk_at(word).filter(|(_, chunk)| LARGE.contains(&chunk.size));
            found.extend(at.filter(|(number, _)| !self.owned[*number]));
        });
    }

    /// The data of libraries whose file names begin with this.
    fn library_ranges(&self, prefix: &str) -> Vec<(u64, u64)> {
        let is_wanted = |pages: &&GroundPages| matches!(&pages.kind, GroundKind::Library(name) if name.starts_with(prefix));
        self.ground
            .iter()
            .filter(is_wanted)
            .flat_map(|pages| pages.ranges.iter().copied())
            .collect()
    }

    fn table(&mut self, number: usize, table: StTable) {
        self.own_chunk(table.bins);
        self.own_chunk(table.entries);
        let kind = match self.has_inline_caches(&table) {
            true => TableKind::Weak,
            false => self.words.table_kind(&table),
        };
        if matches!(kind, TableKind::Strong | TableKind::Named) {
            let lists = self.words.lists_of_numbers(&table);
            lists.into_iter().for_each(|list| self.own_chunk(list));
        }
        // One table has the variables of all objects that have no room for any (`generic_iv_tbl`, variable.c).
        if kind == TableKind::GenericFields {
            self.generic_fields.extend(table.pairs(self.words.memory, u64::MAX));
        }
        self.tables.insert(number as u64, (table, kind));
    }

    /// Whether the keys of a table are inline caches: those in which a constant with one name may stand, whoever keeps their bytecode
    /// (`constant_cache` of `rb_vm_t`, vm_core.h).
    fn has_inline_caches(&self, table: &StTable) -> bool {
        let is_cache = |key: u64| {
            let number = self.words.chunks.find(key);
            number.is_some_and(|number| self.inline_caches.contains_key(&(number as u64)))
        };
        let mut keys = table.pairs(self.words.memory, u64::MAX).map(|(key, _)| key).peekable();
        keys.peek().is_some() && keys.all(is_cache)
    }

    /// The tables of maps that keep their contents only weakly, the chunks of such sets, and threads that have ended.
    fn special_structs(&mut self, structs: &[(u64, u64)]) {
        let mut kinds = StructKinds::new();
        let (mut pairs, mut threads, mut fibers) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, bytes) in structs {
            let Some(view) = self.words.view(*slot, *bytes) else { continue };
            match kinds.kind_of(&view) {
                Some(StructKind::Tables(kind)) => {
                    words_of_struct(&view, &mut |word| {
                        pairs.extend(self.table_of_kind(word, kind))
                    });
                }
                Some(StructKind::Set) => words_of_struct(&view, &mut |word| {
                    let at = self.words.chunk_at(word);
                    self.weak_sets.extend(at.map(|(at, _)| (at as u64, ())));
                }),
                Some(StructKind::Thread) => threads.push(view.struct_outside()),
                Some(StructKind::Fiber) => fibers.push(view.struct_outside()),
                Some(StructKind::Shallow(bytes)) => {
                    let chunk = self.words.chunk_at(view.struct_outside());
                    self.shallow.extend(chunk.map(|(number, _)| (number as u64, bytes)));
                }
                Some(StructKind::Buffers) => words_of_struct(&view, &mut |word| {
                    let at = self.words.chunk_at(word);
                    let at = at.filter(|_| word != view.struct_outside());
                    self.used.extend(at.map(|(at, _)| (at as u64, 0..0)));
                }),
                None => {}
            }
        }
        pairs.extend(self.traced_objects());
        // After the walk, which borrows the list of tables.
        pairs.iter().for_each(|table| self.own_pairs(table));
        self.threads(&threads, &fibers);
    }

    /// The tables of what was allocated where, which keep no object (`struct traceobj_arg` of `ObjectSpace.trace_object_allocations`,
    /// object_tracing.c): the data of its library lead to what leads to them, of which nobody writes the last word.
    fn traced_objects(&mut self) -> Vec<StTable> {
        let mut found = Vec::new();
        for (start, end) in self.library_ranges("objspace.so") {
            for word in words_between(self.words.memory, start, end) {
                let Some((number, tracer)) = self.words.chunk_at(word) else { continue };
                let words = self.words.words_of(&tracer).into_iter();
                let tables: Vec<_> =
                    words.filter_map(|word| self.table_of_kind(word, TableKind::Weak)).collect();
                if !tables.is_empty() && tracer.fits(TRACER) {
                    self.used.insert(number as u64, 0..TRACER - 8);
                }
                found.extend(tables);
            }
        }
        found
    }

    /// The table at an address, which is of this kind from now on.
    fn table_of_kind(&mut self, at: u64, kind: TableKind) -> Option<StTable> {
        let (number, _) = self.words.chunk_at(at)?;
        let table = self.tables.get_mut(&(number as u64))?;
        table.1 = kind;
        Some(table.0)
    }

    /// From 3.3 on a pair lies in a chunk of its own, which the collector's list of weak references leads to as well.
    fn own_pairs(&mut self, table: &StTable) {
        let chunks = self.words.chunks;
        for (key, _) in table.pairs(self.words.memory, u64::MAX) {
            if self.words.object(key).is_none()
                && let Some(number) = chunks.exact(key)
            {
                self.owned[number] = true;
            }
        }
    }

    /// The records with the instance variables of objects that have no room for any: a number, and as many variables, of which the
    /// collector marks all, also those that were removed (`struct gen_ivtbl`, internal/variable.h).
    fn rooms_of_fields(&mut self) {
        let Words { memory, heap, .. } = self.words;
        for (object, record) in &self.generic_fields {
            let is_list = |flags: u64| !is_too_complex(flags, heap.version());
            let Some((number, chunk)) = self.words.chunk_at(*record) else { continue };
            let count = memory.word(*record).unwrap_or(0) & u64::from(u32::MAX);
            if memory.word(*object).is_some_and(is_list) && chunk.fits(8 + count * 8) {
                // The number itself is left out: beside it, half of an old address may stand.
                self.used.insert(number as u64, 8..8 + count * 8);
            }
        }
    }

    fn context(&mut self, number: usize, context: Context) {
        self.own_chunk(context.vm_stack.0);
        self.contexts.insert(number as u64, context);
    }

    /// The stacks of Ruby, and those of fibers that wait or have ended. What is in use of them is known by the context.
    fn old_stacks(&mut self) {
        for context in self.contexts.values() {
            self.old_stacks.push(context.vm_stack);
            self.old_stacks.extend(context.machine_mapping);
        }
        let free = self.fiber_stacks.iter().flat_map(|stacks| stacks.without(&self.running));
        self.old_stacks.extend(free);
        self.old_stacks = joined(std::mem::take(&mut self.old_stacks));
    }

    /// The transient heap's list of promoted objects: {list, size, used} in the library's data; old words stay in it
    /// (`struct transient_heap`, transient_heap.c).
    fn promoted_list(&mut self) {
        if !TRANSIENT_HEAP.contains(self.words.heap.version()) {
            return;
        }
        for (start, end) in self.library_ranges("") {
            let mut before = 0;
            for_each_word(self.words.memory, start, end, |word| {
                let (size, used) = (word & u64::from(u32::MAX), word >> 32);
                // The list grows by 1024 entries at a time.
                let whole = size >= 1024 && size.is_multiple_of(1024) && used <= size;
                if let Some(number) = self.words.chunks.exact(before).filter(|_| whole) {
                    let chunk = self.words.chunks.get(number);
                    self.owned[number] |= chunk.is_some_and(|chunk| chunk.may_hold(size * 8));
                }
                before = word;
            });
        }
    }

    /// The list of environment variables, which ends with 0 and has room behind, as their texts have (`environ`, stdlib/setenv.c of glibc).
    fn environment(&mut self) {
        let memory = self.words.memory;
        let is_variable = |text: u64| {
            let text = memory.copy(text, LONGEST_NAME).unwrap_or_default();
            let name =
                text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
            let length = name.count();
            length > 0 && text.get(length) == Some(&b'=')
        };
        for (start, end) in self.library_ranges("") {
            for_each_word(memory, start, end, |list| {
                let Some((number, chunk)) = self.words.chunk_at(list) else { return };
                let words = (chunk.user()..chunk.user_end()).step_by(8).map(|at| memory.word(at));
                let variables = words.take_while(|word| word.is_some_and(|word| word != 0));
                let variables: Vec<u64> = variables.flatten().collect();
                if variables.first().is_some_and(|first| is_variable(*first)) {
                    self.used.insert(number as u64, 0..variables.len() as u64 * 8);
                    let texts = variables.iter().filter_map(|at| self.words.chunk_at(*at));
                    self.used.extend(texts.map(|(number, _)| (number as u64, 0..0)));
                }
            });
        }
    }

    /// Whether the slot with this number, at this address, has an object. Memory is asked only where there was none: it may be new.
    pub(super) fn is_object(&self, number: usize, address: u64) -> bool {
        let flags = || self.words.memory.word(address);
        // The type 0 is a slot without an object (`T_NONE`, value_type.h).
        self.objects.contains(number) || flags().is_some_and(|flags| flags & 31 != 0)
    }

    /// Whether only the owner's reference to a chunk counts.
    pub(super) fn is_owned(&self, number: usize) -> bool {
        self.owned.get(number).copied().unwrap_or(true)
    }

    /// The tables of a class: behind each lies what was in the memory before, and in front of what is remembered of a class variable.
    fn tables_of_class(&mut self, view: &SlotView<'_>) {
        let words = self.words;
        self.variable_entries(view);
        // A link of a chain of ancestors still has the first two tables of its module when that is gone, and the collector does not
        // mark them (`T_ICLASS` in `gc_mark_children`, gc.c).
        if view.kind() == SlotType::ICLASS
            && !SHAPES.contains(words.heap.version())
            && let Some((number, chunk)) = words.chunk_at(view.word(24))
        {
            self.used.insert(number as u64, 16..chunk.user_bytes());
        }
        let (tables, variables) = view.tables_of_names();
        // {number, state, scope from 3.2 on, class}, where nobody writes a number (`struct rb_cvar_class_tbl_entry`, internal/class.h).
        let end = if SHAPES.contains(words.heap.version()) { 32 } else { 24 };
        let items = variables.and_then(|table| words.table_of_names(table));
        let items = items.into_iter().flat_map(|(items, capacity)| {
            (0..capacity).filter_map(move |item| words.memory.word_at(items, item * 16 + 8))
        });
        let items = items.map(|item| (item, 8..end));
        for (at, used) in items.chain(tables.into_iter().map(|table| (table, 0..NAMES))) {
            let chunk =
                words.chunks.exact(at).and_then(|number| Some((number, words.chunks.get(number)?)));
            if let Some((number, _)) = chunk.filter(|(_, chunk)| chunk.fits(used.end)) {
                self.used.insert(number as u64, used);
            }
        }
    }

    /// What a class of 3.1 knows of each instance variable of its objects (`struct rb_iv_index_tbl_entry`, internal/class.h).
    fn variable_entries(&mut self, view: &SlotView<'_>) {
        let Words { memory, heap, .. } = self.words;
        let is_class = matches!(view.kind(), SlotType::CLASS | SlotType::MODULE);
        if !is_class || !VARIABLE_ENTRIES.contains(heap.version()) {
            return;
        }
        let table = memory.word(view.word(24)).filter(|at| self.words.chunk_at(*at).is_some());
        let table = table.and_then(|at| StTable::read(memory, at));
        for (_, entry) in table.iter().flat_map(|table| table.pairs(memory, u64::MAX)) {
            let chunk = self.words.chunk_at(entry).filter(|(_, chunk)| chunk.fits(VARIABLE_ENTRY));
            self.used.extend(chunk.map(|(number, _)| (number as u64, 0..VARIABLE_ENTRY)));
        }
    }

    /// What is in use of a chunk.
    pub(super) fn used(&self, number: usize, chunk: &Chunk) -> (u64, u64) {
        let (start, end) = (chunk.user(), chunk.user_end());
        let used = self.used.get(&(number as u64));
        used.map_or((start, end), |used| (start + used.start, end.min(start + used.end)))
    }

    /// Whether a chunk is that of what the collector knows of the heap, where objects are remembered that it does not keep.
    pub(super) fn is_object_space(&self, number: usize) -> bool {
        self.object_space == Some(number)
    }

    /// Whether a chunk is that of a set which keeps nothing alive.
    pub(super) fn is_weak_set(&self, number: usize) -> bool {
        self.weak_sets.contains_key(&(number as u64))
    }

    /// Whether a chunk is the struct of a thread that has ended.
    pub(super) fn is_finished_thread(&self, number: usize) -> bool {
        self.finished.contains_key(&(number as u64))
    }

    /// The object whose C struct a chunk is.
    pub(super) fn object_of_struct(&self, number: usize) -> Option<u64> {
        self.structs.get(&(number as u64)).copied().filter(|object| *object != 0)
    }

    /// The record with an object's instance variables.
    pub(super) fn generic_fields(&self, object: u64) -> Option<u64> {
        self.generic_fields.get(&object).copied()
    }

    /// The parts of a range that are not in stacks of which only a part is in use.
    pub(super) fn without_old_stacks(&self, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut at = start;
        // Below the stack pointer old words stay, which would keep what was returned long ago.
        let first = self.old_stacks.partition_point(|old| old.1 <= start);
        for (from, to) in self.old_stacks[first..].iter().take_while(|old| old.0 < end) {
            if *from > at {
                parts.push((at, *from));
            }
            at = at.max(*to);
        }
        if at < end {
            parts.push((at, end));
        }
        parts
    }
}
