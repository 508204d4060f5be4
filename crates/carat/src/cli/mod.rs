//! The command line: the only place that builds concrete things and talks to the user.
//!
//! One file per command. Results go to standard output, talk to standard error.

mod args;
mod compare;
mod demo;
mod diff;
mod exec;
mod explain;
mod fleet;
mod heap_dump;
mod init;
mod install;
mod load;
mod log;
mod merge;
mod plan;
mod ps;
mod record;
mod report;
mod salvage;
mod shell;
mod stats;
mod tune;
mod watch;
mod workload;

use crate::view::output;
use crate::work::Exit;
pub use args::main;
