//! The runtime: the library inside Ruby that makes its memory smaller, when a setting asks.
//!
//! Two halves. The Ruby half (`src/ruby/`) decides: when a server has booted, when it forks, when it is
//! idle. The native half does what Ruby cannot: find the malloc in use and purge it, trim on a thread
//! outside the GVL, look for a listening socket, fill malloc's holes, call prctl. Nothing is linked
//! against Ruby; its C API is looked up by name, so one file serves every Ruby from 2.7 on.
//!
//! It fails open: whatever does not work costs one line on stderr and leaves the server as it was.

mod kernel;
mod malloc;
mod native;
mod report;
mod seal;
mod trim;

use carat_ruby::guard::silence_panics;
use carat_ruby::{PanicGuard, api};
use std::ffi::CStr;

/// The Ruby half, in the order in which it is evaluated.
const SOURCES: [&str; 8] = [
    concat!(include_str!("ruby/runtime.rb"), "\0"),
    concat!(include_str!("ruby/boot_watch.rb"), "\0"),
    concat!(include_str!("ruby/extensions.rb"), "\0"),
    concat!(include_str!("ruby/filler.rb"), "\0"),
    concat!(include_str!("ruby/preparation.rb"), "\0"),
    concat!(include_str!("ruby/pacer.rb"), "\0"),
    concat!(include_str!("ruby/fork_hook.rb"), "\0"),
    concat!(include_str!("ruby/scrub.rb"), "\0"),
];

/// Called by Ruby when the library is required; the name follows from the file's name.
#[unsafe(no_mangle)]
pub extern "C" fn Init_carat_runtime() {
    silence_panics();
    guarded((), start);
}

fn start() {
    let Some(ruby) = api::load() else {
        return report::warn("this Ruby lacks a function that the runtime needs");
    };
    report::open();
    // SAFETY: the handlers call nothing but system calls, atomics and one mutex of ours.
    unsafe {
        libc::pthread_atfork(Some(trim::before_fork), Some(trim::in_parent), Some(in_child));
    }
    native::define(ruby);
    for source in SOURCES {
        let Ok(source) = CStr::from_bytes_with_nul(source.as_bytes()) else { return };
        if ruby.evaluate(source).is_none() {
            return report::warn("the Ruby half of the runtime cannot be loaded");
        }
    }
    if ruby.evaluate(c"CaratRuntime.start").is_none() {
        report::warn("the runtime cannot be started");
    }
}

extern "C" fn in_child() {
    // Not guarded: it releases the lock that `before_fork` took, also after a panic elsewhere.
    trim::in_child();
    guarded((), report::in_child);
}

static GUARD: PanicGuard =
    PanicGuard::new(|| report::warn("internal error in the runtime; it does nothing from here on"));

/// Runs `work` and returns its result, or `otherwise` after a panic: no panic may reach Ruby.
fn guarded<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    GUARD.run(otherwise, work)
}
