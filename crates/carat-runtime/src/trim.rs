//! Trims malloc after the sweep of a full GC, on a native thread outside the GVL.
//!
//! Only [`TrimMode::InGc`], which exists for comparison, sets a hook on the collector's events. In some versions
//! such a hook makes every allocation take the slow path ([`carat_ruby::version::GC_HOOK_SLOWS_ALLOCATION`]), which costs
//! 5.9 % more instructions per request of a small Rails app. The other modes use a mark function, which posts a semaphore. The
//! thread decides when a trim is due, because a trim walks every free block and holds malloc's locks meanwhile: trims
//! use at most one fiftieth of the time, and after a trim that returns little the interval doubles.

use crate::kernel::resident;
use crate::malloc;
use crate::report;
use carat_ruby::api::{GC_END_SWEEP, StatKey, loaded};
use carat_ruby::{RubyApi, Value, clock, thread};
use carat_wire::page::Runtime;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Limits of the interval between two trims.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

const THREAD_STACK_BYTES: usize = 128 * 1024;

/// The longest wait for the end of a sweep. The next collection shows the end, but in an idle server there is none; there
/// the full GC was called explicitly, and its sweep had ended when the call returned.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an idle trim waits for an idle moment before it is skipped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// An object of the C library that needs a fixed address for the life of the process.
struct StaticCell<T>(UnsafeCell<T>);

// SAFETY: it holds a semaphore or a mutex, which several threads may use.
unsafe impl<T> Sync for StaticCell<T> {}

static REQUESTED: StaticCell<libc::sem_t> =
    // SAFETY: sem_init replaces the zero bytes before the first use.
    StaticCell(UnsafeCell::new(unsafe { std::mem::zeroed() }));
static PURGING: StaticCell<libc::pthread_mutex_t> =
    StaticCell(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// When trims run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TrimMode {
    /// On the thread, immediately.
    AfterFullGc,
    /// On the thread, in an idle moment.
    Idle,
    /// Within every full GC, at the end of its sweep, like the patch of 2019; the server waits for it.
    InGc,
}

static MODE: AtomicU8 = AtomicU8::new(TrimMode::AfterFullGc as u8);
static RUNNING: AtomicBool = AtomicBool::new(false);
static MAJORS_OBSERVED: AtomicUsize = AtomicUsize::new(0);
static MAJORS_SWEPT: AtomicUsize = AtomicUsize::new(0);
static COUNT_OBSERVED: AtomicUsize = AtomicUsize::new(0);
static KEYS: OnceLock<GcCountKeys> = OnceLock::new();

/// The keys of `GC.stat` that count all and full collections.
struct GcCountKeys {
    count: StatKey,
    majors: StatKey,
}

/// Starts trimming after full collections. Only the first call has an effect.
pub(crate) fn start(ruby: &RubyApi, mode: TrimMode) {
    MODE.store(mode as u8, Ordering::Relaxed);
    let (Some(count), Some(majors)) = (ruby.stat_key(c"count"), ruby.stat_key(c"major_gc_count"))
    else {
        return;
    };
    if KEYS.set(GcCountKeys { count, majors }).is_ok() {
        // SAFETY: no thread waits on it yet.
        unsafe { libc::sem_init(REQUESTED.0.get(), 0, 0) };
        report::write(Runtime::TrimIntervalNs, SHORTEST.as_nanos() as u64);
        match mode {
            TrimMode::InGc => ruby.on_internal_event(GC_END_SWEEP, swept),
            TrimMode::AfterFullGc | TrimMode::Idle => ruby.on_mark(marked),
        }
    }
}

fn is_mode(mode: TrimMode) -> bool {
    MODE.load(Ordering::Relaxed) == mode as u8
}

/// Called within a GC, at the end of its sweep.
unsafe extern "C" fn swept(_tracepoint: Value, _data: *mut c_void) {
    crate::guarded((), || {
        let (Some(ruby), Some(keys)) = (loaded(), KEYS.get()) else { return };
        let majors = ruby.stat(keys.majors);
        if MAJORS_OBSERVED.swap(majors, Ordering::Relaxed) != majors {
            trim();
        }
    });
}

/// Called within a GC while it marks, possibly twice. It uses only atomics and a semaphore, except that it starts the
/// thread again after a fork.
unsafe extern "C" fn marked(_data: *mut c_void) {
    crate::guarded((), || {
        let (Some(ruby), Some(keys)) = (loaded(), KEYS.get()) else { return };
        let count = ruby.stat(keys.count);
        if COUNT_OBSERVED.swap(count, Ordering::Relaxed) == count {
            return;
        }
        let majors = ruby.stat(keys.majors);
        let before = MAJORS_OBSERVED.swap(majors, Ordering::Relaxed);
        // A collection begins only after the sweep of the previous one has ended.
        MAJORS_SWEPT.store(before, Ordering::Relaxed);
        if before != majors {
            if !RUNNING.swap(true, Ordering::Relaxed)
                && !thread::spawn_detached(run_trim_thread, THREAD_STACK_BYTES)
            {
                RUNNING.store(false, Ordering::Relaxed);
            }
            // SAFETY: the semaphore was made by `start` or `in_child`.
            unsafe { libc::sem_post(REQUESTED.0.get()) };
        }
    });
}

extern "C" fn run_trim_thread(_nothing: *mut c_void) -> *mut c_void {
    crate::guarded((), || {
        let mut interval = SHORTEST;
        loop {
            wait_for_request();
            wait_for_sweep();
            if is_mode(TrimMode::Idle) && !wait_for_idle() {
                continue;
            }
            interval = next_interval(interval, &trim());
            report::write(Runtime::TrimIntervalNs, interval.as_nanos() as u64);
            clock::sleep(interval);
        }
    });
    std::ptr::null_mut()
}

fn wait_for_request() {
    // SAFETY: the semaphore was made before this thread.
    unsafe {
        while libc::sem_wait(REQUESTED.0.get()) != 0 {}
        while libc::sem_trywait(REQUESTED.0.get()) == 0 {
            report::add(Runtime::TrimsSkipped, 1);
        }
    }
}

/// Waits until the sweep of the last observed full GC has ended.
fn wait_for_sweep() {
    let observed = MAJORS_OBSERVED.load(Ordering::Relaxed);
    let begun = clock::read(libc::CLOCK_MONOTONIC);
    while MAJORS_SWEPT.load(Ordering::Relaxed) < observed
        && clock::read(libc::CLOCK_MONOTONIC).saturating_sub(begun) < SWEEP_TIMEOUT
    {
        clock::sleep(Duration::from_millis(10));
    }
}

/// Waits until the process uses less than a tenth of a core; `false` after [`IDLE_TIMEOUT`].
fn wait_for_idle() -> bool {
    let step = Duration::from_millis(50);
    let begun = clock::read(libc::CLOCK_MONOTONIC);
    while clock::read(libc::CLOCK_MONOTONIC).saturating_sub(begun) < IDLE_TIMEOUT {
        let before = clock::read(libc::CLOCK_PROCESS_CPUTIME_ID);
        clock::sleep(step);
        if clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(before) < step / 10 {
            return true;
        }
    }
    false
}

/// The cost and the effect of one trim.
#[derive(Debug, Clone, Copy)]
struct TrimResult {
    duration: Duration,
    /// Decrease of resident bytes; `None` where the system does not report it.
    returned: Option<u64>,
    /// Resident bytes before.
    resident: Option<u64>,
}

fn trim() -> TrimResult {
    let resident_before = resident();
    let begun = clock::read(libc::CLOCK_MONOTONIC);
    // SAFETY: a static mutex. A fork waits until the purge is over, because not every allocator protects its own locks
    // across a fork.
    unsafe { libc::pthread_mutex_lock(PURGING.0.get()) };
    malloc::purge();
    // SAFETY: locked above.
    unsafe { libc::pthread_mutex_unlock(PURGING.0.get()) };
    let duration = clock::read(libc::CLOCK_MONOTONIC).saturating_sub(begun);
    let returned =
        resident_before.zip(resident()).map(|(before, after)| before.saturating_sub(after));
    report::add(Runtime::Trims, 1);
    report::add(Runtime::TrimNs, duration.as_nanos() as u64);
    report::raise(Runtime::WorstTrimNs, duration.as_nanos() as u64);
    if let Some(returned) = returned {
        report::add(Runtime::TrimmedBytes, returned);
    }
    TrimResult { duration, returned, resident: resident_before }
}

/// How long to wait after a trim.
fn next_interval(interval: Duration, trimmed: &TrimResult) -> Duration {
    let is_worthwhile = match (trimmed.returned, trimmed.resident) {
        (Some(returned), Some(resident)) => returned >= (resident / 100).max(1 << 20),
        _ => true,
    };
    let interval = if is_worthwhile { SHORTEST } else { interval * 2 };
    interval.max(trimmed.duration * 50).clamp(SHORTEST, LONGEST)
}

/// Before a fork: waits until no purge is running.
pub(crate) extern "C" fn before_fork() {
    // SAFETY: a static mutex; unlocked in parent and child.
    unsafe { libc::pthread_mutex_lock(PURGING.0.get()) };
}

/// After a fork, in the parent.
pub(crate) extern "C" fn in_parent() {
    // SAFETY: locked by `before_fork` on this thread.
    unsafe { libc::pthread_mutex_unlock(PURGING.0.get()) };
}

/// After a fork, in the child, where the thread is gone: the next full GC starts it again.
pub(crate) fn in_child() {
    // SAFETY: locked by `before_fork` on the thread that is now the only one.
    unsafe {
        libc::pthread_mutex_unlock(PURGING.0.get());
        libc::sem_init(REQUESTED.0.get(), 0, 0);
    }
    RUNNING.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_that_returns_little_or_takes_long_makes_the_next_one_wait() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        for (before, duration, returned, resident, after) in [
            (ms(500), ms(2), Some(20 << 20), Some(400 << 20), ms(500)),
            (ms(500), ms(2), Some(0), Some(400 << 20), s(1)),
            (s(1), ms(2), Some(3 << 20), Some(400 << 20), s(2)),
            (s(40), ms(2), Some(0), Some(400 << 20), s(60)),
            (s(8), ms(2), Some(20 << 20), Some(400 << 20), ms(500)),
            (ms(500), ms(100), Some(900 << 20), Some(1000 << 20), s(5)),
            (ms(500), s(9), Some(900 << 20), Some(1000 << 20), s(60)),
            (ms(500), ms(2), None, None, ms(500)),
        ] {
            let trimmed = TrimResult { duration, returned, resident };
            assert_eq!(next_interval(before, &trimmed), after, "{before:?} {trimmed:?}");
        }
    }

    #[test]
    fn no_purge_runs_during_a_fork_and_the_next_one_runs_after_it() {
        before_fork();
        let thread = std::thread::spawn(|| _ = trim());
        std::thread::sleep(Duration::from_millis(200));
        let has_purged = thread.is_finished();
        in_parent();
        thread.join().unwrap();
        assert!(!has_purged);
    }
}
