//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod probe;
mod probe_figures;
mod probe_hardships;
mod probe_ruby;
mod report;
mod report_builder;
