//! What runs a trial, seen from above.

use crate::core::{Bytes, Trial};
use crate::load::LoadError;
use crate::target::LaunchError;
use std::fmt;
use std::io;

/// Which trial to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialPlan {
    /// Its id.
    pub id: String,
    /// Block, 0 for the warm-up block.
    pub block: u32,
    /// Place within the block.
    pub position: u32,
    /// Index of the variant.
    pub variant: usize,
    /// Name of the variant.
    pub name: String,
}

/// Where a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Services start.
    Services,
    /// The server starts and is not ready yet.
    Boot,
    /// Requests that are not measured.
    WarmUp,
    /// The measured load.
    Load,
    /// Rest before the final figures.
    Settle,
    /// The tree is being stopped.
    Stop,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Services => "services",
            Self::Boot => "boot",
            Self::WarmUp => "warm-up",
            Self::Load => "load",
            Self::Settle => "settle",
            Self::Stop => "stop",
        })
    }
}

/// How far a running trial is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Where it is.
    pub phase: Phase,
    /// Share of the phase that is done, where that is known.
    pub done: Option<f64>,
    /// What the tree weighed last.
    pub memory: Option<Bytes>,
}

/// Why a trial could not be run at all; an outcome of a trial that did run is part of [`Trial`].
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The user asked to stop.
    #[error("stopped by Ctrl-C")]
    Interrupted,
    /// The server or a service cannot be started.
    #[error("{what}: {source}")]
    Launch {
        /// Which one.
        what: String,
        /// Why.
        source: LaunchError,
    },
    /// A service did not become ready.
    #[error("{0}")]
    Service(String),
    /// The load generator could not be started.
    #[error("cannot drive the load: {0}")]
    Load(#[from] LoadError),
    /// Something of the machine's failed.
    #[error("{what}: {source}")]
    Machine {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Processes survived KILL.
    #[error("{0} could not be stopped; the kernel holds them, so look at them with ps(1)")]
    Left(String),
}

/// Runs trials.
pub trait TrialRunner {
    /// Runs one trial to its end and leaves nothing behind, whatever happens.
    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Trial, TrialError>;
}
