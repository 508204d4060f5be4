//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exec;
mod fake_run;
mod probe;
mod real_run;
mod report;
mod report_builder;
mod runtime;
mod support;
mod tidy;
