//! Conclusions from trials. The functions are pure: the same trials give the same conclusions to an experiment
//! after every block and to a report years later.
//!
//! Trials are paired within their block, `carat-stats` judges the pairs, and the decisions become verdicts.

mod advice;
mod allocations;
mod census_difference;
mod classes;
mod conclude;
mod controls;
mod curves;
mod diagnosis;
mod diagnostics;
mod forecast;
mod grown_most;
pub mod growth;
mod holder_growth;
mod in_effect;
mod judge;
mod least;
mod machines;
mod moments;
mod next_command;
mod open_comparisons;
mod outcomes;
mod pairs;
mod planned;
mod question;
mod scale;
mod tune_outcome;
mod used_files;
mod warning;

pub use advice::{Finding, findings, findings_beside_growth};
pub use allocations::allocation_profile;
pub use census_difference::classes_of;
pub use census_difference::{
    CensusDifference, CensusFigure, ClassChange, ExplainedTree, FigureChange, LostSize,
    census_difference,
};
pub use classes::class_comparisons;
pub use conclude::conclude;
pub use curves::curves;
pub use diagnosis::{
    Diagnosis, DiagnosisKind, DiagnosisRow, FollowUp, LedgerSource, class_in_question, diagnosis,
    findings_of, keeper,
};
pub use forecast::{Forecast, Outlook, forecast};
pub use grown_most::{GrownFile, GrownMost, grown_most};
pub use holder_growth::{ClassGrown, GrownKind, HolderGrowth, HolderGrowths, holder_growth};
pub use in_effect::leave_out_remedies_in_effect;
pub use judge::{Judge, Judgement};
pub use judge::{NextStep, StopReason};
pub use least::least_distances;
pub use machines::machine_comparisons;
pub use moments::moments;
pub use next_command::next_command;
pub use pairs::Pairs;
pub use planned::{QuestionChanges, QuestionError, question, set_question};
pub use question::Question;
pub use tune_outcome::{
    AblatedSetting, Attempt, Hint, Recommendation, TriedConfiguration, TuneOutcome, TunedMetric,
};
pub use warning::Warning;
