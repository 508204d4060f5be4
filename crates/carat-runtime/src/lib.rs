//! The runtime: the library inside Ruby that applies settings.
//!
//! It has two halves. The Ruby half (`src/ruby/`, one file per setting in `settings/`) decides when to act: when a server
//! has booted, when it forks, when it is idle. The native half does what Ruby cannot: find the malloc in use and purge
//! it, trim on a thread outside the GVL, look for a listening socket, fill malloc's holes, call prctl. Nothing is linked
//! against Ruby; its C API is looked up by name, so one file serves every Ruby from 2.7 on.
//!
//! It fails open: a failure costs one line on stderr and leaves the server as it was.

mod call_caches;
mod calloc;
mod gc_limits;
mod imports;
mod kernel;
mod malloc;
mod native;
mod report;
mod seal;
mod trim;

use carat_ruby::guard::silence_panics;
use carat_ruby::{PanicGuard, api};
use carat_wire::env;
use carat_wire::page::Runtime;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

/// The Ruby half: every file of `src/ruby`, which `build.rs` lists in the order in which it is evaluated.
const SOURCES: &[&str] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Called by Ruby when the library is required; the name follows from the file's name.
#[unsafe(no_mangle)]
pub extern "C" fn Init_carat_runtime() {
    silence_panics();
    guarded((), start);
}

/// The number that a preview of Ruby requires of a library: [`api::abi_version`].
#[unsafe(no_mangle)]
pub extern "C" fn ruby_abi_version() -> u64 {
    api::abi_version()
}

fn start() {
    let Some(ruby) = api::load() else {
        return report::warn("this Ruby lacks a function that the runtime needs");
    };
    report::open();
    report::write(Runtime::Requested, requested_checksum());
    report::write(Runtime::Variables, variables_checksum());
    gc_limits::remember_variables();
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

/// Identifies the request whose settings the bits of the report stand for.
fn requested_checksum() -> u64 {
    env::settings_checksum(std::env::var_os(env::SETTINGS).unwrap_or_default().as_bytes())
}

/// Identifies the variables of the settings that this Ruby was started with.
fn variables_checksum() -> u64 {
    let names = std::env::var(env::VARIABLES).unwrap_or_default();
    env::variables_checksum(&names, |name| {
        std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec)
    })
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
