//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake_run;
mod load_cable;
mod load_http;
mod load_server;
mod probe;
mod real_run;
mod report;
mod report_builder;
mod support;
mod tidy;
