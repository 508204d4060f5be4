//! Conclusions from trials: pure, so that an experiment asks after every block and a report asks
//! years later, and both get the same answer.
//!
//! Trials are paired within their block, the pairs go to `carat-stats`, and what comes back is put
//! into words. Starting trials, storing them and showing conclusions is left to others.

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
