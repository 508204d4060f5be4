//! Waking Ruby while all its threads sleep.
//!
//! A postponed job waits for a thread of Ruby to run by itself, which in an idle server may take minutes.
//! Ruby's own way to reach a sleeping interpreter is its signal handler: it notes the signal and makes
//! the main thread run the trap. So the probe traps a signal that nothing sends and that is ignored by
//! default, and then calls that handler, which is made to be called on any thread. No signal is ever
//! sent, so no system call of the server's is interrupted but those that Ruby itself restarts.

use crate::reading;
use crate::ruby::{self, Ruby};
use carat_wire::page::{Feature, Page, State};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIGNAL: c_int = libc::SIGURG;
const SIGNAL_NAME: &std::ffi::CStr = c"URG";

/// Address of Ruby's handler; 0 where there is none.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the trap, unless somebody else uses the signal; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    let free = handler() == Some(libc::SIG_DFL);
    let set = free && trap(ruby).is_some();
    if let Some(own) = handler().filter(|own| set && *own > libc::SIG_IGN) {
        HANDLER.store(own, Ordering::Relaxed);
        page.header.set_feature(Feature::Wake, State::On);
    } else {
        page.header.set_feature(Feature::Wake, State::Refused);
    }
}

fn trap(ruby: &Ruby) -> Option<()> {
    let proc_new = ruby.proc_new?;
    let signal = ruby.eval(c"Signal")?;
    // SAFETY: the block lives as long as the process; the trap keeps its object.
    let block = unsafe { proc_new(on_trap, 0) };
    ruby.call(signal, c"trap", &[ruby.symbol(SIGNAL_NAME), block]).map(|_| ())
}

extern "C" fn on_trap(
    _: ruby::Value,
    _: ruby::Value,
    _: c_int,
    _: *const ruby::Value,
    _: ruby::Value,
) -> ruby::Value {
    reading::take_guarded();
    ruby::get().map_or(0, Ruby::nil)
}

/// What the signal leads to now.
fn handler() -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks, and what is asked for is read only where the call filled it.
    unsafe {
        let asked = libc::sigaction(SIGNAL, ptr::null(), action.as_mut_ptr()) == 0;
        asked.then(|| action.assume_init().sa_sigaction)
    }
}

/// Makes Ruby's main thread take a reading; the interpreter must not be over.
pub(crate) fn wake() {
    let own = HANDLER.load(Ordering::Relaxed);
    if own != 0 && handler() == Some(own) {
        // SAFETY: the address is that of Ruby's handler for plain signals, which takes the number and,
        // being a signal handler, may run on any thread at any time.
        unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(own)(SIGNAL) };
    }
}
