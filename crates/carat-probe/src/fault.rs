//! Faults stay inside: no panic crosses into C, and every message is one line on stderr.

use crate::own_page;
use carat_ruby::PanicGuard;
use carat_ruby::stderr::write_line;
use carat_wire::page::{Feature, FeatureState};

static GUARD: PanicGuard = PanicGuard::new(|| {
    if let Some(page) = own_page::get() {
        page.header.set_feature(Feature::Ruby, FeatureState::Fault);
    }
    warn("switched off", "internal error in the probe; please report it");
});

/// Runs `body` unless the probe panicked before; a panic in it switches the probe off and does nothing else.
pub(crate) fn guarded(body: impl FnOnce()) {
    GUARD.run((), body);
}

/// Writes one line to stderr, without an allocation.
pub(crate) fn warn(what: &str, why: &str) {
    write_line(&["probe: ", what, ": ", why]);
}
