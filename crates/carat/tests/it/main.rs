//! The one integration test binary: the real program, real processes.

mod report;
mod report_builder;
mod probe;
