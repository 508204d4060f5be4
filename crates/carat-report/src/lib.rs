//! Results as text: HTML pages, a terminal's text, Markdown, CSV, JSON, OpenMetrics, budgets.
//!
//! Every format begins with a function of `carat-redact`, which removes control characters and secrets from every text, and then
//! escapes for its own syntax. The crate is pure: it reads no process and no file. It imports `carat-redact`, `carat-model`,
//! `carat-analysis`, `carat-stats` and the catalogue of settings. Public is one function for each format, [`numbers`] and [`text`] for
//! those who print beside it, and of `carat-redact` what those need who export.

mod allocation_text;
mod budget;
mod census_cells;
mod census_text;
mod chart;
mod class_text;
mod control_text;
mod details;
mod diagnosis_text;
mod difference_text;
mod dump_text;
mod earlier;
mod environment_format;
mod exports;
mod facts;
mod figures;
mod forecast_text;
mod histogram;
mod holders_text;
mod host_text;
mod interval_bar;
mod jemalloc_text;
mod kept_samples;
mod layout;
mod least_text;
mod ledger_files;
mod ledger_text;
mod lists;
mod machine;
mod machine_text;
mod malloc_text;
mod mark;
mod markdown;
mod memory_series;
mod moments;
pub mod numbers;
mod open_text;
mod page;
mod part_differences;
mod process_names;
mod profiles;
mod recording_text;
mod route_figures;
mod standing;
mod step_figures;
mod table;
mod terminal;
#[cfg(test)]
mod testing;
pub mod text;
mod tune_facts;
mod tune_text;
mod unshared_text;
mod use_it;
mod variant_growth_text;
mod verdict;
mod verdict_text;
mod watch_text;
mod who_text;
mod wording;

pub use budget::{Budget, BudgetError, BudgetOutcome, Kept, budget, budget_next};
pub use carat_redact::{
    Audience, SearchReport, has_hidden_parts, redact_ledger, redact_outside, redact_recording,
};
pub use census_text::{CensusTextOptions, census_text};
pub use diagnosis_text::{DiagnosisTarget, diagnosis_text, next_text};
pub use difference_text::{after_difference, difference_text, grown_most_text};
pub use dump_text::{DumpHead, dump_text};
pub use earlier::OutputForm;
pub use environment_format::{EnvironmentFormat, shell_line, write_environment, write_start};
pub use exports::{
    ImportError, SCHEMA, SCHEMA_WITH_CONTROLS, csv, from_json, is_export, json, openmetrics,
};
pub use facts::never_ready;
pub use figures::{FIGURES_SCHEMA, figures};
pub use forecast_text::{first_verdict_text, forecast_text};
pub use holders_text::holder_growth_text;
pub use host_text::{host_lines, host_text, tree_text};
pub use layout::Style;
pub use ledger_text::{ledger_text, parts_text, rest_text};
pub use markdown::{MARKER, markdown};
pub use numbers::{count, duration, percent};
pub use page::{
    PageOptions, comparison_html, html, ledger_html, recording_html, tune_html, watch_html,
};
pub use profiles::{pprof, speedscope};
pub use recording_text::growth_text;
pub use terminal::terminal;
pub use text::day;
pub use tune_text::tune_text;
pub use unshared_text::unshared_text;
pub use variant_growth_text::variant_growth_text;
pub use verdict_text::{NextCommands, resume_command, verdict_text};
pub use watch_text::{last_words_text, watched_name, watched_text};
pub use who_text::{dump_who_text, explain_who, who_text};
