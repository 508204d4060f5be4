//! Waking Ruby while all its threads sleep.
//!
//! A postponed job waits until a thread of Ruby runs by itself, which in an idle server may take minutes. Ruby's own way
//! to reach a sleeping interpreter is its signal handler: it records the signal and makes the main thread run the trap.
//! So the probe traps a signal that no server traps and nothing sends, and later calls that handler, which may run on any
//! thread. No signal is ever sent, so only system calls that Ruby itself restarts are interrupted.

use carat_ruby::RubyApi;
use carat_ruby::api::BlockFunction;
use carat_wire::page::{Feature, FeatureState, Page};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A real-time signal, because servers trap those that have a name: Puma forks its workers again at URG. Ruby has one handler
/// for all signals, so [`wake`] would run a trap that replaced ours without noticing. The C library keeps 32 to 34, and
/// systemd's commands are 34 to 40, 47 to 52 and 54 to 63.
const SIGNAL: c_int = 44;

/// Address of Ruby's handler; 0 if there is none.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets a trap that calls `on_trap`, unless the signal is in use. Must be called with Ruby's lock held.
pub(crate) fn start(ruby: &RubyApi, page: &Page, on_trap: BlockFunction) {
    let is_free = handler() == Some(libc::SIG_DFL);
    let is_set = is_free && set_trap(ruby, on_trap).is_some();
    if let Some(own) = handler().filter(|own| is_set && *own > libc::SIG_IGN) {
        HANDLER.store(own, Ordering::Relaxed);
        page.header.set_feature(Feature::Wake, FeatureState::On);
    } else {
        page.header.set_feature(Feature::Wake, FeatureState::Refused);
    }
}

/// Ruby keeps the proc as long as the trap is set.
fn set_trap(ruby: &RubyApi, on_trap: BlockFunction) -> Option<()> {
    let signal = ruby.evaluate(c"Signal")?;
    let block = ruby.new_proc(on_trap)?;
    ruby.call(signal, c"trap", &[ruby.integer(SIGNAL.into()), block]).map(|_| ())
}

/// The current handler of the signal.
fn handler() -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only queries the action, which is read only if the call filled it.
    unsafe {
        let filled = libc::sigaction(SIGNAL, ptr::null(), action.as_mut_ptr()) == 0;
        filled.then(|| action.assume_init().sa_sigaction)
    }
}

/// Makes Ruby's main thread run the trap. The interpreter must not have ended.
pub(crate) fn wake() {
    let own = HANDLER.load(Ordering::Relaxed);
    if own != 0 && handler() == Some(own) {
        // SAFETY: the address is that of Ruby's handler for plain signals. It takes the number and, being a signal
        // handler, may run on any thread at any time.
        unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(own)(SIGNAL) };
    }
}
