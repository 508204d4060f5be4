//! The interface of a trial runner.

use crate::target::LaunchError;
use carat_load::GeneratorError;
use carat_model::{Bytes, Trial};
use std::fmt;
use std::io;
use std::time::Duration;

/// Which trial to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialPlan {
    pub id: String,
    /// Block, 0 for the warm-up block.
    pub block: u32,
    /// Position within the block.
    pub position: u32,
    /// Index of the variant.
    pub variant: usize,
    /// Name of the variant.
    pub name: String,
    /// Objects that a command makes before its program begins.
    pub objects: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialPhase {
    /// Services start.
    Services,
    /// The command of `[prepare]` runs.
    Prepare,
    /// The server starts and is not ready yet.
    Boot,
    /// Requests that are not measured, before the load.
    WarmUp,
    /// The measured load.
    Load,
    /// The command of `[run]` runs.
    Run,
    /// A pause before the final figures.
    Settle,
    /// Objects are counted by class, after the final figures.
    Census,
    /// A wait of this length after the final figures.
    Idle(Duration),
    /// The tree is being stopped.
    Stop,
    /// The command of `[cleanup]` runs.
    Cleanup,
}

impl fmt::Display for TrialPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Services => "services",
            Self::Prepare => "prepare",
            Self::Boot => "boot",
            Self::WarmUp => "warm-up",
            Self::Load => "load",
            Self::Run => "run",
            Self::Settle => "settle",
            Self::Census => "census",
            Self::Idle(time) => return f.pad(&format!("idle {} s", time.as_secs_f64())),
            Self::Stop => "stop",
            Self::Cleanup => "cleanup",
        })
    }
}

/// Progress of a running trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialProgress {
    pub phase: TrialPhase,
    /// Completed share of the phase, if known.
    pub done: Option<f64>,
    /// Memory of the tree in the newest sample.
    pub memory: Option<Bytes>,
}

/// Why a trial could not be run. A trial that ran has an outcome instead, as part of [`Trial`].
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The user requested to stop.
    #[error("interrupted")]
    Interrupted,
    /// The server or a service cannot be started.
    #[error("{what}: {source}")]
    Launch {
        /// The server or service.
        what: String,
        source: LaunchError,
    },
    /// What runs beside the server could not be set up: a service, a placeholder, a folder.
    #[error("{0}")]
    Setup(String),
    /// The command of `[cleanup]` failed in a trial that has no outcome.
    #[error("{0}; what it should have removed is still there")]
    Cleanup(String),
    /// The load generator could not be started.
    #[error("cannot drive the load: {0}")]
    Load(#[from] GeneratorError),
    /// A system call failed.
    #[error("{what}: {source}")]
    Machine {
        /// The failed step.
        what: String,
        source: io::Error,
    },
    /// Processes survived KILL.
    #[error("{0} could not be stopped; the kernel keeps them alive, see ps(1)")]
    Survivors(String),
}

impl TrialError {
    /// Turns a failed system call into an error about `what`.
    pub(crate) fn machine(what: &str) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_owned();
        move |source| Self::Machine { what, source }
    }
}

/// Runs trials.
pub trait TrialRunner {
    /// Runs one trial to its end. Leaves no process and no file behind, whatever happens.
    fn run(
        &mut self,
        plan: &TrialPlan,
        report: &mut dyn FnMut(TrialProgress),
    ) -> Result<Trial, TrialError>;
}
