//! Starts servers, checks that they are ready, and stops all of their processes.
//!
//! A server is held before `exec` until sampling has started, so that its whole life is observed. It gets its own
//! session, so that Ctrl-C on the terminal signals carat only.

mod child;
mod directory;
mod exec_helper;
mod exit_watch;
mod file_limit;
mod group;
mod inject;
pub mod install;
pub mod library;
mod log;
mod port;
mod program;
mod readiness;
mod reaper;
mod replace;
mod root;
mod server;
mod signal;
mod stop;
mod trust;

pub(crate) use directory::{create_pages, make_run_directory, new_token, run_directory};
pub(crate) use exec_helper::{LaunchSpec, exec_helper_main};
pub(crate) use exit_watch::ExitWatch;
pub(crate) use file_limit::fail_writes_beyond_limit;
pub(crate) use group::CommandGroup;
pub use inject::{InjectError, Injection};
pub(crate) use inject::{InjectRequest, inject, make_comparable, set_tree};
pub use library::{Libraries, LibraryError};
pub(crate) use log::{LogSearch, log_tail};
pub(crate) use port::DistinctPorts;
pub use port::free_port;
pub(crate) use program::{ProgramSearch, search_path, search_path_with};
pub(crate) use readiness::{check_ready, local};
pub use reaper::Reaper;
pub(crate) use reaper::{clean_up, reaper_main};
pub(crate) use replace::{ReplaceError, replace_process};
pub(crate) use root::NewRoot;
pub use server::LaunchError;
pub(crate) use server::{PendingServer, Server};
pub(crate) use stop::{StopReport, stop};
