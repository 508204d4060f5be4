//! `carat watch`: rounds until it is stopped, rules, and what its store has of an end or of a period.

mod act;
mod last;
mod period;
mod rules;
mod run;
mod store;

pub(crate) use last::{LastRequest, print_last_words};
pub(crate) use period::watched_period;
pub(crate) use rules::RuleRequest;
pub(crate) use run::{WatchRequest, watch};
