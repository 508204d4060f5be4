//! The memory of Ruby's compiler, YJIT or ZJIT; at most one is enabled. That may happen long after loading, so it is
//! queried each time.

use carat_ruby::api::small_integer;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Feature, FeatureState, Own, Page};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Takes a key of YJIT's `runtime_stats`, or `:code` for both kinds of code together; returns nil while no compiler is on.
/// ZJIT counts its code in one figure (`zjit.rb`, Ruby 4.0).
const LAMBDA: &CStr = c"
  yjit = RubyVM::YJIT if defined?(RubyVM::YJIT) && RubyVM::YJIT.respond_to?(:runtime_stats)
  zjit = RubyVM::ZJIT if defined?(RubyVM::ZJIT) && RubyVM::ZJIT.respond_to?(:stats)
  (yjit || zjit) && lambda do |key|
    if zjit&.enabled?
      next nil if key == :compiled_iseq_count
      next zjit.stats(key == :yjit_alloc_size ? :zjit_alloc_bytes : :code_region_bytes)
    end
    stats = yjit&.enabled? && yjit.runtime_stats
    next (0 if yjit && key == :compiled_iseq_count) unless stats
    next stats[key] unless key == :code
    stats[:inline_code_size] && stats[:outlined_code_size] &&
      stats[:inline_code_size] + stats[:outlined_code_size]
  end";

static QUERY: OnceLock<Value> = OnceLock::new();

/// Prepares the query; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &RubyApi, page: &Page) {
    if let Some(query) = ruby.evaluate_and_keep(LAMBDA) {
        QUERY.get_or_init(|| query);
    }
    let state = if QUERY.get().is_some() { FeatureState::On } else { FeatureState::Absent };
    page.header.set_feature(Feature::Yjit, state);
}

/// Queries the compiler. Creates a few objects, so it is done on request only.
pub(crate) fn read(ruby: &RubyApi, page: &Page) {
    let Some(&query) = QUERY.get() else { return };
    for (word, key) in [
        (Own::YjitCode, c"code"),
        (Own::YjitRegion, c"code_region_size"),
        (Own::YjitHeap, c"yjit_alloc_size"),
        (Own::YjitCompiled, c"compiled_iseq_count"),
    ] {
        let bytes = ruby.call(query, c"call", &[ruby.symbol(key)]).and_then(small_integer);
        if let Some(bytes) = bytes {
            page.own.set(word, bytes);
        }
    }
}
