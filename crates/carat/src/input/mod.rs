//! What a command is asked about: a running process, or a file that carat wrote.

mod app;
mod censuses;
mod dump_file;
mod experiment_file;
mod experiment_text;
mod explain;
mod host;
mod import;
mod keeper;
mod pid;
mod running;
mod suggest;

pub use app::{AppFolder, AppFolderError, app_experiment};
pub use censuses::{CensusFileError, read_explained};
pub use dump_file::{dump_text_bytes, is_dump, open_dump};
pub use experiment_file::{ExperimentSource, experiment_of};
pub use explain::{ExplainError, OutsideRequest, file_ledger, process_ledger};
pub use host::{host_trees, in_no_tree, since_boot};
pub use import::{
    CaratFile, CaratFileError, ReportInput, concluded, load, load_input, load_results,
};
pub use pid::parse_pid;
pub use suggest::{KnownServer, SuggestError, suggested_experiment};
