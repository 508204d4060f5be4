//! The one integration test binary: the real program, real processes.

mod probe;
mod report;
mod report_builder;
