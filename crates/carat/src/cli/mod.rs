//! The command line: the only place that builds concrete things and talks to the user.
//!
//! One file per command. Results go to standard output, talk to standard error.

mod args;
mod compare;
mod dry_run;
mod exec;
mod exec_format;
mod exec_verify;
mod exit;
mod explain;
mod ledger_text;
mod load;
mod outline;
mod output;
mod plan;
mod progress;
mod record;
mod record_load;
mod record_text;
mod record_view;
mod recorder;
mod report;
mod salvage;
mod shell;
mod stats;
mod suggest;
mod workload;

pub use args::main;
pub use exit::Exit;
