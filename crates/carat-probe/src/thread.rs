//! The probe's own thread: reads the allocator's figures, answers carat's requests, never holds Ruby's lock.
//!
//! It sleeps on the page's request word and otherwise wakes once a second. It allocates nothing.

use crate::{allocations, allocator, fault, heap_pages, jobs, own_page, wake};
use carat_ruby::api::loaded;
use carat_ruby::clock::{now_ns, sleep, thread_cpu_ns, timespec};
use carat_ruby::thread::spawn_detached;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Feature, FeatureState, Own, Page};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// The allocator's figures are read at most this often unless carat requests them,
const MALLOC_EVERY: u64 = 10 * SECOND;
/// and so rarely that reading takes at most a thousandth of the time.
const MALLOC_SHARE: u64 = 1000;
/// Ruby's heap pages are listed again at most this often unless carat requests it.
const LIST_EVERY: u64 = 5 * SECOND;
/// How long a request waits for a thread of Ruby to run by itself before one is woken,
const BUSY_ANSWERS_WITHIN: u64 = SECOND / 20;
/// and then for the woken one.
const WOKEN_ANSWERS_WITHIN: u64 = SECOND / 2;
const STACK_BYTES: usize = 256 * 1024;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether this thread may call the interpreter, which it must not while the interpreter is torn down.
static INTERPRETER: AtomicU32 = AtomicU32::new(ALIVE);
const ALIVE: u32 = 0;
const IN_USE: u32 = 1;
const ENDED: u32 = 2;

/// Makes Ruby say when it ends, after which this thread must not call it.
pub(crate) fn watch_end(ruby: &RubyApi) {
    ruby.on_end(on_end);
}

/// Starts the thread unless this process has it.
pub(crate) fn ensure(page: &Page) {
    if !STARTED.swap(true, Ordering::Relaxed) {
        let state =
            if spawn_detached(run, STACK_BYTES) { FeatureState::On } else { FeatureState::Refused };
        page.header.set_feature(Feature::Thread, state);
    }
}

/// In a forked child, where the thread does not exist: forgets it and what it held.
pub(crate) fn forget() {
    STARTED.store(false, Ordering::Relaxed);
    let _ = INTERPRETER.compare_exchange(IN_USE, ALIVE, Ordering::Relaxed, Ordering::Relaxed);
}

/// The interpreter is about to be torn down: waits until the thread has left it, and keeps it out.
extern "C" fn on_end(_: Value) {
    while INTERPRETER.compare_exchange(ALIVE, ENDED, Ordering::Acquire, Ordering::Relaxed)
        == Err(IN_USE)
    {
        // SAFETY: takes no argument.
        unsafe { libc::sched_yield() };
    }
    fault::guarded(allocations::stop);
}

/// Calls the interpreter unless it has ended.
fn with_ruby(call: impl FnOnce(&RubyApi)) {
    let Some(ruby) = loaded() else { return };
    if INTERPRETER.compare_exchange(ALIVE, IN_USE, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    call(ruby);
    INTERPRETER.store(ALIVE, Ordering::Release);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    fault::guarded(|| {
        // SAFETY: names this thread with a text that ends with NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"carat-probe".as_ptr()) };
        if let Some(page) = own_page::get() {
            let mut schedule = ReadingSchedule { malloc_due: 0, list_due: 0 };
            loop {
                schedule.turn(page);
            }
        }
    });
    ptr::null_mut()
}

/// When each periodic reading is due, on the monotonic clock.
struct ReadingSchedule {
    malloc_due: u64,
    list_due: u64,
}

impl ReadingSchedule {
    fn turn(&mut self, page: &Page) {
        let requested = page.header.requested.load(Ordering::Acquire);
        if requested != page.header.served.load(Ordering::Relaxed) {
            self.serve(page, requested);
        } else {
            self.tick(page);
        }
        page.own.set(Own::ThreadNs, thread_cpu_ns());
        wait_for_change(&page.header.requested, requested);
    }

    /// Renews all figures, as far as Ruby answers.
    fn serve(&mut self, page: &Page, requested: u32) {
        self.read_malloc(page);
        with_ruby(jobs::request_full_reading);
        if !ruby_answers(page, requested, BUSY_ANSWERS_WITHIN) {
            with_ruby(|_| wake::wake());
            ruby_answers(page, requested, WOKEN_ANSWERS_WITHIN);
        }
        page.header.served.store(requested, Ordering::Release);
    }

    fn tick(&mut self, page: &Page) {
        let now = now_ns();
        if allocations::is_over(now) {
            with_ruby(jobs::request_reading);
        }
        with_ruby(jobs::repeat_requests);
        if now >= self.malloc_due {
            self.read_malloc(page);
        }
        let waiting = page.header.served_by_ruby.load(Ordering::Relaxed)
            != page.header.served.load(Ordering::Relaxed);
        if waiting || (now >= self.list_due && heap_pages::list_is_stale(page)) {
            self.list_due = now + LIST_EVERY;
            with_ruby(jobs::request_full_reading);
        }
    }

    fn read_malloc(&mut self, page: &Page) {
        let cost = allocator::read(page);
        self.malloc_due = now_ns() + MALLOC_EVERY.max(cost.saturating_mul(MALLOC_SHARE));
        if let Some(threads) = count_threads() {
            page.own.set(Own::Threads, threads);
        }
        page.own.add(Own::ThreadReadings, 1);
    }
}

/// Waits until Ruby has answered; `false` if it has not in time.
fn ruby_answers(page: &Page, requested: u32, within: u64) -> bool {
    let until = now_ns() + within;
    loop {
        if page.header.served_by_ruby.load(Ordering::Acquire) == requested {
            return true;
        }
        if now_ns() >= until {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
}

/// The links of `/proc/self/task` are itself, its parent, and one per thread.
fn count_threads() -> Option<u64> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    let path = c"/proc/self/task".as_ptr();
    // SAFETY: the path ends with NUL; the result is read only if the call filled it. A plain system call, because older
    // C libraries have no function of this name.
    let filled = unsafe {
        libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, found.as_mut_ptr(), 0) == 0
    };
    // SAFETY: as above.
    filled.then(|| u64::from(unsafe { found.assume_init() }.st_nlink as u32).saturating_sub(2))
}

/// Sleeps while the word has that value, at most one second.
fn wait_for_change(word: &AtomicU32, value: u32) {
    let time = timespec(Duration::from_nanos(SECOND));
    // SAFETY: the word lives in the mapping that is never unmapped; waking early is harmless. Not a private futex,
    // because carat wakes it through its own mapping of the file.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time)
    };
}
