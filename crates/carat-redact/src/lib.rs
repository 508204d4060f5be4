//! What is removed from results, recordings, ledgers and readings before anybody sees them: control characters and secrets always;
//! in a shared report also whatever may say who ran it, and where.
//!
//! Values in, values of the same type out: the crate is pure and lays nothing out. Every format of `carat-report` begins with one of
//! these functions, so that no layout can forget it. It imports `carat-model`, `carat-analysis`, `carat-outside` and the catalogue of
//! settings. Public is one function for each kind of content, and for whom it is.

mod class_aliases;
mod forms;
mod outside;
mod plan;
mod results;
mod rules;
mod search;
#[cfg(test)]
mod tests;
mod who;
mod word_list;

pub use outside::redact_outside;
pub use results::{redact_ledger, redact_recording, redact_results};
pub use rules::{Audience, has_hidden_parts};
pub use search::{SearchReport, redact_search};
