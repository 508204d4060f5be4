//! Which malloc this process uses, and how to make it return what is free.

use carat_ruby::allocator::{self, mallctl};
use carat_ruby::symbol::find;
use carat_wire::page::AllocatorKind;
use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::OnceLock;

static IN_USE: OnceLock<AllocatorKind> = OnceLock::new();

/// The allocator that serves `malloc` in this process.
pub(crate) fn in_use() -> AllocatorKind {
    *IN_USE.get_or_init(|| allocator::detect().0)
}

/// Whether [`purge`] knows how to make this allocator return free memory.
pub(crate) fn can_purge() -> bool {
    !matches!(in_use(), AllocatorKind::Musl | AllocatorKind::Other)
}

/// Makes the allocator return free memory to the kernel; `false` if carat does not know how.
///
/// Safe on any thread and without the GVL; allocates nothing of its own.
pub(crate) fn purge() -> bool {
    match in_use() {
        AllocatorKind::Glibc => {
            // SAFETY: the signature is that of malloc.h.
            let trim: Option<unsafe extern "C" fn(usize) -> c_int> =
                unsafe { find(c"malloc_trim") };
            // SAFETY: malloc_trim takes malloc's own locks.
            trim.inspect(|trim| unsafe { _ = trim(0) }).is_some()
        }
        // `arena.4096` stands for all arenas (MALLCTL_ARENAS_ALL of jemalloc.h).
        AllocatorKind::Jemalloc => control(c"thread.tcache.flush") | control(c"arena.4096.purge"),
        AllocatorKind::Mimalloc => {
            // SAFETY: the signature is that of mimalloc.h.
            let collect: Option<unsafe extern "C" fn(bool)> = unsafe { find(c"mi_collect") };
            // SAFETY: collects this thread's heap and purges what other threads freed.
            collect.inspect(|collect| unsafe { collect(true) }).is_some()
        }
        AllocatorKind::Tcmalloc => {
            // SAFETY: the signature is that of gperftools' malloc_extension_c.h.
            let release: Option<unsafe extern "C" fn()> =
                unsafe { find(c"MallocExtension_ReleaseFreeMemory") };
            // SAFETY: takes tcmalloc's own locks.
            release.inspect(|release| unsafe { release() }).is_some()
        }
        AllocatorKind::Musl | AllocatorKind::Other => false,
    }
}

/// Triggers an action of jemalloc; `false` if it has no such action.
pub(crate) fn control(action: &CStr) -> bool {
    let Some(mallctl) = mallctl() else { return false };
    let none = std::ptr::null_mut();
    // SAFETY: an action takes and returns nothing.
    unsafe { mallctl(action.as_ptr(), none, none.cast(), none, 0) == 0 }
}

/// A new arena of jemalloc; `None` if it cannot have one more.
pub(crate) fn new_arena() -> Option<u32> {
    // SAFETY: `arenas.create` returns an unsigned int.
    unsafe { answer(c"arenas.create") }
}

/// Bytes of the pages of one of jemalloc's arenas that hold at least one block.
pub(crate) fn active_bytes(arena: u32) -> Option<u64> {
    let mut epoch = 1u64;
    let mut size = size_of::<u64>();
    let mallctl = mallctl()?;
    // SAFETY: `epoch` takes and returns a 64-bit number, and renews the figures that follow.
    unsafe {
        mallctl(
            c"epoch".as_ptr(),
            (&raw mut epoch).cast(),
            &raw mut size,
            (&raw mut epoch).cast(),
            size,
        )
    };
    let pages = CString::new(format!("stats.arenas.{arena}.pactive")).ok()?;
    // SAFETY: both are of the type `size_t`.
    let [pages, page]: [usize; 2] = unsafe { [answer(&pages)?, answer(c"arenas.page")?] };
    Some((pages * page) as u64)
}

/// What jemalloc answers to a question.
///
/// # Safety
/// `T` must be the type that jemalloc's manual gives for the name.
unsafe fn answer<T: Default>(name: &CStr) -> Option<T> {
    let mut value = T::default();
    let mut size = size_of::<T>();
    let mallctl = mallctl()?;
    // SAFETY: the caller guarantees that the answer has this type.
    let failed = unsafe {
        mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut size, ptr::null_mut(), 0)
    };
    (failed == 0).then_some(value)
}
