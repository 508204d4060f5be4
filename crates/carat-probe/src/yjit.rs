//! What YJIT holds. It may be switched on long after loading, so it is asked each time.

use crate::ruby::{Ruby, integer};
use carat_wire::page::{Feature, Own, Page, State};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes a key of `runtime_stats`, or `:code` for both kinds of code together; nil while YJIT is off.
const LAMBDA: &CStr = c"
  yjit = RubyVM::YJIT if defined?(RubyVM::YJIT) && RubyVM::YJIT.respond_to?(:runtime_stats)
  yjit && lambda do |key|
    stats = yjit.enabled? && yjit.runtime_stats
    next nil unless stats
    next stats[key] unless key == :code
    stats[:inline_code_size] && stats[:outlined_code_size] &&
      stats[:inline_code_size] + stats[:outlined_code_size]
  end";

static ASK: AtomicUsize = AtomicUsize::new(0);

/// Prepares asking; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    ruby.keep(&ASK, LAMBDA);
    let there = ASK.load(Ordering::Relaxed) != 0;
    page.header.set_feature(Feature::Yjit, if there { State::On } else { State::Absent });
}

/// Asks; makes a few objects, so only for a request.
pub(crate) fn read(ruby: &Ruby, page: &Page) {
    let ask = ASK.load(Ordering::Relaxed);
    if ask == 0 {
        return;
    }
    for (word, key) in [
        (Own::YjitCode, c"code"),
        (Own::YjitRegion, c"code_region_size"),
        (Own::YjitHeap, c"yjit_alloc_size"),
    ] {
        if let Some(bytes) = ruby.call(ask, c"call", &[ruby.symbol(key)]).and_then(integer) {
            page.own.set(word, bytes);
        }
    }
}
