//! Readings with Ruby's lock held: in a postponed job, between two instructions of Ruby.
//!
//! Size pools and heap pages can be read in no other way. A job runs as soon as some thread of Ruby runs. If all of them
//! sleep and carat requests figures, [`crate::wake`] wakes one.

use crate::stat::Counts;
use crate::{
    allocations, collections, constants, fault, heap_pages, jobs, own_page, pools, thread, yjit,
};
use carat_ruby::api::loaded;
use carat_ruby::clock::now_ns;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Feature, FeatureState, Gc, Own, Page};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// Prepares jobs and takes a first reading; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &RubyApi, page: &Page) {
    let has_jobs = jobs::register_job(ruby, on_job);
    page.header.set_feature(Feature::PostponedJobs, on_if(has_jobs));
    if constants::get().other_collector {
        for feature in [Feature::HeapPages, Feature::Pools] {
            page.header.set_feature(feature, FeatureState::OtherCollector);
        }
    } else {
        page.header.set_feature(Feature::HeapPages, on_if(ruby.has_heap_page_list()));
        pools::start(ruby, page);
    }
    yjit::start(ruby, page);
    take(ruby, page);
}

fn on_if(has_function: bool) -> FeatureState {
    if has_function { FeatureState::On } else { FeatureState::NoFunction }
}

extern "C" fn on_job(_: *mut c_void) {
    fault::guarded(|| {
        if let (Some(ruby), Some(page)) = (loaded(), own_page::get()) {
            record_collection(ruby, page);
        }
    });
    if jobs::is_reading_requested() {
        take_guarded();
    }
}

fn record_collection(ruby: &RubyApi, page: &Page) {
    if ruby.is_collecting() || !jobs::take_counts_request() {
        return;
    }
    let before = now_ns();
    if !collections::record(ruby, page) {
        jobs::keep_counts_request();
    }
    page.own.add(Own::RubyNs, now_ns().saturating_sub(before));
}

/// The trap that [`crate::wake`] makes Ruby run.
pub(crate) extern "C" fn on_trap(_: Value, _: Value, _: c_int, _: *const Value, _: Value) -> Value {
    take_guarded();
    loaded().map_or(0, RubyApi::nil)
}

fn take_guarded() {
    fault::guarded(|| {
        if let (Some(ruby), Some(page)) = (loaded(), own_page::get()) {
            jobs::set_reading_requested(false);
            take(ruby, page);
        }
    });
}

fn take(ruby: &RubyApi, page: &Page) {
    if ruby.is_collecting() {
        jobs::set_reading_requested(true);
        return;
    }
    let before = now_ns();
    let requested = page.header.requested.load(Ordering::Acquire);
    let is_requested = requested != page.header.served_by_ruby.load(Ordering::Relaxed);
    // Listing finishes a collection in progress, which in a fresh child would write into shared pages. So a child does
    // it only on request.
    let knows_heap = !constants::get().other_collector;
    let lists_pages = knows_heap && (jobs::take_heap_pages_request() || is_requested);
    if lists_pages {
        heap_pages::list(ruby, page);
    }
    if knows_heap {
        pools::read(ruby, page);
    }
    if is_requested {
        yjit::read(ruby, page);
    }
    // After the walk over the pages, which finishes a collection in progress.
    let counts = Counts::read(ruby);
    counts.write(page, now_ns(), &[]);
    if lists_pages {
        heap_pages::set_listed(counts.get(Gc::HeapPages));
    }
    allocations::follow_request(ruby, page);
    thread::ensure(page);
    page.own.add(Own::RubyReadings, 1);
    page.own.add(Own::RubyNs, now_ns().saturating_sub(before));
    page.header.served_by_ruby.store(requested, Ordering::Release);
}
