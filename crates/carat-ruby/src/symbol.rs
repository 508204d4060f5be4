//! Functions and data of the process, looked up by name.

use std::ffi::{CStr, c_void};

/// The symbol of that name among everything loaded into this process, whether libruby is shared or part of the program;
/// `None` if there is none.
///
/// # Safety
/// `T` must be a pointer type that fits what the name stands for.
pub unsafe fn find<T: Copy>(name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: the name ends with NUL, and `dlsym` only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller guarantees that `T` fits; its size was checked above.
    (!symbol.is_null()).then(|| unsafe { std::mem::transmute_copy(&symbol) })
}

/// Where the loaded object that defines a symbol begins, and the file that it comes from.
pub fn defining_object(name: &CStr) -> Option<(usize, &'static [u8])> {
    // SAFETY: all zeros is a valid `Dl_info`. `dladdr` fills it for an address that was just found. The file name stays
    // valid as long as the object is loaded, and neither an allocator nor libruby is ever unloaded.
    unsafe {
        let address = find::<*const c_void>(name)?;
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some((info.dli_fbase as usize, CStr::from_ptr(info.dli_fname).to_bytes()))
    }
}
