//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod probe;
mod report;
mod report_builder;
mod report_page;
