//! Which allocator serves `malloc` in this process.
//!
//! The allocator that was requested is often not the one in use, and glibc's own functions answer plausibly (with zeros)
//! while another allocator serves. So the first question is which loaded object defines `malloc`.

use crate::symbol::{defining_object, find};
use carat_wire::page::AllocatorKind;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Functions that only one allocator defines, beside its `malloc`.
pub const MARKS: [(&CStr, AllocatorKind); 6] = [
    (c"mallctl", AllocatorKind::Jemalloc),
    (c"je_mallctl", AllocatorKind::Jemalloc),
    (c"mi_malloc", AllocatorKind::Mimalloc),
    (c"MallocExtension_GetNumericProperty", AllocatorKind::Tcmalloc),
    (c"tc_version", AllocatorKind::Tcmalloc),
    (c"gnu_get_libc_version", AllocatorKind::Glibc),
];

/// The allocator that serves `malloc`, and the file that it comes from.
pub fn detect() -> (AllocatorKind, &'static [u8]) {
    let Some((base, file)) = defining_object(c"malloc") else {
        return (AllocatorKind::Other, b"");
    };
    let marked = MARKS.iter().find(|(mark, _)| defining_object(mark).is_some_and(|o| o.0 == base));
    let kind = match marked {
        Some((_, kind)) => *kind,
        None if file.windows(7).any(|part| part == b"ld-musl") => AllocatorKind::Musl,
        None => AllocatorKind::Other,
    };
    (kind, file)
}

/// `mallctl` of jemalloc.h, with the same signature since jemalloc 2.
pub type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// jemalloc's control function, under either of its names.
pub fn mallctl() -> Option<Mallctl> {
    // SAFETY: the signature is that of jemalloc.h.
    unsafe { find(c"mallctl").or_else(|| find(c"je_mallctl")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_uses_the_allocator_of_its_c_library() {
        let (kind, file) = detect();
        assert_eq!(kind, AllocatorKind::Glibc);
        assert!(file.windows(4).any(|part| part == b"libc"));
        assert!(mallctl().is_none());
    }
}
