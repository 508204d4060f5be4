//! The purpose of each mapping, from its name, its shape and its neighbours.

use crate::observe::Mapping;
use crate::observe::ruby_signs::pieces;
use carat_ruby::code_room::possible_code_rooms;

/// The purpose of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// A program, a library, a file, or the zeroed data after the data of a library.
    File,
    /// The program break: glibc's main arena.
    MainArena,
    /// Another arena of glibc.
    Arena,
    /// Named by the kernel as one large block of malloc.
    LargeBlock,
    /// Stack of a thread or a fiber.
    Stack,
    /// Code compiled at run time.
    Jit,
    /// Named by the kernel as pages of Ruby's heap.
    RubyHeap,
    /// Contents of young arrays, hashes and structs ([`carat_ruby::version::TRANSIENT_HEAP`]).
    TransientHeap,
    /// Memory that is mapped to be shared.
    SharedMemory,
    /// Other anonymous memory.
    Anonymous,
}

/// glibc aligns the heaps of its further arenas to this (malloc/arena.c, `HEAP_MAX_SIZE` on 64 bits).
const ARENA_ALIGNMENT: u64 = 64 << 20;
/// A guard has a few pages; a longer inaccessible range is a reservation.
const LARGEST_GUARD: u64 = 64 << 10;
/// Zeroed data of a library is rarely larger; a larger mapping after one is there by chance.
const LARGEST_ZEROED: u64 = 128 << 10;
/// Size of the transient heap, a single mapping (transient_heap.c, `TRANSIENT_HEAP_TOTAL_SIZE`).
const TRANSIENT_HEAP: u64 = 32 << 20;
/// No thread of a server has a larger stack.
const LARGEST_STACK: u64 = 64 << 20;

/// What is known besides the mappings.
#[derive(Debug, Clone, Copy)]
pub struct RegionHints<'a> {
    /// Stack pointers of threads that wait in the kernel.
    pub stack_pointers: &'a [u64],
    /// Whether glibc's malloc is in use. Only then does the shape of its arenas mean anything.
    pub glibc: bool,
    /// Whether this may be a Ruby with a transient heap.
    pub transient_heap: bool,
}

/// The purpose of every mapping, in the same order.
pub fn classify(mappings: &[Mapping], hints: RegionHints<'_>) -> Vec<Region> {
    let rooms = possible_code_rooms(&pieces(mappings));
    // Pages that a compiler is writing are not executable meanwhile.
    let is_written_code = |one: &Mapping| {
        one.name.is_empty() && rooms.iter().any(|room| room.code.contains(&one.range.start))
    };
    let place = |index: usize| match is_written_code(&mappings[index]) {
        true => Region::Jit,
        false => region(mappings, index, hints),
    };
    (0..mappings.len()).map(place).collect()
}

fn region(mappings: &[Mapping], index: usize, hints: RegionHints<'_>) -> Region {
    let mapping = &mappings[index];
    let before = index.checked_sub(1).map(|before| &mappings[before]);
    // A neighbour across a gap says nothing.
    let before = before.filter(|before| before.range.end == mapping.range.start);
    // Names first: they are facts, and a shape is only likely.
    if let Some(region) = by_name(&mapping.name) {
        return region;
    }
    if mapping.access.execute {
        return Region::Jit;
    }
    if mapping.access.shared {
        return Region::SharedMemory;
    }
    if hints.transient_heap && mapping.access.write && mapping.size() == TRANSIENT_HEAP {
        return Region::TransientHeap;
    }
    if hints.glibc && is_arena(mappings, index) {
        return Region::Arena;
    }
    let guarded = before.is_some_and(|before| {
        before.name.is_empty() && before.is_inaccessible() && before.size() <= LARGEST_GUARD
    });
    let pointed_at = hints.stack_pointers.iter().any(|pointer| mapping.range.contains(pointer));
    if (guarded || pointed_at) && mapping.size() <= LARGEST_STACK {
        // A kernel that does not mark stacks (`nh` in smaps, Linux 6.7) merges the transient heap with a fiber's stack
        // that is mapped below it. Nearly all of such a mapping is the heap.
        let joined = hints.transient_heap && mapping.size() > TRANSIENT_HEAP;
        return if joined { Region::TransientHeap } else { Region::Stack };
    }
    // The zeroed data of a library follows its initialised data without a gap and has no name.
    let behind_data = before.is_some_and(|b| b.name.starts_with('/') && b.access.write);
    if behind_data && mapping.size() <= LARGEST_ZEROED {
        return Region::File;
    }
    Region::Anonymous
}

fn by_name(name: &str) -> Option<Region> {
    if name.is_empty() {
        return None;
    }
    // A label that is not known leaves the decision to the shape.
    if let Some(label) = name.strip_prefix("[anon:") {
        return by_label(label.trim_end_matches(']').trim());
    }
    Some(match name {
        "[heap]" => Region::MainArena,
        _ if name.starts_with("[stack") => Region::Stack,
        // The kernel names shared memory as if it had a file (mm/shmem.c, ipc/shm.c).
        _ if ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/"]
            .iter()
            .any(|prefix| name.starts_with(prefix)) =>
        {
            Region::SharedMemory
        }
        _ => Region::File,
    })
}

/// Names that Ruby ([`carat_ruby::version::NAMED_MAPPINGS`]) and glibc 2.39 give their mappings if the kernel allows it.
fn by_label(label: &str) -> Option<Region> {
    if label.starts_with("Ruby:GC") {
        Some(Region::RubyHeap)
    } else if label.starts_with("Ruby:rb_yjit") || label.starts_with("Ruby:rb_jit") {
        Some(Region::Jit)
    } else if label.starts_with("Ruby:fiber") || label.starts_with("glibc: pthread stack") {
        Some(Region::Stack)
    } else if label.starts_with("glibc: malloc arena") {
        Some(Region::Arena)
    } else if label.starts_with("glibc: malloc") {
        Some(Region::LargeBlock)
    } else {
        None
    }
}

/// A heap of an arena begins at a multiple of its size. It is writable up to its end, or up to where its reservation
/// begins. Memory added after a fork is a separate mapping after the inherited part.
fn is_arena(mappings: &[Mapping], index: usize) -> bool {
    let from = mappings[index].range.start / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    let end = from + ARENA_ALIGNMENT;
    // `maps` has mappings in the order of addresses.
    let first = mappings.partition_point(|mapping| mapping.range.start < from);
    let mut reached = from;
    let mut rest = mappings[first..].iter().peekable();
    while let Some(next) = rest
        .next_if(|next| is_written(next) && next.range.end <= end && next.range.start == reached)
    {
        reached = next.range.end;
    }
    let reserve = rest.next().filter(|next| next.is_inaccessible() && next.range.start == reached);
    let whole =
        reached == end || reserve.is_some_and(|reserve| reserve.range.end % ARENA_ALIGNMENT == 0);
    whole && mappings[index].range.end <= reached
}

fn is_written(mapping: &Mapping) -> bool {
    mapping.access.write && mapping.name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::parse_mappings;

    const MAPS: &[u8] = b"55a000000000-55a000100000 rw-p 0 00:00 0 [heap]\n\
        7f0000000000-7f0000200000 rw-p 0 00:00 0 \n\
        7f0000200000-7f0004000000 ---p 0 00:00 0 \n\
        7f0010000000-7f0010001000 ---p 0 00:00 0 \n\
        7f0010001000-7f0010101000 rw-p 0 00:00 0 \n\
        7f0020000000-7f0020100000 rw-p 0 00:00 0 \n\
        7f0030000000-7f0030100000 r-xp 0 00:00 0 \n\
        7f0030200000-7f0030300000 rw-p 0 fe:00 5 /usr/lib/libruby.so\n\
        7f0030300000-7f0030310000 rw-p 0 00:00 0 \n\
        7f0030380000-7f0030390000 rw-p 0 fe:00 6 /usr/lib/zlib.so\n\
        7f0030390000-7f00303f0000 rw-p 0 00:00 0 \n\
        7f0030400000-7f0030500000 rw-s 0 00:01 9 /memfd:carat (deleted)\n\
        7f0030600000-7f0030700000 rw-p 0 00:00 0 [anon:Ruby:GC:default:heap_page_body_allocate]\n\
        7f0030800000-7f0030900000 rw-p 0 00:00 0 [anon: glibc: malloc arena]\n\
        7f0040000000-7f0040100000 rw-p 0 00:00 0 \n\
        7f0050008000-7f0052008000 rw-p 0 00:00 0 \n\
        7ffc00000000-7ffc00100000 rw-p 0 00:00 0 [stack]\n";

    #[test]
    fn every_mapping_is_classified_by_its_name_shape_or_neighbours() {
        let mappings = parse_mappings(MAPS);
        let pointer = [0x7f00_4008_0000];
        let hints = RegionHints { stack_pointers: &pointer, glibc: true, transient_heap: true };
        let expected = [
            Region::MainArena,
            Region::Arena,
            Region::Anonymous,
            Region::Anonymous,
            Region::Stack,
            Region::Anonymous,
            Region::Jit,
            Region::File,
            Region::File,
            Region::File,
            Region::Anonymous,
            Region::SharedMemory,
            Region::RubyHeap,
            Region::Arena,
            Region::Stack,
            Region::TransientHeap,
            Region::Stack,
        ];
        for ((mapping, region), expected) in
            mappings.iter().zip(classify(&mappings, hints)).zip(expected)
        {
            assert_eq!(region, expected, "{mapping:?}");
        }
    }

    #[test]
    fn pages_that_a_compiler_writes_are_code_and_a_stack_beside_them_is_not() {
        let mappings = parse_mappings(
            b"7fafec908000-7fafecc14000 r-xp 0 00:00 0 \n\
              7fafecc14000-7fafecc15000 rw-p 0 00:00 0 \n\
              7fafecc15000-7fafecc16000 r-xp 0 00:00 0 \n\
              7fafecc16000-7fafecc17000 rw-p 0 00:00 0 \n\
              7fafecc17000-7fafef908000 ---p 0 00:00 0 \n\
              7fafef908000-7fafef988000 rw-p 0 00:00 0 \n",
        );
        let hints = RegionHints { stack_pointers: &[], glibc: true, transient_heap: false };
        let found = classify(&mappings, hints);
        assert_eq!(found[..4], [Region::Jit; 4]);
        assert_ne!(found[5], Region::Jit);
    }

    #[test]
    fn all_pieces_of_an_arena_that_grew_after_a_fork_are_arenas() {
        let mappings = parse_mappings(
            b"7fe3b0000000-7fe3b0021000 rw-p 0 00:00 0 \n\
              7fe3b0021000-7fe3b08b2000 rw-p 0 00:00 0 \n\
              7fe3b08b2000-7fe3b4000000 ---p 0 00:00 0 \n\
              7fe3b4420000-7fe3b4600000 rw-p 0 00:00 0 \n\
              7fe3b8000000-7fe3b8100000 rw-p 0 00:00 0 \n\
              7fe3b8200000-7fe3bc000000 rw-p 0 00:00 0 \n",
        );
        let hints = RegionHints { stack_pointers: &[], glibc: true, transient_heap: false };
        let (arena, other) = (Region::Arena, Region::Anonymous);
        assert_eq!(classify(&mappings, hints), [arena, arena, other, other, other, other]);
    }

    #[test]
    fn a_transient_heap_merged_with_the_fiber_stack_below_it_is_not_a_stack() {
        let mappings = parse_mappings(
            b"7fc45a1e4000-7fc45a1e5000 ---p 0 00:00 0 \n\
              7fc45a1e5000-7fc45a286000 rw-p 0 00:00 0 \n\
              7fc45a286000-7fc45a287000 ---p 0 00:00 0 \n\
              7fc45a287000-7fc45c328000 rw-p 0 00:00 0 \n",
        );
        let hints = RegionHints { stack_pointers: &[], glibc: true, transient_heap: true };
        let (guard, stack) = (Region::Anonymous, Region::Stack);
        assert_eq!(classify(&mappings, hints), [guard, stack, guard, Region::TransientHeap]);
        let later = RegionHints { transient_heap: false, ..hints };
        assert_eq!(classify(&mappings, later), [guard, stack, guard, stack]);
    }

    #[test]
    fn the_shape_of_an_arena_counts_only_if_glibcs_malloc_is_in_use() {
        let mappings = parse_mappings(MAPS);
        let hints = RegionHints { stack_pointers: &[], glibc: false, transient_heap: false };
        assert_eq!(classify(&mappings, hints)[1], Region::Anonymous);
    }
}
