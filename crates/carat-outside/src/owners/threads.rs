//! The threads of a process and where their stacks are.

use crate::bytes::{half_in, word_in};
use crate::memory::{Memory, MemoryRegion, PAGE, PAGE_LENGTH};
use crate::printable::printable;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// Threads that are read.
const THREADS: usize = 65_536;
/// Fields of `/proc/PID/stat`: the first behind the name, the parent, and where the stack begins.
pub(crate) const STATE: usize = 3;
const PARENT: usize = 4;
const START_OF_STACK: usize = 28;
/// At most so far from the end of a stack of glibc's lie a thread's block and, on aarch64, its data behind it.
const BLOCK_AT_END: u64 = 16_384;
/// The largest number of a thread (`PID_MAX_LIMIT`, include/linux/threads.h).
const MOST_NUMBER: u32 = 1 << 22;
/// Alignment of the head of a thread's robust mutexes: 736 in its block on x86-64 and 224 on aarch64, and blocks are aligned to 64.
const HEAD_ALIGNMENT: usize = 16;

/// One thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its number as we see it.
    pub id: u32,
    /// Its number in its own container.
    pub inner_id: u32,
    /// Its name (`comm`), which Ruby sets from `Thread#name`.
    pub name: String,
    /// Where its stack ends at present; `None` while it runs, or where the kernel does not say.
    pub stack_pointer: Option<u64>,
}

/// The threads of a process by number; `proc` is the root of the process file system. Empty if the process has ended.
pub fn read_threads(proc: &Path, process: u32) -> Vec<ThreadPlace> {
    let Ok(entries) = fs::read_dir(proc.join(process.to_string()).join("task")) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok).take(THREADS);
    let mut threads: Vec<ThreadPlace> =
        entries.filter_map(|entry| read_thread(&entry.path())).collect();
    // The main thread is the first: the stack with the name `[stack]` is its own.
    threads.sort_by_key(|thread| (thread.id != process, thread.id));
    threads
}

/// Whether a process was forked from its parent and has executed no program since: only then their stacks begin at the same
/// address. `None` if that cannot be read, or if another process than the one that forked it may be its parent now.
pub(crate) fn is_forked(proc: &Path, process: u32) -> Option<bool> {
    let own = fs::read_to_string(proc.join(process.to_string()).join("stat")).ok()?;
    let parent = number_in_stat(&own, PARENT)?;
    if parent == 0 {
        return Some(false);
    }
    // The kernel draws the start of a stack at random for each program, and a fork keeps it.
    let of_parent = fs::read_to_string(proc.join(parent.to_string()).join("stat")).ok()?;
    let [own, of_parent] = [own, of_parent].map(|stat| number_in_stat(&stat, START_OF_STACK));
    // The kernel says 0 to those who may not read the process.
    let (own, of_parent) = (own.filter(|at| *at != 0)?, of_parent.filter(|at| *at != 0)?);
    match own == of_parent {
        true => Some(true),
        // Process 1 is the parent of those whose own has ended.
        false => (parent != 1).then_some(false),
    }
}

/// A number in `/proc/PID/stat`; fields count from 1.
fn number_in_stat(stat: &str, field: usize) -> Option<u64> {
    field_in_stat(stat, field)?.parse().ok()
}

/// A field of `/proc/PID/stat` behind the name, which is in parentheses and may have some.
pub(crate) fn field_in_stat(stat: &str, field: usize) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field - STATE)
}

fn read_thread(folder: &Path) -> Option<ThreadPlace> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read(folder.join("comm")).unwrap_or_default();
    let name = printable(String::from_utf8_lossy(&name).trim_end());
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    // The last number is that of the innermost container, which glibc's block has.
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inner = inner.and_then(|numbers| numbers.split_whitespace().next_back()?.parse().ok());
    // Only a thread that waits has a stack pointer that can be read without stopping it.
    let call = fs::read_to_string(folder.join("syscall")).unwrap_or_default();
    Some(ThreadPlace {
        id,
        inner_id: inner.unwrap_or(id),
        name,
        stack_pointer: stack_pointer(&call),
    })
}

/// The stack pointer in `/proc/PID/task/TID/syscall`: the last but one field, unless the thread runs.
fn stack_pointer(call: &str) -> Option<u64> {
    let mut fields = call.split_whitespace().rev();
    let _instruction = fields.next()?;
    let pointer = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    (pointer != 0).then_some(pointer)
}

/// The thread whose stack or thread-local data lie in a mapping, by the mapping's first address. Numbers are places in the
/// list of threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadRegions {
    by_start: HashMap<u64, u32>,
    /// First addresses of the stacks of threads that have ended, which glibc keeps for new ones.
    ended: HashSet<u64>,
    /// Below the stack pointer lies what earlier calls left behind.
    live_from: HashMap<u64, u64>,
}

impl ThreadRegions {
    /// Finds the mappings by stack pointers and by glibc's thread blocks; `is_searched` tells pages that may hold a block.
    pub(crate) fn find(
        memory: &dyn Memory,
        threads: &[ThreadPlace],
        is_searched: &dyn Fn(u64) -> bool,
    ) -> Self {
        let mut found = Self::default();
        let blocks = thread_blocks(memory, threads, is_searched);
        // Where no number is one of the list, those in it are of another container, and tell nothing of threads that ended meanwhile.
        let are_known = blocks.iter().any(|block| matches!(block.0, BlockOf::Thread(_)));
        for (of, start) in blocks {
            match of {
                BlockOf::Thread(number) => _ = found.by_start.entry(start).or_insert(number),
                BlockOf::Unlisted if !are_known => {}
                BlockOf::Ended | BlockOf::Unlisted => _ = found.ended.insert(start),
            }
        }
        // The stack pointer is the better evidence: a fiber runs on another stack than its thread began on.
        for (number, thread) in (0..).zip(threads) {
            let Some(pointer) = thread.stack_pointer else { continue };
            let Some(region) = memory.region(pointer).filter(|region| is_stack(region)) else {
                continue;
            };
            found.by_start.insert(region.start, number);
            // 128 bytes below it belong to the running function (x86-64 ABI, red zone; other processors have none).
            let lowest = found.live_from.entry(region.start).or_insert(u64::MAX);
            *lowest = (*lowest).min(pointer.saturating_sub(128) & !7);
        }
        for region in memory.regions().iter().filter(|region| region.path == "[stack]") {
            found.by_start.entry(region.start).or_insert(0);
        }
        found
    }

    /// The thread of a mapping.
    pub(crate) fn thread_of(&self, region: &MemoryRegion) -> Option<u32> {
        self.by_start.get(&region.start).copied()
    }

    /// Whether a mapping is the stack of a thread that has ended.
    pub(crate) fn has_ended(&self, region: &MemoryRegion) -> bool {
        self.ended.contains(&region.start) && self.thread_of(region).is_none()
    }

    /// The lowest address of a mapping that is in use.
    pub(crate) fn live_from(&self, region: &MemoryRegion) -> u64 {
        self.live_from.get(&region.start).copied().unwrap_or(region.start)
    }
}

fn is_stack(region: &MemoryRegion) -> bool {
    let anonymous = region.anonymous() && region.path != "[heap]";
    region.searched() && region.writable && (region.path == "[stack]" || anonymous)
}

/// Whose `struct pthread` it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockOf {
    /// That of the thread at this place of the list.
    Thread(u32),
    /// One that has ended, of which the kernel made the number 0.
    Ended,
    /// One that is not in the list: it ended, or began, while threads were read.
    Unlisted,
}

/// Whose `struct pthread` is in a mapping, by its first address. Of those that are not in the list the mapping ends behind it.
///
/// A thread's number is followed there by the list of the robust mutexes that it holds: a pointer to the last one and the head.
/// Nearly every thread holds none, and then both point to the head, which is found by that on every processor (`robust_prev` and
/// `robust_head` in nptl/descr.h, glibc 2.31 to 2.43).
fn thread_blocks(
    memory: &dyn Memory,
    threads: &[ThreadPlace],
    is_searched: &dyn Fn(u64) -> bool,
) -> Vec<(BlockOf, u64)> {
    let numbers: HashMap<u32, u32> =
        (0..).zip(threads).map(|(number, thread)| (thread.inner_id, number)).collect();
    let mut blocks = Vec::new();
    let mut buffer = [0; PAGE_LENGTH];
    for region in memory.regions().iter().filter(|region| is_stack(region)) {
        for (first, count) in region.pages.runs(u64::MAX) {
            for page in (first..first.saturating_add(count)).map(|page| region.start + page * PAGE)
            {
                // Pages of slots and chunks have no blocks, and are most of the memory.
                if !is_searched(page) || blocks.len() > THREADS {
                    continue;
                }
                if !memory.read(page, &mut buffer) {
                    continue;
                }
                let heads = (0..PAGE_LENGTH)
                    .step_by(HEAD_ALIGNMENT)
                    .map(|at| (at, page + at as u64))
                    .filter(|(at, head)| word_in(&buffer, *at) == Some(*head));
                let numbers = heads.filter_map(|(_, head)| {
                    let before = memory.copy(head.checked_sub(16)?, 16)?;
                    let is_empty = word_in(&before, 8) == Some(head);
                    let number = half_in(&before, 0).filter(|_| is_empty)?;
                    if let Some(listed) = numbers.get(&number) {
                        return Some(BlockOf::Thread(*listed));
                    }
                    let of = if number == 0 { BlockOf::Ended } else { BlockOf::Unlisted };
                    (number <= MOST_NUMBER && region.end - head <= BLOCK_AT_END).then_some(of)
                });
                blocks.extend(numbers.map(|number| (number, region.start)));
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    fn thread(id: u32, stack_pointer: Option<u64>) -> ThreadPlace {
        ThreadPlace { id, inner_id: id, name: format!("thread {id}"), stack_pointer }
    }

    #[test]
    fn the_stack_pointer_is_the_last_but_one_field() {
        let call = "0 0x3 0x7f 0x1000 0x0 0x0 0x0 0x7ffd1234 0x7f5566\n";
        assert_eq!(stack_pointer(call), Some(0x7ffd_1234));
        assert_eq!(stack_pointer("-1 0x7ffd1234 0x7f5566"), Some(0x7ffd_1234));
        for other in ["running\n", "", "0 0 0", "-1 0x0 0x0"] {
            assert_eq!(stack_pointer(other), None, "{other}");
        }
    }

    #[test]
    fn the_threads_of_our_own_process_have_names() {
        let own = std::process::id();
        let threads = read_threads(Path::new("/proc"), own);
        assert_eq!(threads[0].id, own);
        // The main thread's only: one of another test can end while it is read, and has no name then.
        assert!(!threads[0].name.is_empty());
        assert!(read_threads(Path::new("/proc"), u32::MAX).is_empty());
    }

    #[test]
    fn a_process_that_was_forked_and_is_another_program_now_is_not_forked() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // The kernel sets its stack a moment after the program was started.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut found = None;
        while found.is_none() && std::time::Instant::now() < end {
            found = is_forked(Path::new("/proc"), child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some(false));
        let folder = tempfile::tempdir().unwrap();
        let stat = |pid: u32, name: &str, parent: u32, stack: u64| {
            let rest = (5..28).map(|field| format!("{field} ")).collect::<String>();
            let own = folder.path().join(pid.to_string());
            fs::create_dir_all(&own).unwrap();
            let text = format!("{pid} ({name}) S {parent} {rest}{stack} 29 30\n");
            fs::write(own.join("stat"), text).unwrap();
        };
        stat(1, "init", 0, 5000);
        stat(10, "puma 5) S 9", 1, 7000);
        stat(11, "puma", 10, 7000);
        stat(12, "sh", 10, 8000);
        stat(13, "puma", 10, 0);
        stat(14, "puma", 99, 7000);
        let forked = [1, 10, 11, 12, 13, 14, 15].map(|pid| is_forked(folder.path(), pid));
        let unknown = None;
        assert_eq!(
            forked,
            [Some(false), unknown, Some(true), Some(false), unknown, unknown, unknown]
        );
    }

    #[test]
    fn a_stack_is_found_by_its_pointer_and_by_its_thread_block() {
        let mut memory = FakeMemory::default();
        for start in [0x10_0000, 0x20_0000, 0x30_0000_u64] {
            memory.map_anonymous(start, start + 0x1_0000);
            memory.write_word(start + 0xf000, 7);
        }
        let head = 0x20_f620;
        memory.write(head - 16, &43_u32.to_le_bytes());
        memory.write_word(head - 8, head);
        memory.write_word(head, head);
        // Of threads that have ended, one while the list was read, and in the midst of other memory.
        for start in [0x40_0000, 0x50_0000, 0x60_0000] {
            memory.map_anonymous(start, start + 0x1_0000);
        }
        memory.write(0x60_f610, &44_u32.to_le_bytes());
        for head in [0x40_f620, 0x50_0620, 0x60_f620] {
            memory.write_word(head - 8, head);
            memory.write_word(head, head);
        }
        // A list of another kind, whose head comes first, behind a number of a thread.
        memory.write(0x30_f610, &42_u32.to_le_bytes());
        memory.write_word(0x30_f620, 0x30_f620);
        memory.write_word(0x30_f628, 0x30_f620);
        let threads = [thread(42, Some(0x10_f000)), thread(43, None)];
        let found = ThreadRegions::find(&memory, &threads, &|_| true);
        let regions = memory.regions();
        assert_eq!(found.thread_of(&regions[0]), Some(0));
        assert_eq!(found.live_from(&regions[0]), 0x10_f000 - 128);
        assert_eq!(found.thread_of(&regions[1]), Some(1));
        assert_eq!(found.live_from(&regions[1]), 0x20_0000);
        assert_eq!(found.thread_of(&regions[2]), None);
        let ended: Vec<bool> = regions.iter().map(|region| found.has_ended(region)).collect();
        assert_eq!(ended, [false, false, false, true, false, true]);
        let of_another_container = ThreadRegions::find(&memory, &threads[..1], &|_| true);
        assert!(!of_another_container.has_ended(&memory.regions()[5]));
    }
}
