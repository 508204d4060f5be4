//! The probe: the library inside Ruby that observes, the same in every variant.
//!
//! It writes figures to one shared page per process ([`carat_wire::page`]); it prints nothing, sends nothing and keeps
//! nothing in Ruby objects. A function that this Ruby lacks costs a feature, never the server. Four kinds of code write
//! the figures:
//!
//! * a mark function ([`collections`]), which notices a collection and only requests a job,
//! * postponed jobs ([`reading`]), which run between two instructions of Ruby with its lock held,
//! * a hook on allocations ([`allocations`]), only while carat asks for samples,
//! * a thread of the probe's own ([`thread`]), which holds no lock of Ruby's, reads the allocator's figures and waits for
//!   carat's requests.
//!
//! Nothing is done at exit: the page stays as it is.

mod allocations;
mod allocator;
mod collections;
mod constants;
mod fault;
mod fork;
mod heap_pages;
mod jobs;
mod malloc_info;
mod own_page;
mod pools;
mod reading;
mod stat;
mod thread;
mod wake;
mod yjit;

use carat_ruby::{RubyApi, api, guard, version};
use carat_wire::env;
use carat_wire::page::{Feature, FeatureState, Page};
use std::path::Path;

/// Called by Ruby when the library is required; the name follows from the file's name.
#[unsafe(no_mangle)]
pub extern "C" fn Init_carat_probe() {
    guard::silence_panics();
    fault::guarded(start);
}

/// The number that a preview of Ruby requires of a library: [`api::abi_version`].
#[unsafe(no_mangle)]
pub extern "C" fn ruby_abi_version() -> u64 {
    api::abi_version()
}

/// The page of this process, or null without one: [`carat_wire::page::ENTRY`].
#[unsafe(no_mangle)]
pub extern "C" fn carat_probe_page() -> *const Page {
    own_page::get().map_or(std::ptr::null(), std::ptr::from_ref)
}

fn start() {
    let Some(directory) = std::env::var_os(env::PAGES) else { return };
    if own_page::get().is_some() || std::env::var_os(env::OFF).is_some_and(|off| off == "1") {
        return;
    }
    let page = match own_page::create(Path::new(&directory)) {
        Ok(page) => page,
        Err(error) => return fault::warn("no shared page", &error.to_string()),
    };
    allocator::find_allocator(page);
    match load_ruby() {
        Ok(ruby) => start_inside_ruby(ruby, page),
        Err(state) => {
            page.header.set_feature(Feature::Ruby, state);
            fault::warn("not measuring inside Ruby", reason(state));
        }
    }
    page.header.set_feature(Feature::Forks, fork::start());
    thread::ensure(page);
}

fn reason(state: FeatureState) -> &'static str {
    match state {
        FeatureState::NoFunction => "this Ruby lacks a function that is required",
        _ => "Ruby 2.7 or later is required",
    }
}

fn load_ruby() -> Result<&'static RubyApi, FeatureState> {
    let version = api::running_version().ok_or(FeatureState::UnknownRuby)?;
    if !version::OBSERVED.contains(version) {
        return Err(FeatureState::UnknownRuby);
    }
    api::load().ok_or(FeatureState::NoFunction)
}

fn start_inside_ruby(ruby: &RubyApi, page: &Page) {
    page.header.ruby.set(api::description());
    page.header.set_feature(Feature::Ruby, FeatureState::On);
    constants::read(ruby);
    stat::find_keys(ruby);
    collections::start(ruby, page);
    reading::start(ruby, page);
    wake::start(ruby, page, reading::on_trap);
    thread::watch_end(ruby);
}
