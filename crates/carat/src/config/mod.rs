//! The experiment file, parsed into validated types, and the order of trials that follows from it.
//!
//! The only inputs are the file itself and the content of the file that its load names. `settings` defines what a setting does.

mod added;
#[cfg(test)]
mod any_number;
mod canonical;
mod command;
mod content;
mod controls;
mod error;
mod experiment;
mod file;
mod order;
mod parse;
mod schema;
mod task;
mod template;
mod text_file;
mod tune;

pub use carat_model::{Percent, Span};
pub use command::CommandLine;
pub use content::{changed_content, planned_content};
pub use error::ExperimentFileError;
pub use experiment::{
    CommandSpec, Experiment, MeasureSpec, ReadyCheck, ReadyCondition, ServerSpec, ServiceSpec,
    TrialLimits, TrialLoad, TrialTask, VariantSpec,
};
pub use order::{BlockPosition, block_objects, block_order, trial_id};
pub use schema::experiment_schema;
pub use template::{Placeholders, fill, fill_address};
pub use text_file::read_text_file;
pub use tune::{BlockSpec, KnobLevel, KnobSpec, TuneSpec, TunedVariant};
