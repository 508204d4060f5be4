//! Until the first fork: what Ruby allocates with calloc comes from an arena of jemalloc of its own.
//!
//! A full GC writes to the bitmaps of heap pages, and that of Ruby 3.3 to call sites without a cache
//! ([`carat_ruby::version::REWRITES_EMPTY_CALL_CACHES`]), which copies the pages in a forked child. Both are blocks from calloc.
//! Among all other blocks they are on nearly every page of malloc; in an arena of their own they are on few.

use crate::imports::Import;
use crate::malloc;
use carat_ruby::symbol::find;
use carat_wire::page::AllocatorKind;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `mallocx` of jemalloc.h.
type Allocate = unsafe extern "C" fn(usize, c_int) -> *mut c_void;

/// `MALLOCX_ZERO` of jemalloc.h.
const ZERO: c_int = 0x40;
/// `MALLOCX_TCACHE_NONE` of jemalloc.h: a cache of a thread holds blocks of its own arena.
const NO_CACHE: c_int = 1 << 8;

/// Where calloc goes meanwhile.
struct Separate {
    allocate: Allocate,
    arena: u32,
    /// Flags for `allocate`.
    flags: c_int,
    import: Import,
    /// Where Ruby's calls went before; null when they go there again.
    before: AtomicPtr<c_void>,
}

static SEPARATE: OnceLock<Separate> = OnceLock::new();

/// Why calls of calloc cannot be redirected.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hindrance {
    /// malloc is not jemalloc.
    OtherMalloc,
    /// Ruby calls no calloc through its table, or the kernel does not allow to change the table.
    Fixed,
}

/// Redirects Ruby's own calls of calloc into a new arena.
pub(crate) fn separate() -> Result<(), Hindrance> {
    let (allocate, arena) = jemalloc().ok_or(Hindrance::OtherMalloc)?;
    let import = ruby_import().ok_or(Hindrance::Fixed)?;
    // `MALLOCX_ARENA` of jemalloc.h.
    let flags = (arena as c_int + 1) << 20 | ZERO | NO_CACHE;
    let before = AtomicPtr::new(ptr::null_mut());
    let separate = SEPARATE.get_or_init(|| Separate { allocate, arena, flags, import, before });
    // SAFETY: `calloc` has the signature of calloc, and `join` replaces nothing before the store below.
    let before = unsafe { separate.import.replace(calloc as *mut c_void) };
    separate.before.store(before.ok_or(Hindrance::Fixed)?, Ordering::Relaxed);
    Ok(())
}

/// Lets the calls go where they went before; the bytes in use of the arena, or `None` if they went there already.
pub(crate) fn join() -> Option<u64> {
    let separate = SEPARATE.get()?;
    let before = separate.before.swap(ptr::null_mut(), Ordering::Relaxed);
    if before.is_null() {
        return None;
    }
    // SAFETY: the address was in the entry before, and only one caller gets it from the swap.
    unsafe { separate.import.replace(before) };
    malloc::active_bytes(separate.arena)
}

fn jemalloc() -> Option<(Allocate, u32)> {
    if malloc::in_use() != AllocatorKind::Jemalloc {
        return None;
    }
    // SAFETY: the signature is that of jemalloc.h.
    let allocate = unsafe { find(c"mallocx").or_else(|| find(c"je_mallocx")) }?;
    Some((allocate, malloc::new_arena()?))
}

fn ruby_import() -> Option<Import> {
    // SAFETY: only the address is used, of a function that every Ruby has (ruby/internal/gc.h).
    let inside = unsafe { find::<*const c_void>(c"rb_gc_start") }?;
    Import::find(inside, c"calloc")
}

/// calloc(3) with blocks from the separate arena. It may still run in another thread after [`join`].
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    if let (Some(separate), Some(bytes)) = (SEPARATE.get(), count.checked_mul(size)) {
        // SAFETY: mallocx requires at least one byte.
        let block = unsafe { (separate.allocate)(bytes.max(1), separate.flags) };
        if !block.is_null() {
            return block;
        }
    }
    // SAFETY: the arguments are those of the caller.
    unsafe { libc::calloc(count, size) }
}
