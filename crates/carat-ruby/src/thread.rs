//! Threads of our own inside a Ruby process.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

pub type ThreadFunction = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a detached thread with all signals blocked, because signals are for Ruby's threads; `false` if refused.
///
/// `std::thread` would allocate inside the new thread, and glibc would create an arena for it.
pub fn spawn_detached(run: ThreadFunction, stack_bytes: usize) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes and signal sets are initialised before they are used, and the thread's function needs
    // nothing of this frame. The new thread inherits the mask that is set while it is created.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack_bytes);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let unused = ptr::null_mut();
        let error = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, unused);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        error == 0
    }
}
