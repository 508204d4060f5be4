//! Trims malloc after a full GC has finished sweeping, on a native thread outside the GVL.
//!
//! But for [`When::InGc`], which exists to be compared with, no hook on the collector's events is set: up to Ruby 3.3
//! that alone sends every allocation the slow way (`gc_event_hook_available_p` in gc.c), 5.9 % more instructions per
//! request of a small Rails app. Instead a function that marks an object posts a semaphore. The thread decides when a
//! trim is due, because each walks every free block again and holds malloc's locks meanwhile: a trim may use one
//! fiftieth of the time, and one that returns little makes the next one wait twice as long.

use crate::kernel::{clock, pause, resident};
use crate::malloc;
use crate::report;
use carat_ruby::api::{GC_END_SWEEP, StatKey, loaded};
use carat_ruby::{RubyApi, Value, thread};
use carat_wire::page::Runtime;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// Stack of the thread.
const STACK: usize = 128 * 1024;

/// How long a sweep may go on unseen. Its end is seen where the next collection begins, which never comes in a server
/// that sleeps; there the full GC was asked for, and its sweep was over when it returned.
const SWEEP: Duration = Duration::from_secs(2);

/// How long an idle trim waits for a quiet moment before it gives this one up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a C library keeps at one address for the life of the process.
struct Fixed<T>(UnsafeCell<T>);

// SAFETY: what is inside is a semaphore or a mutex, made for use by several threads.
unsafe impl<T> Sync for Fixed<T> {}

static WANTED: Fixed<libc::sem_t> =
    // SAFETY: a semaphore of zero bytes is replaced by sem_init before anybody uses it.
    Fixed(UnsafeCell::new(unsafe { std::mem::zeroed() }));
static PURGING: Fixed<libc::pthread_mutex_t> =
    Fixed(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// When a trim happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum When {
    /// On the thread, at once.
    AfterFullGc,
    /// On the thread, in a quiet moment.
    Idle,
    /// Within every full GC, at the end of its sweep, as the patch of 2019 did; the server waits for it.
    InGc,
}

static WHEN: AtomicU8 = AtomicU8::new(When::AfterFullGc as u8);
static RUNNING: AtomicBool = AtomicBool::new(false);
static MAJORS_SEEN: AtomicUsize = AtomicUsize::new(0);
static MAJORS_SWEPT: AtomicUsize = AtomicUsize::new(0);
static COUNT_SEEN: AtomicUsize = AtomicUsize::new(0);
static KEYS: OnceLock<Keys> = OnceLock::new();

/// Where `GC.stat` counts collections, and full ones.
struct Keys {
    count: StatKey,
    majors: StatKey,
}

/// Begins to trim after every full GC; once, at the start.
pub(crate) fn start(ruby: &RubyApi, when: When) {
    WHEN.store(when as u8, Ordering::Relaxed);
    let (Some(count), Some(majors)) = (ruby.stat_key(c"count"), ruby.stat_key(c"major_gc_count"))
    else {
        return;
    };
    if KEYS.set(Keys { count, majors }).is_ok() {
        // SAFETY: nobody waits yet.
        unsafe { libc::sem_init(WANTED.0.get(), 0, 0) };
        report::write(Runtime::TrimIntervalNs, SHORTEST.as_nanos() as u64);
        match when {
            When::InGc => ruby.on_internal_event(GC_END_SWEEP, swept),
            When::AfterFullGc | When::Idle => ruby.on_mark(marked),
        }
    }
}

fn is(when: When) -> bool {
    WHEN.load(Ordering::Relaxed) == when as u8
}

/// In a GC, at the end of its sweep.
unsafe extern "C" fn swept(_tracepoint: Value, _data: *mut c_void) {
    crate::guarded((), || {
        let (Some(ruby), Some(keys)) = (loaded(), KEYS.get()) else { return };
        let majors = ruby.stat(keys.majors);
        if MAJORS_SEEN.swap(majors, Ordering::Relaxed) != majors {
            trim();
        }
    });
}

/// In a GC, while it marks, perhaps twice: nothing but atomics and a semaphore, apart from making the thread that a fork
/// has lost.
unsafe extern "C" fn marked(_data: *mut c_void) {
    crate::guarded((), || {
        let (Some(ruby), Some(keys)) = (loaded(), KEYS.get()) else { return };
        let count = ruby.stat(keys.count);
        if COUNT_SEEN.swap(count, Ordering::Relaxed) == count {
            return;
        }
        let majors = ruby.stat(keys.majors);
        let before = MAJORS_SEEN.swap(majors, Ordering::Relaxed);
        // A collection begins where the sweep of the one before has ended.
        MAJORS_SWEPT.store(before, Ordering::Relaxed);
        if before != majors {
            if !RUNNING.swap(true, Ordering::Relaxed)
                && !thread::spawn_detached(trim_for_ever, STACK)
            {
                RUNNING.store(false, Ordering::Relaxed);
            }
            // SAFETY: the semaphore was made by `start` or `in_child`.
            unsafe { libc::sem_post(WANTED.0.get()) };
        }
    });
}

extern "C" fn trim_for_ever(_nothing: *mut c_void) -> *mut c_void {
    crate::guarded((), || {
        let mut interval = SHORTEST;
        loop {
            wait_for_request();
            wait_for_sweep();
            if is(When::Idle) && !wait_for_quiet() {
                continue;
            }
            interval = next_interval(interval, &trim());
            report::write(Runtime::TrimIntervalNs, interval.as_nanos() as u64);
            pause(interval);
        }
    });
    std::ptr::null_mut()
}

fn wait_for_request() {
    // SAFETY: the semaphore was made before this thread.
    unsafe {
        while libc::sem_wait(WANTED.0.get()) != 0 {}
        while libc::sem_trywait(WANTED.0.get()) == 0 {
            report::add(Runtime::TrimsSkipped, 1);
        }
    }
}

/// Waits until the sweep of the full GC that was seen last has ended.
fn wait_for_sweep() {
    let wanted = MAJORS_SEEN.load(Ordering::Relaxed);
    let begun = clock(libc::CLOCK_MONOTONIC);
    while MAJORS_SWEPT.load(Ordering::Relaxed) < wanted
        && clock(libc::CLOCK_MONOTONIC).saturating_sub(begun) < SWEEP
    {
        pause(Duration::from_millis(10));
    }
}

/// Waits until the process uses less than a tenth of a core; `false` where it does not in time.
fn wait_for_quiet() -> bool {
    let step = Duration::from_millis(50);
    let begun = clock(libc::CLOCK_MONOTONIC);
    while clock(libc::CLOCK_MONOTONIC).saturating_sub(begun) < PATIENCE {
        let before = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
        pause(step);
        if clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(before) < step / 10 {
            return true;
        }
    }
    false
}

/// What one trim took and returned.
#[derive(Debug, Clone, Copy)]
struct Trimmed {
    took: Duration,
    /// Resident bytes that went away; `None` where the system does not tell.
    returned: Option<u64>,
    resident: Option<u64>,
}

fn trim() -> Trimmed {
    let resident_before = resident();
    let begun = clock(libc::CLOCK_MONOTONIC);
    // SAFETY: a static mutex; a fork waits until the purge is over, because not every allocator
    // guards its own locks.
    unsafe { libc::pthread_mutex_lock(PURGING.0.get()) };
    malloc::purge();
    // SAFETY: locked above.
    unsafe { libc::pthread_mutex_unlock(PURGING.0.get()) };
    let took = clock(libc::CLOCK_MONOTONIC).saturating_sub(begun);
    let returned =
        resident_before.zip(resident()).map(|(before, after)| before.saturating_sub(after));
    report::add(Runtime::Trims, 1);
    report::add(Runtime::TrimNs, took.as_nanos() as u64);
    report::raise(Runtime::WorstTrimNs, took.as_nanos() as u64);
    if let Some(returned) = returned {
        report::add(Runtime::TrimmedBytes, returned);
    }
    Trimmed { took, returned, resident: resident_before }
}

/// How long to wait after a trim.
fn next_interval(interval: Duration, trimmed: &Trimmed) -> Duration {
    let worth_it = match (trimmed.returned, trimmed.resident) {
        (Some(returned), Some(resident)) => returned >= (resident / 100).max(1 << 20),
        _ => true,
    };
    let wanted = if worth_it { SHORTEST } else { interval * 2 };
    wanted.max(trimmed.took * 50).clamp(SHORTEST, LONGEST)
}

/// Before a fork: waits until no purge is under way.
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
        libc::sem_init(WANTED.0.get(), 0, 0);
    }
    RUNNING.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_that_returns_little_or_takes_long_makes_the_next_one_wait() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        for (before, took, returned, resident, after) in [
            (ms(500), ms(2), Some(20 << 20), Some(400 << 20), ms(500)),
            (ms(500), ms(2), Some(0), Some(400 << 20), s(1)),
            (s(1), ms(2), Some(3 << 20), Some(400 << 20), s(2)),
            (s(40), ms(2), Some(0), Some(400 << 20), s(60)),
            (s(8), ms(2), Some(20 << 20), Some(400 << 20), ms(500)),
            (ms(500), ms(100), Some(900 << 20), Some(1000 << 20), s(5)),
            (ms(500), s(9), Some(900 << 20), Some(1000 << 20), s(60)),
            (ms(500), ms(2), None, None, ms(500)),
        ] {
            let trimmed = Trimmed { took, returned, resident };
            assert_eq!(next_interval(before, &trimmed), after, "{before:?} {trimmed:?}");
        }
    }
}
