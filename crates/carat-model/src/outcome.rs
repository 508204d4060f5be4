//! How a trial ended. A failed trial is recorded, not silently repeated.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The trial ran as planned and its figures count.
    Ok,
    /// The server exited after it had been ready, or the command of `[run]` failed or missed its deadline.
    Crashed,
    /// The kernel killed a process of the tree because memory ran out.
    OomKilled,
    /// The server was not ready within its deadline, or exited before, or the command of `[prepare]` failed.
    NeverReady,
    /// The load could not be driven as planned, so the figures are invalid.
    LoadInvalid,
}

impl Outcome {
    /// The word of the results file, of JSON and of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Crashed => "crashed",
            Self::OomKilled => "oom-killed",
            Self::NeverReady => "never-ready",
            Self::LoadInvalid => "load-invalid",
        }
    }

    /// The outcome for a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ok, Self::Crashed, Self::OomKilled, Self::NeverReady, Self::LoadInvalid]
            .into_iter()
            .find(|outcome| outcome.word() == word)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps a width that a table asks for; `write_str` would ignore it.
        f.pad(self.word())
    }
}
