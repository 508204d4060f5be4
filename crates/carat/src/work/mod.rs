//! What a command does between its arguments and its output: trials with their progress, a search in its folder, a watch over a
//! fleet, a load, and what `exec` chooses and prints.

mod chosen;
mod fleet_watch;
mod injected;
mod load;
mod printed;
mod search_folder;
mod temporary_folder;
mod trials;

pub(crate) use chosen::{GivenSettings, chosen_settings};
pub(crate) use fleet_watch::{WatchEnd, watch_fleet};
pub(crate) use injected::{find_ruby, injected, warn};
pub(crate) use load::{print_json, read_scenarios, run_load};
pub(crate) use printed::Printing;
pub(crate) use search_folder::{FolderHost, SearchOpening, open_search, write_in_search};
pub(crate) use temporary_folder::TemporaryFolder;
pub(crate) use trials::{ShownResults, prepare, run_trials, show_results};
