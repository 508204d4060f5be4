//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake_run;
mod probe;
mod real_run;
mod report;
mod report_builder;
mod report_page;
mod report_things;
mod support;
mod tidy;
