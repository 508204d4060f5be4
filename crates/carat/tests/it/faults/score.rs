//! What one fault's test saw: how often it tried, how often everything held, what was lost.

use serde::{Deserialize, Serialize};
use std::fs;

/// Where the table wants to read the score of the one test that it runs.
pub(crate) const SCORE: &str = "CARAT_TEST_SCORE";
/// How often a test that tries at random shall try.
pub(crate) const TRIES: &str = "CARAT_TEST_TRIES";

/// Tries of one fault; everything must have held in all of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Score {
    /// How often it was tried.
    pub(crate) tries: u32,
    /// How often everything held.
    pub(crate) survived: u32,
    /// What was lost, in words; nothing where empty.
    pub(crate) lost: String,
    #[serde(skip)]
    failures: Vec<String>,
}

impl Score {
    /// What a test that keeps no score comes to.
    pub(crate) fn of_one(held: bool) -> Self {
        Self { tries: 1, survived: u32::from(held), ..Self::default() }
    }

    /// One try: `Err` says what did not hold.
    pub(crate) fn count(&mut self, held: Result<(), String>) {
        self.tries += 1;
        match held {
            Ok(()) => self.survived += 1,
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Leaves the score to the table, and fails where anything did not hold.
    pub(crate) fn finish(self) {
        if let Some(path) = std::env::var_os(SCORE) {
            fs::write(path, serde_json::to_string(&self).unwrap()).unwrap();
        }
        assert!(self.tries > 0, "nothing was tried");
        let failures = &self.failures[..self.failures.len().min(5)];
        assert!(failures.is_empty(), "{} of {}: {failures:#?}", self.survived, self.tries);
    }
}

/// How often to try: `usually`, or what the environment says.
pub(crate) fn tries(usually: u32) -> u32 {
    std::env::var(TRIES).map_or(usually, |count| count.parse().expect("a number of tries"))
}

/// `Err` with `what` unless it holds.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
