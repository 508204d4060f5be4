//! Which malloc this process really uses, and how to make it return what is free.
//!
//! glibc's `malloc_trim` can be called under every allocator and answers plausibly, so the owner of
//! `malloc` itself is found first.

use crate::ruby::find;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// An allocator that can be purged; the numbers are those of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Malloc {
    Glibc = 1,
    Jemalloc = 2,
    Mimalloc = 3,
    Tcmalloc = 4,
    /// Nothing is known about it, and nothing is done with it.
    Other = 5,
}

pub(crate) type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

static MALLOC: OnceLock<Malloc> = OnceLock::new();

/// The malloc of this process.
pub(crate) fn in_use() -> Malloc {
    *MALLOC.get_or_init(|| {
        let Some(owner) = object_of(c"malloc") else { return Malloc::Other };
        [
            (c"mallctl", Malloc::Jemalloc),
            (c"mi_collect", Malloc::Mimalloc),
            (c"MallocExtension_ReleaseFreeMemory", Malloc::Tcmalloc),
            (c"malloc_trim", Malloc::Glibc),
        ]
        .into_iter()
        .find(|(mark, _)| object_of(mark) == Some(owner))
        .map_or(Malloc::Other, |(_, malloc)| malloc)
    })
}

/// Where the library that a name resolves to is mapped; `None` where nothing has the name.
fn object_of(name: &CStr) -> Option<usize> {
    // SAFETY: the name is only looked up, never called; dladdr fills a struct of ours.
    unsafe {
        let address: *const c_void = find(name)?;
        let mut object: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut object) != 0).then_some(object.dli_fbase as usize)
    }
}

/// Makes the allocator return free memory to the kernel; `false` where that is unknown here.
///
/// Safe on any thread and without the GVL; allocates nothing of its own.
pub(crate) fn purge() -> bool {
    match in_use() {
        Malloc::Glibc => {
            // SAFETY: the signature is that of malloc.h.
            let trim: Option<unsafe extern "C" fn(usize) -> c_int> =
                unsafe { find(c"malloc_trim") };
            // SAFETY: malloc_trim takes malloc's own locks.
            trim.inspect(|trim| unsafe { _ = trim(0) }).is_some()
        }
        // `arena.4096` is jemalloc's word for all arenas (MALLCTL_ARENAS_ALL).
        Malloc::Jemalloc => control(c"thread.tcache.flush") | control(c"arena.4096.purge"),
        Malloc::Mimalloc => {
            // SAFETY: the signature is that of mimalloc.h.
            let collect: Option<unsafe extern "C" fn(bool)> = unsafe { find(c"mi_collect") };
            // SAFETY: collects this thread's heap and purges what others gave back.
            collect.inspect(|collect| unsafe { collect(true) }).is_some()
        }
        Malloc::Tcmalloc => {
            // SAFETY: the signature is that of gperftools' malloc_extension_c.h.
            let release: Option<unsafe extern "C" fn()> =
                unsafe { find(c"MallocExtension_ReleaseFreeMemory") };
            // SAFETY: takes tcmalloc's own locks.
            release.inspect(|release| unsafe { release() }).is_some()
        }
        Malloc::Other => false,
    }
}

/// Triggers an action of jemalloc; `false` where it has no such action.
pub(crate) fn control(action: &CStr) -> bool {
    // SAFETY: the signature is that of jemalloc.h.
    let Some(mallctl) = (unsafe { find::<Mallctl>(c"mallctl") }) else { return false };
    let none = std::ptr::null_mut();
    // SAFETY: an action takes and returns nothing.
    unsafe { mallctl(action.as_ptr(), none, none.cast(), none, 0) == 0 }
}
