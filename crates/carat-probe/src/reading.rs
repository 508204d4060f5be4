//! Readings with Ruby's lock held: in a postponed job, between two instructions of Ruby.
//!
//! Size pools and heap pages cannot be had otherwise. A job runs as soon as some thread of Ruby runs; when
//! all of them sleep and carat wants to know, [`crate::wake`] wakes one.

use crate::ruby::{self, Ruby};
use crate::stat::Counts;
use crate::{clock, fault, heap_pages, hooks, own_page, pools, thread, yjit};
use carat_wire::page::{Feature, Gc, Own, Page, State, UNKNOWN};
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Handle of the preregistered job (Ruby 3.3 on).
static HANDLE: AtomicU32 = AtomicU32::new(c_uint::MAX);
/// A reading was asked for and has not begun.
static WANTED: AtomicBool = AtomicBool::new(false);
/// The counts were asked for and have not been read.
static COUNTS_WANTED: AtomicBool = AtomicBool::new(false);
/// The next reading lists the heap pages.
static LIST_WANTED: AtomicBool = AtomicBool::new(true);
/// `GC.stat[:heap_allocated_pages]` when the heap pages were last listed.
static LISTED_AT: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Prepares jobs and takes a first reading; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    if let (Some(preregister), Some(_)) = (ruby.preregister, ruby.trigger) {
        // SAFETY: the job is a function that lives as long as the process.
        HANDLE.store(unsafe { preregister(0, on_job, ptr::null_mut()) }, Ordering::Relaxed);
    }
    let jobs = HANDLE.load(Ordering::Relaxed) != c_uint::MAX || ruby.register_one.is_some();
    let on = |there: bool, otherwise| if there { State::On } else { otherwise };
    page.header.set_feature(Feature::PostponedJobs, on(jobs, State::NoFunction));
    page.header.set_feature(Feature::HeapPages, on(ruby.each_objects.is_some(), State::NoFunction));
    pools::start(ruby, page);
    yjit::start(ruby, page);
    take(ruby, page);
}

/// Asks for a reading with a list of the heap pages soon; may be called, while the interpreter lives, from
/// any thread.
pub(crate) fn ask_for_all(ruby: &Ruby) {
    LIST_WANTED.store(true, Ordering::Relaxed);
    ask(ruby);
}

/// Asks for the counts soon; may be called where [`ask`] may.
pub(crate) fn ask_for_counts(ruby: &Ruby) {
    COUNTS_WANTED.store(true, Ordering::Relaxed);
    ask_for_job(ruby);
}

/// Asks for a reading soon; may be called while objects are marked, in a forked child before `fork` returns, and,
/// while the interpreter lives, from any thread.
pub(crate) fn ask(ruby: &Ruby) {
    WANTED.store(true, Ordering::Relaxed);
    ask_for_job(ruby);
}

fn ask_for_job(ruby: &Ruby) {
    let handle = HANDLE.load(Ordering::Relaxed);
    match (ruby.trigger, ruby.register_one) {
        // SAFETY: the handle is that of a preregistered job; triggering is safe even in a signal handler.
        (Some(trigger), _) if handle != c_uint::MAX => unsafe { trigger(handle) },
        (_, Some(register)) => {
            // SAFETY: as above; registering the same job twice counts once.
            unsafe { register(0, on_job, ptr::null_mut()) };
        }
        _ => {}
    }
}

/// Asks again where what was asked for has not been read: it was too early, or Ruby before 3.3 forgot it over a fork.
pub(crate) fn ask_if_wanted(ruby: &Ruby) {
    if WANTED.load(Ordering::Relaxed) || COUNTS_WANTED.load(Ordering::Relaxed) {
        ask_for_job(ruby);
    }
}

/// Whether Ruby has other heap pages now than when they were listed.
pub(crate) fn list_is_stale(page: &Page) -> bool {
    page.gc.get(Gc::HeapPages).is_some_and(|now| now != LISTED_AT.load(Ordering::Relaxed))
}

extern "C" fn on_job(_: *mut c_void) {
    fault::guarded(|| {
        if let (Some(ruby), Some(page)) = (ruby::get(), own_page::get()) {
            note_collection(ruby, page);
        }
    });
    if WANTED.load(Ordering::Relaxed) {
        take_guarded();
    }
}

fn note_collection(ruby: &Ruby, page: &Page) {
    if ruby.is_collecting() || !COUNTS_WANTED.swap(false, Ordering::Relaxed) {
        return;
    }
    let before = clock::now();
    let noted = hooks::note(ruby, page);
    COUNTS_WANTED.fetch_or(!noted, Ordering::Relaxed);
    page.own.add(Own::RubyNs, clock::now().saturating_sub(before));
}

/// Takes a reading; must be called with Ruby's lock held.
pub(crate) fn take_guarded() {
    fault::guarded(|| {
        if let (Some(ruby), Some(page)) = (ruby::get(), own_page::get()) {
            WANTED.store(false, Ordering::Relaxed);
            take(ruby, page);
        }
    });
}

fn take(ruby: &Ruby, page: &Page) {
    if ruby.is_collecting() {
        WANTED.store(true, Ordering::Relaxed);
        return;
    }
    let before = clock::now();
    let requested = page.header.requested.load(Ordering::Acquire);
    // Finishes a collection that is under way, which in a fresh child would write into shared pages: so
    // not there unless asked for.
    let asked = requested != page.header.served_by_ruby.load(Ordering::Relaxed);
    let list = LIST_WANTED.swap(false, Ordering::Relaxed) || asked;
    if list {
        heap_pages::list(ruby, page);
    }
    pools::read(ruby, page);
    if asked {
        yjit::read(ruby, page);
    }
    // After the walk over the pages, which finishes a collection that is under way.
    let counts = Counts::read(ruby);
    counts.write(page, clock::now(), &[]);
    if list {
        LISTED_AT.store(counts.get(Gc::HeapPages).unwrap_or(UNKNOWN), Ordering::Relaxed);
    }
    thread::ensure(page);
    page.own.add(Own::RubyReadings, 1);
    page.own.add(Own::RubyNs, clock::now().saturating_sub(before));
    page.header.served_by_ruby.store(requested, Ordering::Release);
}
