//! What `carat explain` is asked: of which target, how far to look, and what to print or write.

use carat_model::{Ledger, OutsideReading};
use carat_outside::who::KeptTree;
use carat_report::{pprof, speedscope};
use std::path::PathBuf;
use std::time::Duration;

/// One call of `carat explain`.
#[derive(Debug)]
pub(crate) struct ExplainRequest {
    /// A process id or a file.
    pub(crate) target: String,
    /// The variant of a results file; without it the baseline.
    pub(crate) variant: Option<String>,
    pub(crate) details: bool,
    /// Whether the children of the process are left out.
    pub(crate) alone: bool,
    pub(crate) json: bool,
    /// The program for which what is kept is printed.
    pub(crate) profile: Option<KeptProfile>,
    /// The page to write, and whether it is made to be shared.
    pub(crate) page: Option<PathBuf>,
    pub(crate) share: bool,
    /// The experiment file to write.
    pub(crate) suggest: Option<PathBuf>,
    pub(crate) look: AskedLook,
}

/// A program that draws what is kept, by what keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptProfile {
    Speedscope,
    Pprof,
}

impl KeptProfile {
    /// The file of the program.
    pub(crate) fn file(self, trees: &[(String, &KeptTree)]) -> Vec<u8> {
        match self {
            Self::Speedscope => speedscope(trees).into_bytes(),
            // The moment of a dump is unknown, and a file must not differ for the time at which it was written.
            Self::Pprof => pprof(trees, 0),
        }
    }
}

/// What is asked about the memory of a running Ruby, or about that in a heap dump.
#[derive(Debug)]
pub(crate) struct AskedLook {
    pub(crate) no_look: bool,
    /// Lines of the table of classes.
    pub(crate) classes: Option<usize>,
    pub(crate) class: Option<String>,
    pub(crate) owners: bool,
    pub(crate) reach: bool,
    /// Who keeps objects alive: those of a class, or those with most memory.
    pub(crate) who: Option<Option<String>>,
    /// What keeps more than in this earlier output or dump.
    pub(crate) since: Option<PathBuf>,
    pub(crate) unshared: bool,
    pub(crate) max_pause: Duration,
    pub(crate) max_time: Option<Duration>,
}

impl AskedLook {
    /// Whether something is asked for that only a running process can answer.
    pub(crate) fn asks_a_process(&self) -> bool {
        self.who.is_some() || self.asks_for_more()
    }

    /// Whether something beside who keeps what is asked for.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.class.is_some() || self.owners || self.reach || self.unshared
    }

    /// The class whose keepers are asked for.
    pub(crate) fn who_class(&self) -> Option<&str> {
        self.who.as_ref()?.as_deref()
    }

    /// Whether something was asked for that no process answered, or that one failed to answer.
    pub(crate) fn is_unanswered(&self, reading: &OutsideReading) -> bool {
        let all = &reading.processes;
        let unknown = [
            self.class.is_some() && all.iter().all(|census| census.class.is_none()),
            self.owners && all.iter().all(|census| census.owners.is_none()),
            self.reach && all.iter().all(|census| census.reach.is_none()),
            self.who.is_some() && all.iter().all(|census| census.who.is_none()),
        ];
        unknown.contains(&true) || (self.asks_a_process() && !reading.refused.is_empty())
    }
}

impl ExplainRequest {
    /// Whether more than one screen is asked for, or nothing is known that fills one.
    pub(crate) fn is_detailed(&self, ledger: &Ledger) -> bool {
        let look = &self.look;
        let asked = self.details || look.asks_a_process() || look.no_look;
        asked || look.classes.is_some() || ledger.processes.is_empty()
    }

    /// Whether an answer about who keeps what is all that was asked for.
    pub(crate) fn is_only_who(&self) -> bool {
        !self.look.asks_for_more() && !self.details
    }
}
