//! Why a fleet cannot go on.

use crate::run::experiment::{ExperimentError, RunError};
use crate::store::{MergeError, StoreError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a command of a fleet failed. Parts that exist are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The folder has no plan.
    #[error("{0} holds no fleet; make one with `carat fleet plan EXPERIMENT.toml -o {0}`")]
    NoPlan(PathBuf),
    /// The folder has a plan already.
    #[error("{0} holds a fleet already; give another folder with -o")]
    Exists(PathBuf),
    /// The plan cannot be understood.
    #[error("cannot read {path}: {message}; plan the fleet again in another folder")]
    Plan {
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// What is asked of the plan is impossible.
    #[error("{0}")]
    Request(String),
    /// Another carat than the one that planned.
    #[error(
        "this carat is not the one that planned {0}, so its trials would not be comparable; run the same file on every machine, or plan the fleet again"
    )]
    OtherBinary(PathBuf),
    /// The copy of the experiment was changed.
    #[error(
        "{0} is not the experiment that was planned, so its trials would not be comparable; undo the change, or plan the fleet again"
    )]
    OtherPlan(PathBuf),
    /// A part of another fleet.
    #[error("{0} is of another fleet than the plan in {1}; move it away")]
    Foreign(PathBuf, PathBuf),
    /// The index of the block is unknown.
    #[error(
        "which block? give --block N; Slurm, Kubernetes and AWS Batch name it in the environment of an array's job"
    )]
    NoIndex,
    /// A file or folder cannot be used.
    #[error("cannot use {path}: {source}; check the free space and the permissions there")]
    Io {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// A command of the engine failed.
    #[error("`{command}` failed: {detail}")]
    Engine {
        command: String,
        /// What it printed, or why it did not start.
        detail: String,
    },
    /// The experiment cannot run here.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The block did not come to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Parts cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A results file.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FleetError {
    /// Whether other options or another experiment file would avoid the error.
    pub fn is_wrong_usage(&self) -> bool {
        match self {
            Self::Exists(_) | Self::Request(_) | Self::NoIndex => true,
            Self::Experiment(error) => error.is_wrong_usage(),
            _ => false,
        }
    }

    /// Turns a system error into one about `path`.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
