//! The experiment file: read, checked, and expanded into an order of trials.
//!
//! Pure but for reading the file itself. What a setting does is the business of `settings`.

mod amount;
mod error;
mod file;
mod order;
mod template;

pub use crate::core::{LoadTable, Span};
pub use amount::Percent;
pub use error::PlanError;
pub use file::{
    Experiment, Measure, Ready, ServerTable, ServiceTable, Trials, VariantTable, unknown_metric,
};
pub use order::{BlockPosition, block_order, trial_id};
pub use template::{Values, fill};
