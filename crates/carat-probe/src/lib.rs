//! The probe: the library inside Ruby that observes, the same in every variant.
//!
//! It needs no Ruby header: every function is looked up by name, and what is missing costs a feature,
//! never the server. Figures go to one shared page per process ([`carat_wire::page`]); nothing is
//! printed, sent or kept in Ruby objects. Three kinds of code write them:
//!
//! * a mark function ([`hooks`]), by which a collection is noticed, and which only asks for a job,
//! * postponed jobs ([`reading`]), which run between two instructions of Ruby with its lock held,
//! * a thread of its own ([`thread`]), which holds no lock of Ruby's, asks the allocator and waits for
//!   carat's requests.
//!
//! Nothing is done at exit: the page stays as it is.

mod allocator;
mod clock;
mod constants;
mod fault;
mod fork;
mod heap_pages;
mod hooks;
mod malloc_info;
mod own_page;
mod pools;
mod reading;
mod ruby;
mod stat;
mod thread;
mod wake;
mod yjit;

use carat_wire::env;
use carat_wire::page::{Feature, Page, State};
use std::path::Path;

/// Called by Ruby when the library is required; the name follows from the file's name.
#[unsafe(no_mangle)]
pub extern "C" fn Init_carat_probe() {
    fault::install_quiet_hook();
    fault::guarded(start);
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
        Err(error) => return fault::say("no shared page", &error.to_string()),
    };
    let feature = |feature, state| page.header.set_feature(feature, state);
    allocator::find_allocator(page);
    match ruby::load() {
        Ok(ruby) => {
            page.header.ruby.set(ruby.description());
            feature(Feature::Ruby, State::On);
            constants::read(ruby);
            stat::find_keys(ruby);
            hooks::start(ruby, page);
            reading::start(ruby, page);
            wake::start(ruby, page);
            thread::watch_end(ruby);
        }
        Err(state) => {
            feature(Feature::Ruby, state);
            fault::say("not measuring inside Ruby", "this version of Ruby is not known");
        }
    }
    feature(Feature::Forks, fork::start());
    thread::ensure(page);
}
