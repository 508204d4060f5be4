//! Conclusions from trials. The functions are pure: the same trials give the same conclusions to an experiment
//! after every block and to a report years later.
//!
//! Trials are paired within their block, `carat-stats` judges the pairs, and the decisions become verdicts.

mod conclude;
mod curves;
mod diagnostics;
pub mod forecast;
pub mod growth;
pub mod judge;
pub mod outcomes;
pub mod pairs;
pub mod question;
pub mod warning;

pub use conclude::conclude;
pub use curves::curves;
pub use forecast::{Forecast, Outlook, forecast};
pub use judge::{Judge, Judgement, NextStep, StopReason, judge};
pub use outcomes::Outcomes;
pub use pairs::Dropped;
pub use question::Question;
pub use warning::Warning;
