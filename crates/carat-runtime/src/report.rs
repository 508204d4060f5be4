//! The runtime's report about itself: counters of this process, and a copy in the probe's page.
//!
//! The counters are in private memory, so they work without a probe, and a forked child continues its parent's. Carat
//! reads the copy.

use carat_ruby::stderr::write_line;
use carat_wire::env;
use carat_wire::page::{ENTRY, Page, Runtime, Section, Word};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

// SAFETY: a section is made of atomic integers only, and zero is a value of each.
static OWN: Section<Runtime> = unsafe { std::mem::zeroed() };

/// The probe's page; `None` if no probe is loaded. Its address is valid in forked children too.
static PAGE: OnceLock<Option<&'static Page>> = OnceLock::new();

/// Finds the probe's page. The probe must have been loaded before.
pub(crate) fn open() {
    PAGE.get_or_init(find_page);
}

fn find_page() -> Option<&'static Page> {
    let probe = PathBuf::from(std::env::var_os(env::PROBE)?);
    // The shim of a Ruby that is built for musl loads the file beside it.
    page_of(&probe).or_else(|| page_of(&probe.with_extension("musl.so")))
}

fn page_of(probe: &Path) -> Option<&'static Page> {
    let probe = CString::new(probe.as_os_str().as_bytes()).ok()?;
    // SAFETY: RTLD_NOLOAD only finds a library that is loaded; the function has the signature that `ENTRY` documents, and
    // its page is never unmapped.
    unsafe {
        let library = libc::dlopen(probe.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let entry = libc::dlsym(library, ENTRY.as_ptr());
        if entry.is_null() {
            return None;
        }
        let entry: extern "C" fn() -> *const Page = std::mem::transmute(entry);
        entry().as_ref()
    }
}

/// The value of a word; 0 if it was never written.
pub(crate) fn read(word: Runtime) -> u64 {
    OWN.get(word).unwrap_or(0)
}

/// Replaces the value of a word.
pub(crate) fn write(word: Runtime, value: u64) {
    OWN.set(word, value);
    publish(word);
}

pub(crate) fn add(word: Runtime, amount: u64) {
    OWN.add(word, amount);
    publish(word);
}

/// Raises a word to `value` if that is more.
pub(crate) fn raise(word: Runtime, value: u64) {
    OWN.raise(word, value);
    publish(word);
}

fn publish(word: Runtime) {
    if let Some(page) = PAGE.get().copied().flatten() {
        page.runtime.set(word, read(word));
    }
}

/// In a forked child, whose page is new: publishes what its parent did before. Takes no lock and allocates nothing.
pub(crate) fn in_child() {
    for word in Runtime::ALL {
        if OWN.get(*word).is_some() {
            publish(*word);
        }
    }
}

/// Writes one line about a problem to stderr, without an allocation.
pub(crate) fn warn(problem: &str) {
    write_line(&[problem]);
}
