//! The formats of results: HTML pages, terminal text, Markdown, CSV, JSON, OpenMetrics, budgets.
//!
//! Every format begins with [`prepare`](redact::prepare) or one of the functions beside it, which remove control characters
//! and secrets from every text, and then escapes for its own syntax. Only [`load`] reads files and [`restore`] writes one; everything else turns results into text.

mod budget;
mod census_cells;
mod census_text;
mod chart;
mod class_aliases;
mod class_text;
mod control_text;
mod difference_text;
mod dry_run;
mod environment_format;
mod explain;
mod exports;
mod facts;
mod figures;
mod fleet_text;
mod forecast_text;
mod histogram;
mod import;
mod least_text;
mod ledger_text;
mod live;
mod machine;
mod machine_text;
mod malloc_text;
mod markdown;
mod memory_series;
mod merge_text;
mod moments;
mod numbers;
mod open_text;
mod page;
mod part_differences;
mod process_names;
mod progress;
mod recording_text;
mod redact;
mod redact_census;
mod redact_rules;
mod redact_tune;
mod restore;
mod route_figures;
mod salvage_text;
mod shared_forms;
mod shared_plan;
mod standing;
mod step_figures;
mod suggest;
mod terminal;
mod text;
mod tune_facts;
mod tune_progress;
mod tune_text;
mod unshared_text;
mod variant_growth_text;
mod wording;

pub use budget::{Budget, BudgetError, BudgetOutcome, Kept, budget};
pub use census_text::{CensusTextOptions, census_text};
pub use difference_text::{CensusFileError, difference_text, read_censuses};
pub use dry_run::dry_run_text;
pub use environment_format::{EnvironmentFormat, shell_line, write_environment, write_start};
pub use explain::{ExplainError, OutsideRequest, file_ledger, process_ledger};
pub use exports::{
    ImportError, SCHEMA, SCHEMA_WITH_CONTROLS, csv, from_json, is_export, json, openmetrics,
};
pub use figures::{FIGURES_SCHEMA, figures};
pub(crate) use fleet_text::{end_text, fleet_json, fleet_text};
pub(crate) use forecast_text::forecast_text;
pub use import::{
    CaratFile, CaratFileError, ReportInput, concluded, is_json, load, load_input, load_results,
};
pub use ledger_text::ledger_text;
pub use live::{LiveRecording, draw_live_recording};
pub use markdown::{MARKER, markdown};
pub(crate) use merge_text::merge_text;
pub use numbers::{count, duration, percent};
pub use page::{PageOptions, comparison_html, html, ledger_html, recording_html, tune_html};
pub use progress::ProgressText;
pub use recording_text::growth_text;
pub(crate) use recording_text::recording_line;
pub use redact_rules::Audience;
pub use redact_tune::SearchReport;
pub use restore::{ExperimentSource, RestoreError, restore};
pub(crate) use salvage_text::salvage_text;
pub use suggest::{KnownServer, SuggestError, suggested_experiment};
pub use terminal::{Style, terminal};
pub use text::day;
pub(crate) use tune_progress::{event_text, progress_line};
pub(crate) use tune_text::tune_text;
pub use unshared_text::unshared_text;
pub use variant_growth_text::variant_growth_text;
