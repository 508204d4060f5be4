//! Conclusions from trials. The functions are pure: the same trials give the same conclusions to an experiment
//! after every block and to a report years later.
//!
//! Trials are paired within their block, `carat-stats` judges the pairs, and the decisions become verdicts.

mod census_difference;
mod classes;
mod conclude;
mod controls;
mod curves;
mod diagnostics;
mod forecast;
pub mod growth;
mod judge;
mod least;
mod machines;
mod moments;
mod open_comparisons;
mod outcomes;
mod pairs;
mod question;
mod scale;
mod warning;

pub(crate) use census_difference::classes_of;
pub use census_difference::{
    CensusDifference, CensusFigure, ClassChange, FigureChange, census_difference,
};
pub use classes::class_comparisons;
pub(crate) use conclude::conclude;
pub use curves::curves;
pub(crate) use forecast::{Forecast, Outlook, forecast};
pub(crate) use judge::NextStep;
pub use judge::{Judge, Judgement};
pub use least::least_distances;
pub(crate) use machines::machine_comparisons;
pub use moments::moments;
pub use question::Question;
pub(crate) use warning::Warning;
