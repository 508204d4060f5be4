//! What a command shows while it works, and of the files it handles: progress, plans, live charts, merges, salvages.
//!
//! Results are laid out by `carat-report`.

mod display;
mod dry_run;
mod effort;
mod fleet_text;
mod host;
mod host_watch;
mod live;
mod merge_text;
pub(crate) mod output;
mod own_output;
mod progress;
mod recording_line;
mod recording_view;
mod salvage_text;
mod tune_progress;
mod usage_tip;

pub(crate) use display::ProgressDisplay;
pub use dry_run::{dry_run_details, dry_run_text};
pub use effort::ExperimentEffort;
pub(crate) use fleet_text::{end_text, fleet_json, fleet_text};
pub(crate) use host::{HostScreen, draw_host};
pub(crate) use host_watch::watch_host;
pub use live::{LiveRecording, draw_live_recording};
pub(crate) use merge_text::merge_text;
pub(crate) use own_output::{check_output, check_replaced};
pub use progress::ProgressText;
pub(crate) use recording_line::recording_line;
pub(crate) use recording_view::RecordingView;
pub(crate) use salvage_text::salvage_text;
pub(crate) use tune_progress::{event_text, progress_line};
pub(crate) use usage_tip::with_tip;
