//! Noticing that Ruby collected.
//!
//! The events of the collector (`RUBY_INTERNAL_EVENT_GC_*`) would say so, but in some versions a hook on any of them
//! makes every allocation take the slow path ([`carat_ruby::version::GC_HOOK_SLOWS_ALLOCATION`]): 5.9 % more
//! instructions per request of a small Rails app. So the probe sets no such hook. It keeps one object whose data Ruby
//! marks in every collection ([`RubyApi::on_mark`]). The mark function requests a job, and the job reads the counts.

use crate::stat::Counts;
use crate::{fault, jobs, own_page};
use carat_ruby::api::{GcInfoKey, loaded};
use carat_ruby::clock::now_ns;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Feature, FeatureState, Gc, Own, Page, UNKNOWN};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of collections, and of major ones, when they were last recorded.
static RECORDED: AtomicU64 = AtomicU64::new(UNKNOWN);
static RECORDED_MAJORS: AtomicU64 = AtomicU64::new(0);
/// The key `:state` and the value `:marking`; unset if this Ruby does not say what the collector is doing.
static STATE: OnceLock<(GcInfoKey, Value)> = OnceLock::new();

/// Creates the object that is marked. Must be called with Ruby's lock held, after the keys were found.
pub(crate) fn start(ruby: &RubyApi, page: &Page) {
    RECORDED_MAJORS.store(Counts::read(ruby).get(Gc::Major).unwrap_or(0), Ordering::Relaxed);
    if let Some(state) = ruby.gc_info_key(c"state") {
        STATE.get_or_init(|| (state, ruby.symbol(c"marking")));
    }
    ruby.on_mark(on_mark);
    page.header.set_feature(Feature::Gc, FeatureState::On);
}

/// Runs in the middle of a collection: no object may be created here. Other walks over the heap call it too; the job
/// then finds that there was no collection.
unsafe extern "C" fn on_mark(_: *mut c_void) {
    fault::guarded(|| {
        let (Some(ruby), Some(page)) = (loaded(), own_page::get()) else { return };
        let before = now_ns();
        jobs::request_counts(ruby);
        page.own.add(Own::HookCalls, 1);
        page.own.add(Own::HookNs, now_ns().saturating_sub(before));
    });
}

/// Whether objects are being marked incrementally, between instructions. Old objects are then counted only in part.
fn is_marking(ruby: &RubyApi) -> bool {
    STATE.get().is_some_and(|(state, marking)| ruby.gc_info(*state) == Some(*marking))
}

/// Records the counts after a collection that is not recorded yet; `false` if it is too early for that. Must be called
/// with Ruby's lock held and not during a collection.
pub(crate) fn record(ruby: &RubyApi, page: &Page) -> bool {
    if is_marking(ruby) {
        return false;
    }
    let now = now_ns();
    let counts = Counts::read(ruby);
    let count = counts.get(Gc::Count).unwrap_or(UNKNOWN);
    if RECORDED.swap(count, Ordering::Relaxed) == count {
        return true;
    }
    let majors = counts.get(Gc::Major);
    let is_major =
        majors.is_some_and(|majors| RECORDED_MAJORS.swap(majors, Ordering::Relaxed) != majors);
    let more = [
        (Gc::LastNotedNs, now),
        (Gc::LastMajorNs, now),
        (Gc::LiveAfterMajor, counts.get(Gc::LiveSlots).unwrap_or(0)),
    ];
    counts.write(page, now, if is_major { &more } else { &more[..1] });
    true
}
