//! Exit codes, one meaning each.

use crate::fleet::FleetError;
use crate::run::experiment::ExperimentError;
use carat_analysis::QuestionError;
use carat_model::load::LoadFlagError;
use carat_model::{Results, Role, Verdict};
use std::process::ExitCode;

/// How carat ends. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    Failed,
    /// The command line or the experiment file is wrong.
    Usage,
    /// The trials do not decide the question.
    Undecided,
    /// The trials are no evidence: the server or the load failed.
    Invalid,
    Broken,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Undecided => 3,
            Self::Invalid => 4,
            Self::Broken => 99,
            Self::Interrupted => 130,
        }
    }

    /// The one that says more of results: a broken budget outweighs one not proven, and that one a kept budget.
    pub(crate) fn worse(self, other: Self) -> Self {
        if self.code() >= other.code() { self } else { other }
    }

    /// The code for an error that reached `main`.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        // An unusable results file is a failure in every command; only a conflict with the options is wrong usage.
        let experiment = error.downcast_ref::<ExperimentError>();
        let wrong_usage = experiment.is_some_and(ExperimentError::is_wrong_usage)
            || error.is::<QuestionError>()
            || error.chain().any(|cause| cause.is::<LoadFlagError>())
            || error.downcast_ref().is_some_and(FleetError::is_wrong_usage);
        if wrong_usage { Self::Usage } else { Self::Failed }
    }

    /// The code for results: whether a primary question is undecided.
    pub(crate) fn of_verdicts(results: &Results) -> Self {
        let with_controls = results.controls.iter().map(|compared| &compared.conclusion);
        let all = results.conclusions.iter().chain(with_controls);
        let mut primaries = all.filter(|one| one.role == Role::Primary);
        let undecided = primaries.any(|one| one.verdict == Verdict::Undecided);
        if undecided { Self::Undecided } else { Self::Fine }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
