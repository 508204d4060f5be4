//! The command line: the only place that builds concrete things and talks to the user.
//!
//! One file per command. Results go to standard output, talk to standard error.

mod args;
mod compare;
mod demo;
mod diff;
mod exec;
mod exit;
mod explain;
mod fleet;
mod init;
mod install;
mod load;
mod merge;
mod output;
mod plan;
mod progress;
mod ps;
mod ps_watch;
mod record;
mod record_view;
mod report;
mod salvage;
mod shell;
mod stats;
mod tune;
mod workload;

pub use args::main;
pub(crate) use exit::Exit;
