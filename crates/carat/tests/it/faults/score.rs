//! The result of a fault's test: tries, survived tries, and what was lost.

use serde::{Deserialize, Serialize};
use std::fs;

/// Names the file to which the one test that the table runs writes its score.
pub(crate) const SCORE: &str = "CARAT_TEST_SCORE";
/// Number of tries of a randomised test.
pub(crate) const TRIES: &str = "CARAT_TEST_TRIES";

/// Tries of one fault.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) tries: u32,
    /// Tries in which everything held.
    pub(crate) survived: u32,
    /// What was lost; empty if nothing.
    pub(crate) lost: String,
    #[serde(skip)]
    failures: Vec<String>,
}

impl Score {
    /// The score of a test that writes none.
    pub(crate) fn of_one(held: bool) -> Self {
        Self { tries: 1, survived: u32::from(held), ..Self::default() }
    }

    /// Counts one try; `Err` says what did not hold.
    pub(crate) fn count(&mut self, held: Result<(), String>) {
        self.tries += 1;
        match held {
            Ok(()) => self.survived += 1,
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Writes the score for the table, and fails if anything did not hold.
    pub(crate) fn finish(self) {
        if let Some(path) = std::env::var_os(SCORE) {
            fs::write(path, serde_json::to_string(&self).unwrap()).unwrap();
        }
        assert!(self.tries > 0, "nothing was tried");
        let failures = &self.failures[..self.failures.len().min(5)];
        assert!(failures.is_empty(), "{} of {}: {failures:#?}", self.survived, self.tries);
    }
}

/// Number of tries: the default, or what the environment says.
pub(crate) fn tries(default: u32) -> u32 {
    std::env::var(TRIES).map_or(default, |count| count.parse().expect("a number of tries"))
}

/// `Err` with `what` if the condition does not hold.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
