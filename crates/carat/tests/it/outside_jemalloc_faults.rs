//! jemalloc read while its unused pages are returned and while the server forks: right, or refused with the reason.

use crate::needs::TestRuby;
use crate::outside_jemalloc::{library, own, said, start_with};
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::readings::look;

const READINGS: u32 = 20;

/// Reads a Ruby that runs flat out and in which `line` began something else.
fn assert_right_or_refused(version: TestRuby, options: &str, lines: &[&str]) {
    let mut command = version.command(Some(&library(version)));
    command.env("MALLOC_CONF", options);
    let mut ruby = start_with(command);
    ruby.eval("Jemalloc.churn_extents");
    lines.iter().for_each(|line| drop(ruby.eval(line)));
    let mut right = 0;
    for pass in 0..READINGS {
        let before = said(&ruby.ask("Jemalloc.figures"));
        let read = look(ruby.pid, &LookOptions::default());
        let after = said(&ruby.ask("Jemalloc.figures"));
        let context = format!("reading {pass} with {options:?} and {lines:?} in {version:?}");
        let census = read.unwrap_or_else(|refused| panic!("{refused}: {context}"));
        if census.malloc.is_none() {
            let reason = census.reason(CensusPart::Malloc).unwrap_or_default();
            assert!(!reason.is_empty(), "{context}");
            continue;
        }
        right += 1;
        let own = own(&census);
        // Allocated, and with it active: both change while they are read.
        for (read, at) in [(own.allocated_bytes, 0), (own.active_bytes, 1)] {
            let (least, most) = (before[at].min(after[at]), before[at].max(after[at]));
            let allowed = least as f64 * 0.97..=most as f64 * 1.03;
            assert!(
                allowed.contains(&(read as f64)),
                "{read}, inside {least} to {most}: {context}"
            );
        }
    }
    // A server that can never be read would be no answer either.
    assert!(right >= READINGS / 2, "{right} of {READINGS} with {options:?} in {version:?}");
}

#[test]
fn while_a_background_thread_returns_pages_every_reading_is_right_or_refused(version: TestRuby) {
    assert_right_or_refused(version, "background_thread:true,dirty_decay_ms:100", &[]);
}

#[test]
fn while_a_thread_purges_every_reading_is_right_or_refused(version: TestRuby) {
    assert_right_or_refused(version, "narenas:2", &["Jemalloc.keep_purging"]);
}

#[test]
fn while_the_server_forks_every_reading_is_right_or_refused(version: TestRuby) {
    assert_right_or_refused(version, "narenas:2", &["Jemalloc.keep_forking"]);
}
