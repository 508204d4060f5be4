//! How a trial ended; an outcome is data, never silently retried away.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything happened as planned and the figures count.
    Ok,
    /// The server ended by itself after it had been ready.
    Crashed,
    /// The kernel killed a process of the tree for want of memory.
    OomKilled,
    /// The server did not become ready within its deadline, or ended before.
    NeverReady,
    /// The load could not be driven as planned, so the figures mean nothing.
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

    /// The outcome of that word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ok, Self::Crashed, Self::OomKilled, Self::NeverReady, Self::LoadInvalid]
            .into_iter()
            .find(|outcome| outcome.word() == word)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
