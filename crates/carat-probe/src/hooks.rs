//! Learning that Ruby collected.
//!
//! Events of the collector (`RUBY_INTERNAL_EVENT_GC_*`) would say so, but up to Ruby 3.3 a hook on any of them sends
//! every allocation of an object the slow way (`gc_event_hook_available_p` in gc.c): 5.9 % more instructions per request
//! of a small Rails app. So there is one object whose data is marked by a function of ours: Ruby has no write barrier for
//! it, and therefore marks it in every collection, minor ones included. That function asks for a job, and the job reads
//! the counts.

use crate::ruby::{self, Ruby, Value};
use crate::stat::Counts;
use crate::{clock, fault, own_page, reading};
use carat_wire::page::{Feature, Gc, Own, Page, State, UNKNOWN};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of collections, and of major ones, when they were last noted.
static NOTED: AtomicU64 = AtomicU64::new(UNKNOWN);
static MAJORS: AtomicU64 = AtomicU64::new(0);
/// The symbols `:state` and `:marking`; 0 where this Ruby does not say what the collector is doing.
static STATE: AtomicUsize = AtomicUsize::new(0);
static MARKING: AtomicUsize = AtomicUsize::new(0);

/// Ruby calls the function only where there is data.
static DATA: u8 = 0;

/// Makes the object that is marked; must be called with Ruby's lock held, after the keys were found.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    MAJORS.store(Counts::read(ruby).get(Gc::Major).unwrap_or(0), Ordering::Relaxed);
    let (state, marking) = (ruby.symbol(c"state"), ruby.symbol(c"marking"));
    // The first call makes the symbols of the keys, which a collection must not.
    if ruby.latest(state).is_some() {
        MARKING.store(marking, Ordering::Relaxed);
        STATE.store(state, Ordering::Relaxed);
    }
    let data = ptr::from_ref(&DATA).cast_mut().cast::<c_void>();
    // SAFETY: the function lives as long as the process, the data is a static that nobody writes or frees, and the
    // object is registered before anything else can collect it.
    unsafe {
        let object = (ruby.data_object_wrap)(0, data, on_mark, None);
        (ruby.gc_register_mark_object)(object);
    }
    page.header.set_feature(Feature::Gc, State::On);
}

/// Runs in the middle of a collection: no object may be made here. Other walks over the heap come here too; the job
/// finds out that there was no collection.
extern "C" fn on_mark(_: *mut c_void) {
    fault::guarded(|| {
        let (Some(ruby), Some(page)) = (ruby::get(), own_page::get()) else { return };
        let before = clock::now();
        reading::ask_for_counts(ruby);
        page.own.add(Own::HookCalls, 1);
        page.own.add(Own::HookNs, clock::now().saturating_sub(before));
    });
}

/// Whether objects are being marked, step by step between instructions: then old objects are half counted.
fn is_marking(ruby: &Ruby) -> bool {
    let state: Value = STATE.load(Ordering::Relaxed);
    // SAFETY: the key is one that this Ruby knows, so nothing is raised and no object is made.
    let now = ruby.latest_gc_info.filter(|_| state != 0).map(|latest| unsafe { latest(state) });
    now == Some(MARKING.load(Ordering::Relaxed))
}

/// Writes the counts after a collection that was not noted yet; `false` where it is too early. Must be called with
/// Ruby's lock held and not during a collection.
pub(crate) fn note(ruby: &Ruby, page: &Page) -> bool {
    if is_marking(ruby) {
        return false;
    }
    let now = clock::now();
    let counts = Counts::read(ruby);
    let count = counts.get(Gc::Count).unwrap_or(UNKNOWN);
    if NOTED.swap(count, Ordering::Relaxed) == count {
        return true;
    }
    let majors = counts.get(Gc::Major);
    let is_major = majors.is_some_and(|majors| MAJORS.swap(majors, Ordering::Relaxed) != majors);
    let more = [
        (Gc::LastNotedNs, now),
        (Gc::LastMajorNs, now),
        (Gc::LiveAfterMajor, counts.get(Gc::LiveSlots).unwrap_or(0)),
    ];
    counts.write(page, now, if is_major { &more } else { &more[..1] });
    true
}
