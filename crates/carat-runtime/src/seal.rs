//! Keeps children from writing to pages that they share with their parent.
//!
//! Under glibc the small holes of the heap are filled before the fork, so that new blocks are placed elsewhere. Only holes
//! that share a page with live blocks matter: a larger one contains whole free pages, which a trim has returned and which
//! are not shared. Under jemalloc and mimalloc a child gets its own arena or heap instead.

use crate::malloc;
use carat_ruby::allocator::mallctl;
use carat_ruby::symbol::find;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::AllocatorKind;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// A hole of this size contains at least one whole page.
const SMALL: usize = 8 * 1024;

/// Below glibc's smallest mmap threshold: freeing a mapped block would raise the threshold permanently.
const LARGE: usize = 112 * 1024;

/// The smallest block that glibc allocates on a 64-bit machine.
const LEAST: usize = 24;

const NO_ARENA: u32 = u32::MAX;
static ARENA: AtomicU32 = AtomicU32::new(NO_ARENA);

/// The part of glibc's main heap in which a new block has filled a hole.
struct HeapRange {
    from: usize,
    to: usize,
}

impl HeapRange {
    fn contains(&self, block: *mut c_void) -> bool {
        (self.from..self.to).contains(&(block as usize))
    }
}

/// Fills the small holes of glibc's main heap permanently; returns the bytes of the blocks.
pub(crate) fn fill_holes() -> u64 {
    if malloc::in_use() != AllocatorKind::Glibc {
        return 0;
    }
    let Some(heap) = heap_below_top() else { return 0 };
    let left_open = occupy(&heap, (SMALL..=LARGE).rev().step_by(512), FillerBlocks::Linked);
    let filled = occupy(&heap, (LEAST..SMALL).rev().step_by(16), FillerBlocks::Permanent);
    let mut next = left_open.first;
    while !next.is_null() {
        // SAFETY: each block was linked by `occupy` through its own first word and is freed once.
        unsafe {
            let block = next;
            next = *block.cast::<*mut c_void>();
            libc::free(block);
        }
    }
    filled.bytes
}

/// The main heap without its top, the free part at its end.
fn heap_below_top() -> Option<HeapRange> {
    // SAFETY: sbrk(0) changes nothing.
    let end = unsafe { libc::sbrk(0) } as usize;
    Some(HeapRange { from: end.saturating_sub(1 << 40), to: end.checked_sub(top_size()?)? })
}

/// Size of the top of the main heap (`keepcost` of mallinfo(3)).
fn top_size() -> Option<usize> {
    /// `struct mallinfo2` of malloc.h, glibc 2.33.
    #[repr(C)]
    struct Mallinfo2([usize; 10]);
    /// `struct mallinfo` of malloc.h, for older versions.
    #[repr(C)]
    struct Mallinfo([c_int; 10]);
    // SAFETY: the signatures are those of malloc.h; both functions change nothing.
    unsafe {
        if let Some(mallinfo2) = find::<unsafe extern "C" fn() -> Mallinfo2>(c"mallinfo2") {
            return Some(mallinfo2().0[9]);
        }
        let mallinfo: unsafe extern "C" fn() -> Mallinfo = find(c"mallinfo")?;
        usize::try_from(mallinfo().0[9]).ok()
    }
}

/// What happens to the blocks that fill holes.
#[derive(Clone, Copy, PartialEq)]
enum FillerBlocks {
    /// They are freed later, so each begins with the address of the previous one.
    Linked,
    /// They are never freed.
    Permanent,
}

struct FilledHoles {
    /// The last block that was linked, or null.
    first: *mut c_void,
    bytes: u64,
}

/// Allocates every hole of each size, the largest first.
fn occupy(
    heap: &HeapRange,
    sizes: impl Iterator<Item = usize>,
    blocks: FillerBlocks,
) -> FilledHoles {
    let mut occupied = FilledHoles { first: std::ptr::null_mut(), bytes: 0 };
    for size in sizes {
        loop {
            // SAFETY: if malloc fails, the loop ends below.
            let block = unsafe { libc::malloc(size) };
            if !heap.contains(block) {
                // SAFETY: the block is from malloc above, or null.
                unsafe { libc::free(block) };
                break;
            }
            occupied.bytes += size as u64;
            if blocks == FillerBlocks::Linked {
                // SAFETY: a block of at least 8 KiB has room for an address.
                unsafe { *block.cast::<*mut c_void>() = occupied.first };
                occupied.first = block;
            }
        }
    }
    occupied
}

/// In a child: allocates from a new arena or heap from now on; `false` if the allocator has no such function.
pub(crate) fn leave_shared_arena() -> bool {
    match malloc::in_use() {
        AllocatorKind::Jemalloc => malloc::new_arena().is_some_and(|arena| {
            ARENA.store(arena, Ordering::Relaxed);
            bind(arena)
        }),
        AllocatorKind::Mimalloc => new_heap(),
        _ => false,
    }
}

/// Makes threads that start in a child use the child's arena too.
pub(crate) fn bind_new_threads(ruby: &RubyApi) {
    if malloc::in_use() == AllocatorKind::Jemalloc {
        ruby.on_thread_begin(thread_began);
    }
}

unsafe extern "C" fn thread_began(_: u32, _: Value, _: Value, _: usize, _: Value) {
    let arena = ARENA.load(Ordering::Relaxed);
    if arena != NO_ARENA {
        bind(arena);
    }
}

/// Makes this thread allocate from `arena`, and flushes its cache of blocks from the old one.
fn bind(arena: u32) -> bool {
    let mut arena = arena;
    // SAFETY: the signature is that of jemalloc.h; `thread.arena` takes an unsigned int.
    let bound = unsafe {
        mallctl().is_some_and(|mallctl| {
            let none = std::ptr::null_mut();
            let value = (&raw mut arena).cast();
            mallctl(c"thread.arena".as_ptr(), none, none.cast(), value, size_of::<u32>()) == 0
        })
    };
    bound && malloc::control(c"thread.tcache.flush")
}

fn new_heap() -> bool {
    type New = unsafe extern "C" fn() -> *mut c_void;
    type SetDefault = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: the signatures are those of mimalloc.h, version 2.
    unsafe {
        let (Some(new), Some(set)) =
            (find::<New>(c"mi_heap_new"), find::<SetDefault>(c"mi_heap_set_default"))
        else {
            return false;
        };
        let heap = new();
        !heap.is_null() && !set(heap).is_null()
    }
}
