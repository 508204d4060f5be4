//! What a command does between its arguments and its output: trials with their progress, a search in its folder, a watch over a
//! fleet, a load, a reading of a process or a dump, and what `exec` chooses and prints.

mod budget_checks;
mod chosen;
mod compare;
mod demo;
mod diff;
mod exit;
mod explain;
mod explain_dump;
mod explain_request;
mod fleet;
mod fleet_watch;
mod heap_dump;
mod init;
mod injected;
mod install;
mod load;
mod not_ruby;
mod plan;
mod printed;
mod record;
mod rendered;
mod search;
mod search_folder;
mod temporary_folder;
mod trials;
mod watch;
mod workload;

pub(crate) use budget_checks::check_budgets;
pub(crate) use chosen::{GivenSettings, chosen_settings};
pub(crate) use compare::{ShownComparison, compare, next_for_file, print_planned, resume_of_file};
pub(crate) use demo::{DemoRequest, run_demo};
pub(crate) use diff::diff;
pub(crate) use exit::Exit;
pub(crate) use explain::explain;
pub(crate) use explain_request::{AskedLook, ExplainRequest, KeptProfile};
pub(crate) use fleet::{conclude_fleet, plan_fleet, run_fleet_block};
pub(crate) use heap_dump::{HeapDumpRequest, write_heap_dump};
pub(crate) use init::write_app_experiment;
pub(crate) use injected::{ReplacingServer, become_server, find_ruby};
pub(crate) use install::{install_libraries, remove_libraries};
pub(crate) use load::{print_json, read_scenarios, run_load};
pub(crate) use plan::{Pilot, print_forecast};
pub(crate) use printed::Printing;
pub(crate) use record::{RecordedServer, record};
pub(crate) use rendered::{ReportFormat, open_in_browser, rendered, write_rendered};
pub(crate) use search::{SearchRequest, print_plan, search};
pub(crate) use trials::run_trials;
pub(crate) use watch::{
    LastRequest, RuleRequest, WatchRequest, print_last_words, watch, watched_period,
};
pub(crate) use workload::unpack_workload;
