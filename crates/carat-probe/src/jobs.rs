//! What is requested of Ruby and has not happened yet.
//!
//! A request only sets a flag and asks Ruby for a postponed job; [`crate::reading`] does the work in that job. So a
//! request may come from any place: while objects are marked, from another thread, in a forked child.

use carat_ruby::RubyApi;
use carat_ruby::api::{JobHandle, PostponedJob};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The job and how this Ruby is asked for it; unset if this Ruby has no postponed jobs.
static JOB: OnceLock<(JobHandle, PostponedJob)> = OnceLock::new();
/// A reading is requested and has not begun.
static READING: AtomicBool = AtomicBool::new(false);
/// The counts after a collection are requested and have not been read.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// The next reading lists the heap pages.
static HEAP_PAGES: AtomicBool = AtomicBool::new(true);

/// Registers `job`; `false` if this Ruby has no postponed jobs. Must be called with Ruby's lock held.
pub(crate) fn register_job(ruby: &RubyApi, job: PostponedJob) -> bool {
    ruby.prepare_job(job).is_some_and(|handle| {
        JOB.get_or_init(|| (handle, job));
        true
    })
}

/// Requests a reading soon. Allowed while objects are marked, in a forked child before `fork` returns, and, while the
/// interpreter lives, on any thread.
pub(crate) fn request_reading(ruby: &RubyApi) {
    READING.store(true, Ordering::Relaxed);
    request_job(ruby);
}

/// Requests a reading with a list of the heap pages soon. Allowed where [`request_reading`] is.
pub(crate) fn request_full_reading(ruby: &RubyApi) {
    HEAP_PAGES.store(true, Ordering::Relaxed);
    request_reading(ruby);
}

/// Requests the counts soon. Allowed where [`request_reading`] is.
pub(crate) fn request_counts(ruby: &RubyApi) {
    COUNTS.store(true, Ordering::Relaxed);
    request_job(ruby);
}

/// Repeats a request that was not fulfilled: the job ran too early, or Ruby lost the job over a fork
/// ([`carat_ruby::version::PREREGISTERED_JOBS`]).
pub(crate) fn repeat_requests(ruby: &RubyApi) {
    if is_reading_requested() || COUNTS.load(Ordering::Relaxed) {
        request_job(ruby);
    }
}

fn request_job(ruby: &RubyApi) {
    if let Some((handle, job)) = JOB.get() {
        ruby.request_job(*handle, *job);
    }
}

/// Whether a reading is requested.
pub(crate) fn is_reading_requested() -> bool {
    READING.load(Ordering::Relaxed)
}

/// Says whether a reading is still needed.
pub(crate) fn set_reading_requested(requested: bool) {
    READING.store(requested, Ordering::Relaxed);
}

/// Whether the counts were requested; clears the request.
pub(crate) fn take_counts_request() -> bool {
    COUNTS.swap(false, Ordering::Relaxed)
}

/// Puts the request for counts back, without asking for a job.
pub(crate) fn keep_counts_request() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Whether a list of the heap pages was requested; clears the request.
pub(crate) fn take_heap_pages_request() -> bool {
    HEAP_PAGES.swap(false, Ordering::Relaxed)
}
