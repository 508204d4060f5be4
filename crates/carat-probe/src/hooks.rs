//! Hooks of the collector. They run in the middle of a collection: no object may be made there, and no
//! function of Ruby but `rb_gc_stat` is called.

use crate::ruby::{self, Hook, Ruby};
use crate::stat::Counts;
use crate::{clock, fault, own_page, reading};
use carat_wire::page::{Feature, Gc, Own, Page, State};
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `RUBY_INTERNAL_EVENT_GC_*` of include/ruby/internal/event.h, the same from 2.7 to 3.4.
const END_SWEEP: c_uint = 0x0100_0000;
const ENTER: c_uint = 0x0200_0000;
const EXIT: c_uint = 0x0400_0000;

/// Number of major collections at the end of the last sweep.
static MAJORS: AtomicU64 = AtomicU64::new(0);
static ENTERED_NS: AtomicU64 = AtomicU64::new(0);
static SEEN_NS: AtomicU64 = AtomicU64::new(0);

/// Switches the hooks on; must be called with Ruby's lock held, after the keys were found.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    MAJORS.store(Counts::read(ruby).get(Gc::Major).unwrap_or(0), Ordering::Relaxed);
    let mut on = enable(ruby, END_SWEEP, on_end_sweep);
    // From 3.1 on Ruby itself measures how long it collects.
    if ruby.version < (3, 1) {
        on &= enable(ruby, ENTER, on_enter) && enable(ruby, EXIT, on_exit);
    }
    page.header.set_feature(Feature::Gc, if on { State::On } else { State::Refused });
}

fn enable(ruby: &Ruby, event: c_uint, hook: Hook) -> bool {
    // SAFETY: the word 0 is `false`, which means every thread; the hook lives as long as the process,
    // and its tracepoint is kept from being collected.
    unsafe {
        let tracepoint = (ruby.tracepoint_new)(0, event, hook, ptr::null_mut());
        if tracepoint == 0 || tracepoint == ruby.nil() {
            return false;
        }
        (ruby.gc_register_mark_object)(tracepoint);
        (ruby.tracepoint_enable)(tracepoint);
    }
    true
}

extern "C" fn on_enter(_: ruby::Value, _: *mut c_void) {
    ENTERED_NS.store(clock::now(), Ordering::Relaxed);
}

extern "C" fn on_exit(_: ruby::Value, _: *mut c_void) {
    let entered = ENTERED_NS.swap(0, Ordering::Relaxed);
    if entered != 0 {
        SEEN_NS.fetch_add(clock::now().saturating_sub(entered), Ordering::Relaxed);
    }
}

extern "C" fn on_end_sweep(_: ruby::Value, _: *mut c_void) {
    fault::guarded(|| {
        let (Some(ruby), Some(page)) = (ruby::get(), own_page::get()) else { return };
        let now = clock::now();
        let counts = Counts::read(ruby);
        let majors = counts.get(Gc::Major);
        let is_major =
            majors.is_some_and(|majors| MAJORS.swap(majors, Ordering::Relaxed) != majors);
        let more = [
            (Gc::LastSweepNs, now),
            (Gc::LastMajorNs, now),
            (Gc::LiveAfterMajor, counts.get(Gc::LiveSlots).unwrap_or(0)),
        ];
        counts.write(page, now, if is_major { &more } else { &more[..1] });
        if ruby.version < (3, 1) {
            page.gc.set(Gc::SeenNs, SEEN_NS.load(Ordering::Relaxed));
        }
        reading::ask_if_wanted(ruby);
        page.own.add(Own::HookCalls, 1);
        page.own.add(Own::HookNs, clock::now().saturating_sub(now));
    });
}
