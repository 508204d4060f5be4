//! Which malloc this process uses, and how to make it return what is free.

use carat_ruby::allocator::{self, mallctl};
use carat_ruby::symbol::find;
use carat_wire::page::AllocatorKind;
use std::ffi::{CStr, c_int};
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
