//! A forked child gets a page of its own before `fork` returns.
//!
//! `Process.spawn` uses `vfork(2)`, which runs no such handler and needs none, because the child calls `exec`.

use crate::{allocations, fault, jobs, own_page, thread};
use carat_ruby::api::loaded;
use carat_wire::page::{Feature, FeatureState};

/// Registers the handler, once per process family: children inherit it.
pub(crate) fn start() -> FeatureState {
    // SAFETY: the handler lives as long as the process.
    if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } == 0 {
        FeatureState::On
    } else {
        FeatureState::Refused
    }
}

/// Only the forking thread exists here: no allocation, no lock, no function that is not safe in a signal
/// handler (fork(2)).
unsafe extern "C" fn in_child() {
    fault::guarded(|| {
        thread::forget();
        allocations::forget();
        let Some(page) = own_page::get() else { return };
        let has_file = own_page::replace_in_child(page);
        if own_page::get().is_some() {
            page.header.set_feature(
                Feature::Forks,
                if has_file { FeatureState::On } else { FeatureState::Refused },
            );
        }
        if let Some(ruby) = loaded() {
            jobs::request_reading(ruby);
        }
    });
}
