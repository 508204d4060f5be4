//! What of a process that was made up keeps nothing alive: what Ruby keeps weakly, has left behind, or nobody has cleared.

use super::tests::{KEPT, MarkedProcess, POST, ROOTS, SLOT};
use crate::fake_ruby::{DESCRIPTORS, LIBRARY, LIBRARY_BYTES};
use crate::malloc::fake_malloc::{BREAK, C_LIBRARY};
use crate::memory::{Memory as _, MemoryRegion, PAGE};

/// Makes something that keeps nothing alive, or, if not `sound`, the same with one word changed so that it does.
type WeakCase = fn(&mut MarkedProcess, bool);

/// Where the compiler's code is.
const MACHINE_CODE: u64 = 0x7fb0_0000_0000;

impl MarkedProcess {
    /// A table of Ruby itself with one entry.
    fn table(&mut self, key: u64, record: u64) -> u64 {
        let [table, entries] = [0x50, 0x70].map(|size| self.chunk(size));
        let functions = C_LIBRARY + 0x100;
        for (number, word) in [2, functions, 1, 0, 0, 1, entries].into_iter().enumerate() {
            self.word(table + number as u64 * 8, word);
        }
        for (number, word) in [77, key, record].into_iter().enumerate() {
            self.word(entries + number as u64 * 8, word);
        }
        table
    }

    /// A table with sixteen keys, chunks of so many bytes that begin with this text, to which a root leads.
    fn names(&mut self, text: &[u8], bytes: u64) {
        let [table, entries] = [0x50, 0x190].map(|size| self.chunk(size));
        let words = [4, C_LIBRARY + 0x100, 16, 0, 0, 16, entries];
        for (number, word) in (0..).zip(words) {
            self.word(table + number * 8, word);
        }
        for number in 0..16 {
            let name = self.chunk(bytes);
            self.made.memory.write(name, text);
            self.word(name + 8, KEPT);
            self.word(entries + number * 24 + 8, name);
        }
        self.word(ROOTS, table);
    }

    /// Maps the data of a library; returns their address.
    fn library(&mut self, path: &str) -> u64 {
        const DATA: u64 = 0x7fe0_0000_0000;
        self.made.memory.map_library(DATA, DATA + PAGE, path);
        DATA
    }

    /// Maps a library with an object in its data; its symbols are those of Ruby's library, or others.
    fn library_with_names(&mut self, others: bool) {
        const BASE: u64 = 0x7fe0_0000_0000;
        let mut bytes = self.made.memory.copy(LIBRARY, LIBRARY_BYTES).unwrap();
        for at in 0..bytes.len() {
            if others && (bytes[at..].starts_with(b"rb_") || bytes[at..].starts_with(b"ruby_")) {
                bytes[at] = b'x';
            }
        }
        self.made.memory.map_library(BASE, BASE + LIBRARY_BYTES, "/usr/lib/libcrypto.so.3");
        self.made.memory.write(BASE, &bytes);
        self.word(BASE + LIBRARY_BYTES - 64, KEPT);
    }

    /// Makes a list of call caches with room for two, of which so many are in use, and leaves an object in the second; returns the
    /// address of the entries. A root leads to the list.
    fn call_caches(&mut self, length: u64) -> u64 {
        let [list, entries] = [0x20, 0x30].map(|size| self.chunk(size));
        let method = self.rooted(2, 0x601a);
        self.word(list, 2 | length << 32);
        self.word(list + 8, method);
        self.word(list + 16, entries);
        self.word(entries + 24, KEPT);
        self.word(ROOTS + 8, list);
        entries
    }

    /// Writes a context that has an object on a stack of so many words, which lies in the text of a string: no other word counts there.
    fn context(&mut self, at: u64, words: u64) {
        let stack = self.chunk(5 * PAGE);
        let text = POST + 3 * SLOT;
        for (at, word) in [(text, 5 | 1 << 13), (text + 24, stack)] {
            self.word(at, word);
        }
        let frame = stack + 4 * PAGE - 64;
        let context = [(at, stack), (at + 8, words), (at + 16, frame)];
        for (at, word) in context.into_iter().chain([(frame + 8, stack + 32), (stack + 8, KEPT)]) {
            self.word(at, word);
        }
    }

    /// Makes two stacks for fibers of four pages, one so many bytes behind the other; returns the addresses of what is known of them and
    /// of the first.
    fn fiber_stacks(&mut self, stride: u64) -> (u64, u64) {
        const STACKS: u64 = 0x7fc0_0000_0000;
        let known = self.chunk(0x40);
        self.made.memory.map_anonymous(STACKS, STACKS + 10 * PAGE);
        for (number, word) in (0..).zip([STACKS, 4 * PAGE, stride, 2]) {
            self.word(known + number * 8, word);
        }
        (known, STACKS)
    }

    /// Makes bytecode, to which a root leads; returns the address of its body.
    fn code(&mut self) -> u64 {
        let (body, code) = (self.chunk(0x150), self.rooted(2, 0x701a));
        self.word(code + 16, body);
        body
    }

    /// The same with four instructions of which it knows the lines.
    fn code_with_lines(&mut self) -> u64 {
        let body = self.code();
        let [lines, index] = [0x40, 0x30].map(|size| self.chunk(size));
        for (at, word) in [(112, lines), (128, 4), (136, index)] {
            self.word(body + at, word);
        }
        body
    }

    /// Makes bytecode that has machine code and a block of it, to which a root leads; returns the address of the block, and those of the
    /// fields of the body where the compiler's tables stand.
    fn compiled(&mut self) -> (u64, u64) {
        let [body, tables, block] = [0x200, 0x40, 0x90].map(|size| self.chunk(size));
        let code = self.rooted(2, 0x701a);
        for (start, bytes, is_code) in
            [(MACHINE_CODE, 2 * PAGE, true), (MACHINE_CODE + 2 * PAGE, (1 << 20) - 2 * PAGE, false)]
        {
            self.made.memory.map(MemoryRegion {
                start,
                end: start + bytes,
                readable: is_code,
                executable: is_code,
                private: true,
                ..MemoryRegion::default()
            });
        }
        self.word(code + 16, body);
        self.word(body + 400, MACHINE_CODE + 64);
        self.word(body + 432, tables);
        self.word(tables, block);
        self.word(block, code);
        (block, body + 432)
    }

    /// Makes a hash table of the compiler's with an entry of this key; returns where the library says how many entries there are.
    fn assumption(&mut self, key: u64) -> u64 {
        let (data, table) = (self.library("/usr/lib/libruby-3.3.so.3.3"), self.chunk(0x110));
        let groups = table + 4 * 56;
        for (at, word) in [(groups - 2 * 56, key), (groups, u64::MAX ^ 0xff00)] {
            self.word(at, word);
        }
        for (number, word) in (0..).zip([groups, 3, 2, 1]) {
            self.word(data + number * 8, word);
        }
        data + 24
    }

    /// Makes a struct of C with a type of this name; returns the address of the function by which it marks what it keeps.
    fn structure(&mut self, object: u64, of: &[u8], at: u64) -> u64 {
        let [kind, name] = [0x20, 0x20].map(|size| self.chunk(size));
        self.made.memory.write(name, of);
        for (at, word) in [(kind, name), (kind + 8, 1)] {
            self.word(at, word);
        }
        for (number, word) in [(0, 12), (2, kind), (3, 1), (4, at)] {
            self.word(object + number * 8, word);
        }
        kind + 8
    }

    /// Makes a thread that has ended or that its list leads to; returns the addresses of its struct and of its object.
    fn ended_thread(&mut self, has_ended: bool) -> (u64, u64) {
        let [thread, list] = [0x80, 0x40].map(|size| self.chunk(size));
        let object = POST + 2 * SLOT;
        self.structure(object, b"VM/thread\0", thread);
        // Its neighbours stay in its own node after its end.
        for (at, word) in [(thread, list), (thread + 8, list)] {
            self.word(at, word);
        }
        let node = if has_ended { list } else { thread };
        for (at, word) in [(list, node), (list + 8, node)] {
            self.word(at, word);
        }
        (thread, object)
    }

    /// Makes a thread that has not ended, whose native thread leads at this place to a chunk of so many bytes with an object in it.
    fn native_thread(&mut self, place: u64, bytes: u64, kept: u64) {
        let (thread, object) = self.ended_thread(false);
        let [native, chunk] = [0x80, bytes].map(|size| self.chunk(size));
        for (at, word) in [(thread + 64, native), (native + place, chunk), (chunk + kept, KEPT)] {
            self.word(at, word);
        }
        self.word(ROOTS, object);
    }
}

const WEAK: [(&str, WeakCase); 59] = [
    ("a piece of the mark stack", |process, sound| {
        let piece = process.chunk(4016);
        process.word(piece, KEPT);
        process.word(piece + 4000, if sound { 0 } else { 5 });
        process.word(ROOTS, piece);
    }),
    ("a list of subclasses", |process, sound| {
        let link = process.chunk(0x20);
        process.word(KEPT, 2);
        process.word(link, KEPT);
        process.word(link + 8, if sound { 0 } else { 7 });
        process.word(ROOTS, link);
    }),
    ("the unused part of a list of call caches", |process, sound| {
        process.call_caches(if sound { 1 } else { 2 });
    }),
    ("the same where an old word leads to its entries", |process, sound| {
        let entries = process.call_caches(if sound { 1 } else { 3 });
        process.word(ROOTS + 16, entries);
    }),
    ("a table from which everything was deleted", |process, sound| {
        let table = process.table(KEPT, 0);
        let entries = process.made.memory.word_at(table, 48).unwrap();
        process.word(table, 2 | if sound { 3 << 8 } else { 2 << 8 });
        process.word(table + 16, 0);
        process.word(entries, u64::MAX);
        process.word(ROOTS, table);
    }),
    ("the room behind instructions", |process, sound| {
        let [body, instructions] = [0x150, 0x30].map(|size| process.chunk(size));
        let code = process.rooted(2, 0x701a);
        process.word(code + 16, body);
        process.word(body, if sound { 4 << 32 } else { 5 << 32 });
        process.word(body + 8, instructions);
        process.word(instructions + 32, KEPT);
    }),
    ("what is known of instructions", |process, sound| {
        let [body, lines, index] = [0x150, 0x40, 0x30].map(|size| process.chunk(size));
        let code = process.rooted(2, 0x701a);
        process.word(code + 16, body);
        for (at, word) in [(112, lines), (128, if sound { 4 } else { 2 }), (136, index)] {
            process.word(body + at, word);
        }
        process.word(lines + 48, KEPT);
    }),
    ("the room behind the numbers of a loaded feature", |process, sound| {
        let list = process.chunk(0x40);
        let table = process.table(POST, list);
        process.word(ROOTS, table);
        for (number, word) in
            [1, 4, if sound { 21 } else { 1 << 16 }, 0, 0, KEPT].into_iter().enumerate()
        {
            process.word(list + number as u64 * 8, word);
        }
    }),
    ("the same in an array without a slot", |process, sound| {
        let [array, numbers] = [0x30, 0x40].map(|size| process.chunk(size));
        let table = process.table(POST, array);
        process.word(ROOTS, table);
        for (number, word) in [7, 0, 2, if sound { 6 } else { 3 }, numbers].into_iter().enumerate()
        {
            process.word(array + number as u64 * 8, word);
        }
        for (number, word) in [13, 15, 0, 0, 0, KEPT].into_iter().enumerate() {
            process.word(numbers + number as u64 * 8, word);
        }
    }),
    ("the buffer of an input", |process, sound| {
        let [stream, buffer] = [0x100, 8192 + 16].map(|size| process.chunk(size));
        let file = process.rooted(2, 11);
        process.word(file + 16, stream);
        process.word(stream + 0x20, buffer);
        process.word(stream + 0x30, if sound { 8192 } else { 8191 });
        process.word(buffer + 64, KEPT);
    }),
    ("what converts the encoding of a file", |process, sound| {
        let [stream, converter] = [0xe0, 0xd0].map(|size| process.chunk(size));
        let file = process.rooted(2, if sound { 11 } else { 12 });
        process.word(file + 16, stream);
        process.word(stream + 0x80, converter);
        process.word(converter + 0x68, KEPT);
    }),
    ("the keys of finalizers", |process, sound| {
        let array = process.rooted(2, 7 | 1 << 13);
        process.word(KEPT, 1 | if sound { 1 << 7 } else { 0 });
        let table = process.table(KEPT, array);
        process.word(ROOTS + 8, table);
    }),
    ("object ids", |process, sound| {
        process.word(KEPT, 1 | if sound { 1 << 9 } else { 0 });
        let table = process.table(17, KEPT);
        process.word(ROOTS, table);
    }),
    ("instance variables of an object that is garbage", |process, sound| {
        process.word(KEPT, 5 | if sound { 1 << 10 } else { 0 });
        let record = process.chunk(0x30);
        let table = process.table(KEPT, record);
        process.word(ROOTS, table);
    }),
    (
        "the number of instance variables, beside which half an old address stands",
        |process, sound| {
            // So many words as the lower half of an address in the middle of a chunk says.
            let around = process.chunk(0x2000);
            let count = around % (1 << 32) + 0x1800;
            let record = process.chunk((8 + count * 8 + 8).next_multiple_of(16));
            process.word(around, KEPT);
            process.word(record, around + 0x1800);
            let object = process.rooted(2, 5 | if sound { 1 << 10 } else { 0 });
            let table = process.table(object, record);
            process.word(ROOTS + 8, table);
        },
    ),
    ("a small number beside which half an old address stands", |process, sound| {
        process.word(BREAK + 0x800, KEPT);
        process.word(ROOTS, BREAK + if sound { 0xff8 } else { 0x1000 });
    }),
    ("a weak map", |process, sound| {
        let (object, map) = (process.rooted(2, 12), process.chunk(0x20));
        process.structure(object, if sound { b"weakmap\0" } else { b"hashmap\0" }, map);
        let table = process.table(KEPT, KEPT ^ 0x10);
        process.word(map, table);
    }),
    ("the word that nobody writes of what traces allocations", |process, sound| {
        let (tracer, table) = (process.chunk(0x40), process.table(POST, 5));
        process.word(tracer + 24, if sound { table } else { 0 });
        process.word(tracer + 40, KEPT);
        let data = process.library("/usr/lib/ruby/objspace.so");
        process.word(data, tracer);
    }),
    ("a set of shared strings", |process, sound| {
        let (object, entries) = (process.rooted(2, 12), process.chunk(0x50));
        let name: &[u8] = if sound { b"VM/concurrent_set\0" } else { b"VM/concurrent_map\0" };
        process.structure(object, name, entries);
        // A hash and an object.
        process.word(entries + 16, 77);
        process.word(entries + 24, KEPT);
    }),
    ("the room behind captured variables", |process, sound| {
        let variables = process.captured(2, 0);
        process.word(variables + 40, KEPT);
        process.word(POST + 2 * SLOT + 32, if sound { 5 } else { 6 });
        process.word(ROOTS, POST + 2 * SLOT);
    }),
    ("the unused part of the list of heap pages", |process, sound| {
        let list = process.chunk(0x100);
        for page in 0..if sound { 3 } else { 2 } {
            process.word(list + page * 8, DESCRIPTORS + page * PAGE);
        }
        process.word(list + 0x80, KEPT);
        process.word(ROOTS, list);
    }),
    ("the same behind its length", |process, sound| {
        let list = process.chunk(0x100);
        for page in 0..if sound { 3 } else { 2 } {
            process.word(list + 16 + page * 8, DESCRIPTORS + page * PAGE);
        }
        process.word(list + 0x80, KEPT);
        process.word(ROOTS, list);
    }),
    ("the object that the collector visited last", |process, sound| {
        let [vm, space, list] = [0x200, 0x210, 0x100].map(|size| process.chunk(size));
        for page in 0..3 {
            process.word(list + page * 8, DESCRIPTORS + page * PAGE);
        }
        process.word(space + 0x40, if sound { list } else { list + 8 });
        process.word(space + 0x80, KEPT);
        process.word(vm + 0x20, space);
        let data = process.library("/usr/lib/libruby-3.3.so.3.3");
        process.word(data, vm);
    }),
    ("the data of a library that knows nothing of Ruby", |process, sound| {
        process.library_with_names(sound);
    }),
    ("what a struct leads to whose type does not mark", |process, sound| {
        let (object, [one, two]) =
            (process.rooted(2, 12), [0x20, 0x30].map(|size| process.chunk(size)));
        let mark = process.structure(object, b"store\0", one);
        process.word(mark, if sound { 0 } else { 1 });
        process.word(one, two);
        process.word(two, KEPT);
    }),
    ("what a struct without a type leads to that does not mark", |process, sound| {
        let (object, one) = (process.rooted(2, 12), process.chunk(0x20));
        for (at, word) in [(16, if sound { 0 } else { 64 }), (24, 64), (32, one)] {
            process.word(object + at, word);
        }
        process.word(one, KEPT);
    }),
    ("what a struct leads to of which nothing else is marked", |process, sound| {
        let (object, [one, two]) =
            (process.rooted(2, 12), [0x20, 0x30].map(|size| process.chunk(size)));
        process.structure(object, if sound { b"zstream\0" } else { b"zstring\0" }, one);
        process.word(one, two);
        process.word(two, KEPT);
    }),
    ("the room behind the entry of a global variable", |process, sound| {
        const CODE: u64 = 0x7fd0_0000_0000;
        let (start, end) = (CODE, CODE + PAGE);
        let code =
            MemoryRegion { start, end, executable: true, inode: 9, ..MemoryRegion::default() };
        process.made.memory.map(code);
        let [entry, variable] = [0x20, 0x40].map(|size| process.chunk(size));
        for (at, word) in [(entry, variable), (entry + 8, 0x1_0007), (entry + 16, KEPT)] {
            process.word(at, word);
        }
        process.word(variable + 16, CODE);
        process.word(variable + 24, if sound { CODE } else { 0 });
        process.word(ROOTS, entry);
    }),
    ("the compiler's list of contexts", |process, sound| {
        let [fiber, newer, older] = [0x100, 0x20, 0x20].map(|size| process.chunk(size));
        for (at, word) in [(newer, fiber + 16), (newer + 16, older), (older + 8, newer)] {
            process.word(at, word);
        }
        process.word(fiber + 56, if sound { fiber } else { 0 });
        process.word(fiber + 64, KEPT);
        process.word(ROOTS, newer);
    }),
    ("a thread that has ended, where another thread was", |process, sound| {
        let (thread, object) = process.ended_thread(sound);
        process.word(ROOTS, thread);
        process.word(thread + 64, KEPT);
        process.word(object, 12);
    }),
    ("the stack of a thread that has ended", |process, sound| {
        let (thread, object) = process.ended_thread(sound);
        let stack = process.chunk(0x1010);
        process.word(thread + 64, stack);
        process.word(stack + 0x800, KEPT);
        process.word(ROOTS, object);
    }),
    ("a compiled pattern", |process, sound| {
        let [pattern, part] = [0x100, 0x40].map(|size| process.chunk(size));
        let object = process.rooted(2, if sound { 6 } else { 12 });
        process.word(object + 16, pattern);
        process.word(pattern, part);
        process.word(part, KEPT);
    }),
    ("the room behind inline caches", |process, sound| {
        let (body, caches) = (process.code(), process.chunk(0x30));
        process.word(body + 176, caches);
        process.word(body + 232, if sound { 2 << 32 } else { 0 });
        process.word(caches + 32, KEPT);
    }),
    ("the room behind calls", |process, sound| {
        let (body, calls) = (process.code(), process.chunk(0x30));
        process.word(body + 184, calls);
        process.word(body + 248, if sound { 2 << 32 } else { 0 });
        process.word(calls + 32, KEPT);
    }),
    ("the room behind the path of a constant", |process, sound| {
        let body = process.code();
        let [cache, path] = [0x20, 0x20].map(|size| process.chunk(size));
        process.word(body + 176, cache);
        process.word(body + 232, 1 << 32);
        process.word(cache + 8, path);
        process.word(path, if sound { 0x1231 } else { 1 << 33 });
        process.word(path + 16, KEPT);
    }),
    ("the room behind what catches exceptions", |process, sound| {
        let (body, catches) = (process.code_with_lines(), process.chunk(0x30));
        process.word(body + 152, catches);
        process.word(catches, if sound { 1 } else { 2 });
        process.word(catches + 32, KEPT);
    }),
    ("the room behind the names of local variables", |process, sound| {
        let (body, names) = (process.code_with_lines(), process.chunk(0x20));
        process.word(body + 144, names);
        process.word(names, if sound { 0x1231 } else { 1 << 33 });
        process.word(names + 16, KEPT);
    }),
    ("the room behind keywords", |process, sound| {
        let (body, keywords) = (process.code(), process.chunk(0x30));
        process.word(body + 56, keywords);
        process.word(keywords, if sound { 2 << 32 | 2 } else { 3 << 32 | 2 });
        process.word(keywords + 32, KEPT);
    }),
    ("the room behind the values of keywords", |process, sound| {
        let (body, [keywords, values]) =
            (process.code(), [0x30, 0x20].map(|size| process.chunk(size)));
        process.word(body + 56, keywords);
        process.word(keywords, if sound { 1 << 32 | 2 } else { 1 << 32 | 3 });
        process.word(keywords + 24, values);
        process.word(values + 8, KEPT);
    }),
    ("what looks like a context, but its stack is no whole pages", |process, sound| {
        let context = process.chunk(0x200);
        process.context(context, if sound { 2049 } else { 2048 });
        process.word(ROOTS, context);
    }),
    ("what looks like a context behind instructions", |process, sound| {
        let (body, instructions) = (process.code(), process.chunk(0x200));
        process.word(body, if sound { 60 << 32 } else { 80 << 32 });
        process.word(body + 8, instructions);
        process.context(instructions + 480, 2048);
    }),
    ("the room behind a fiber", |process, sound| {
        // A chunk of malloc can have 16 bytes more than it needs.
        let fiber = process.chunk(if sound { 0x320 } else { 0x340 });
        process.context(fiber + 80, 2048);
        let stack = process.made.memory.word(fiber + 80).unwrap();
        process.word(stack + 8, 0);
        process.word(fiber + 776, KEPT);
        process.word(ROOTS, fiber);
    }),
    ("the stack of a thread for signals", |process, sound| {
        let (thread, object) = process.ended_thread(false);
        let stack = process.chunk(if sound { 0x2010 } else { 0x1f10 });
        process.word(thread + 64, stack);
        process.word(stack + 0x800, KEPT);
        process.word(ROOTS, object);
    }),
    ("the same of a processor with more registers, but not the VM", |process, sound| {
        let (thread, object) = process.ended_thread(false);
        let [stack, other] = [0xbad0; 2].map(|size| process.chunk(size));
        process.made.memory.signal_stack = Some(47_808);
        process.export("ruby_current_vm_ptr", if sound { other } else { stack });
        process.word(thread + 64, stack);
        process.word(stack + 0x800, KEPT);
        process.word(ROOTS, object);
    }),
    ("the same of a native thread", |process, sound| {
        process.native_thread(if sound { 88 } else { 80 }, 0xbad0, 0x800);
    }),
    ("the context of a native thread", |process, sound| {
        process.native_thread(if sound { 96 } else { 88 }, 0x20, 0);
    }),
    ("a thread of the parent, in a forked process", |process, sound| {
        let (thread, object) = process.ended_thread(false);
        // The list, the thread that forked, and those of the parent before and behind this one.
        let [list, forked, before, behind] = [0x40; 4].map(|size| process.chunk(size));
        let ring = [list, forked, before, thread, behind];
        for (at, one) in ring.into_iter().enumerate() {
            process.word(one, ring[(at + 1) % 5]);
            process.word(one + 8, ring[(at + 4) % 5]);
        }
        if sound {
            process.word(forked, list);
            process.word(list + 8, forked);
        }
        process.word(ROOTS, thread);
        process.word(thread + 64, KEPT);
        process.word(object, 12);
    }),
    ("the stack of a fiber that has ended", |process, sound| {
        const BYTES: u64 = 4 * PAGE;
        let (_, stacks) = process.fiber_stacks(if sound { BYTES + PAGE } else { BYTES });
        process.word(stacks + BYTES + 2 * PAGE + 64, KEPT);
    }),
    ("the room behind what is known of such stacks", |process, sound| {
        let (known, _) = process.fiber_stacks(if sound { 5 * PAGE } else { 4 * PAGE });
        process.word(known + 48, KEPT);
        process.word(ROOTS, known);
    }),
    ("the room behind the environment", |process, sound| {
        let [list, text] = [0x30, 0x20].map(|size| process.chunk(size));
        process.word(list, text);
        process.word(list + 16, KEPT);
        process.made.memory.write(text, if sound { b"LANG=C\0" } else { b"LANG C\0" });
        process.word(ROOTS, list);
    }),
    ("the room behind the text of an environment variable", |process, sound| {
        let [list, text] = [0x30, 0x20].map(|size| process.chunk(size));
        process.word(list, text);
        process.made.memory.write(text, if sound { b"LANG=C\0" } else { b"LANG C\0" });
        process.word(text + 16, KEPT);
        process.word(ROOTS, list);
    }),
    ("what stands behind the names of encodings", |process, sound| {
        process.names(if sound { b"PCK\0" } else { b"PCK\x01" }, 0x20);
    }),
    ("what stands behind names, but not in structs that begin with one", |process, sound| {
        process.names(b"PCK\0", if sound { 0x20 } else { 0x40 });
    }),
    ("the code of the compiler", |process, sound| {
        let (_, tables) = process.compiled();
        process.word(MACHINE_CODE + 128, KEPT);
        if !sound {
            process.word(tables, 0);
        }
    }),
    ("what stands beside the places of objects in the code", |process, sound| {
        let ((block, _), places) = (process.compiled(), process.chunk(0x20));
        process.word(block + 16, places);
        process.word(block + 24, 1);
        process.word(places, if sound { 132 } else { 133 });
        process.made.memory.write(MACHINE_CODE + 133, &KEPT.to_le_bytes());
    }),
    ("code that one comes from, but not code that one goes to", |process, sound| {
        let ((block, _), branch) = (process.compiled(), process.chunk(0x50));
        let [target, other] =
            [0x20, if sound { 0x90 } else { 0x30 }].map(|size| process.chunk(size));
        process.word(KEPT, 0x701a);
        process.word(block + 16, branch);
        process.word(branch, if sound { other } else { target });
        process.word(target + 8, other);
        process.word(other, KEPT);
    }),
    ("what the compiler assumes of a class, but not of a method", |process, sound| {
        process.compiled();
        let method = POST + 3 * SLOT;
        process.word(method, 0x601a);
        process.word(method + 8, KEPT);
        process.assumption(if sound { KEPT } else { method });
    }),
    ("a table of the compiler's that has as many entries as it says", |process, sound| {
        process.compiled();
        let count = process.assumption(KEPT);
        process.word(count, if sound { 1 } else { 2 });
    }),
    ("what a parser freed", |process, sound| {
        let (tree, node) = (process.rooted(2, 0x901a), process.chunk(0x20));
        process.word(tree + if sound { 16 } else { 8 }, node);
        process.word(node, KEPT);
    }),
];

#[test]
fn what_ruby_keeps_weakly_or_left_behind_keeps_nothing_alive() {
    for (name, make) in WEAK {
        for sound in [true, false] {
            let mut process = MarkedProcess::new().with_thread();
            // All others lie where the lower half of an address is no small number.
            process.chunk(0x1010);
            make(&mut process, sound);
            let kept = process.reached(|reached| reached.is_reached(KEPT)).unwrap();
            assert_eq!(kept, !sound, "{name}, as it is: {sound}");
        }
    }
}
