//! The probe's own thread: asks the allocator, answers carat's requests, never holds Ruby's lock.
//!
//! It sleeps on the page's request word and otherwise wakes once a second. It allocates nothing.

use crate::ruby::Ruby;
use crate::{allocator, clock, fault, own_page, reading, ruby, wake};
use carat_wire::page::{Feature, Own, Page, State};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const SECOND: u64 = 1_000_000_000;
/// The allocator is asked at most this often unless carat wants to know,
const MALLOC_EVERY: u64 = 10 * SECOND;
/// and so seldom that asking takes at most a thousandth of the time.
const MALLOC_SHARE: u64 = 1000;
/// Ruby's heap pages are listed again at most this often unless carat wants to know.
const LIST_EVERY: u64 = 5 * SECOND;
/// How long a request waits for a thread of Ruby to run by itself, before one is woken,
const BUSY_ANSWERS_WITHIN: u64 = SECOND / 20;
/// and then for the woken one.
const WOKEN_ANSWERS_WITHIN: u64 = SECOND / 2;
const STACK: usize = 256 * 1024;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether the interpreter may be called from this thread: it must not be while it is taken down.
static LIFE: AtomicU32 = AtomicU32::new(ALIVE);
const ALIVE: u32 = 0;
const IN_USE: u32 = 1;
const OVER: u32 = 2;

/// Learns when the interpreter ends, after which it must not be called from here.
pub(crate) fn watch_end(ruby: &Ruby) {
    // SAFETY: the function lives as long as the process, and Ruby calls it before it takes itself down.
    unsafe { (ruby.set_end_proc)(on_end, 0) };
}

/// Starts the thread unless this process has it.
pub(crate) fn ensure(page: &Page) {
    if !STARTED.swap(true, Ordering::Relaxed) {
        let state = if start() { State::On } else { State::Refused };
        page.header.set_feature(Feature::Thread, state);
    }
}

/// In a forked child: the thread stayed behind, with whatever it held.
pub(crate) fn forget() {
    STARTED.store(false, Ordering::Relaxed);
    let _ = LIFE.compare_exchange(IN_USE, ALIVE, Ordering::Relaxed, Ordering::Relaxed);
}

fn start() -> bool {
    // SAFETY: the attributes and masks are set up before they are used, and the thread's function needs
    // nothing of this frame. Signals are blocked while the thread is made, so that it inherits that and
    // every signal goes on reaching Ruby's threads.
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        let mut thread = 0;
        let refused =
            libc::pthread_create(&raw mut thread, attributes.as_ptr(), run, ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        refused == 0
    }
}

/// The interpreter is about to be taken down: the thread must not call it any more.
extern "C" fn on_end(_: ruby::Value) {
    while LIFE.compare_exchange(ALIVE, OVER, Ordering::Acquire, Ordering::Relaxed) == Err(IN_USE) {
        // SAFETY: has no argument.
        unsafe { libc::sched_yield() };
    }
}

/// Calls the interpreter unless it is over.
fn with_ruby<T>(call: impl FnOnce(&Ruby) -> T) -> Option<T> {
    let ruby = ruby::get()?;
    LIFE.compare_exchange(ALIVE, IN_USE, Ordering::Acquire, Ordering::Relaxed).ok()?;
    let answer = call(ruby);
    LIFE.store(ALIVE, Ordering::Release);
    Some(answer)
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    fault::guarded(|| {
        // SAFETY: names this thread, for those who look at the process.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"carat-probe".as_ptr()) };
        if let Some(page) = own_page::get() {
            let mut duties = Duties { malloc_due: 0, list_due: 0 };
            loop {
                duties.turn(page);
            }
        }
    });
    ptr::null_mut()
}

/// When which duty falls due, on the monotonic clock.
struct Duties {
    malloc_due: u64,
    list_due: u64,
}

impl Duties {
    fn turn(&mut self, page: &Page) {
        let requested = page.header.requested.load(Ordering::Acquire);
        if requested != page.header.served.load(Ordering::Relaxed) {
            self.serve(page, requested);
        } else {
            self.tick(page);
        }
        page.own.set(Own::ThreadNs, clock::thread_cpu());
        wait_for_change(&page.header.requested, requested, SECOND);
    }

    /// Everything fresh, as far as Ruby answers.
    fn serve(&mut self, page: &Page, requested: u32) {
        self.read_malloc(page);
        with_ruby(reading::ask_for_all);
        if !ruby_answers(page, requested, BUSY_ANSWERS_WITHIN) {
            with_ruby(|_| wake::wake());
            ruby_answers(page, requested, WOKEN_ANSWERS_WITHIN);
        }
        page.header.served.store(requested, Ordering::Release);
    }

    fn tick(&mut self, page: &Page) {
        let now = clock::now();
        with_ruby(reading::ask_if_wanted);
        if now >= self.malloc_due {
            self.read_malloc(page);
        }
        let waiting = page.header.served_by_ruby.load(Ordering::Relaxed)
            != page.header.served.load(Ordering::Relaxed);
        if waiting || (now >= self.list_due && reading::list_is_stale(page)) {
            self.list_due = now + LIST_EVERY;
            with_ruby(reading::ask_for_all);
        }
    }

    fn read_malloc(&mut self, page: &Page) {
        let cost = allocator::read(page);
        self.malloc_due = clock::now() + MALLOC_EVERY.max(cost.saturating_mul(MALLOC_SHARE));
        if let Some(threads) = count_threads() {
            page.own.set(Own::Threads, threads);
        }
        page.own.add(Own::ThreadReadings, 1);
    }
}

/// Waits until Ruby has answered; `false` where it has not in time.
fn ruby_answers(page: &Page, requested: u32, within: u64) -> bool {
    let until = clock::now() + within;
    let answered = || page.header.served_by_ruby.load(Ordering::Acquire) == requested;
    while !answered() && clock::now() < until {
        sleep(SECOND / 500);
    }
    answered()
}

/// Links of `/proc/self/task`: itself, its parent, and one per thread.
fn count_threads() -> Option<u64> {
    let mut seen = MaybeUninit::<libc::stat>::uninit();
    let path = c"/proc/self/task".as_ptr();
    // SAFETY: the path ends with a zero; the result is read only where the call filled it. A plain system
    // call, because older C libraries have no function of this name.
    let filled = unsafe {
        libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, seen.as_mut_ptr(), 0) == 0
    };
    // SAFETY: as above.
    filled.then(|| u64::from(unsafe { seen.assume_init() }.st_nlink as u32).saturating_sub(2))
}

fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / SECOND) as libc::time_t,
        tv_nsec: (nanoseconds % SECOND) as libc::c_long,
    }
}

fn sleep(nanoseconds: u64) {
    let time = timespec(nanoseconds);
    // SAFETY: the time outlives the call; waking early is harmless.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// Sleeps while the word has that value, at most so many nanoseconds.
fn wait_for_change(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = timespec(nanoseconds);
    // SAFETY: the word lives in the mapping that is never unmapped; waking early is harmless. Not a
    // private futex: carat wakes it through its own mapping of the file.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time)
    };
}
