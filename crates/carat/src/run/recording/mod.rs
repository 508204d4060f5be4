//! A recording: one process tree, sampled until it ends, its load ends or the user stops it.

mod active;
mod allocations;
mod conclude;
mod load;
mod looks;
mod recorder;
mod subject;

pub(crate) use active::{ActiveRecording, LookPace, RecordingDisplay, RecordingRequest};
pub(crate) use conclude::is_invalid;
pub(crate) use load::RecordingLoad;
pub(crate) use recorder::Recorder;
pub(crate) use subject::RecordingSubject;

use crate::store::recording::RecordingError;
use crate::target::{InjectError, LaunchError};
use carat_load::GeneratorError;
use carat_load::target::TargetError;
use carat_model::load::LoadFlagError;
use carat_proc::process::ProcError;
use std::io;
use std::path::PathBuf;

/// Why nothing could be recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("there is no process {0}; `carat ps` lists the Rubies here")]
    NoProcess(u32),
    #[error("cannot record process {pid}")]
    Attach { pid: u32, source: ProcError },
    #[error("{what}")]
    Machine { what: &'static str, source: io::Error },
    #[error("cannot write {path}; check the folder and the free space, or use -o")]
    Journal { path: PathBuf, source: io::Error },
    #[error("cannot drive load to {0}; write the URL as http://127.0.0.1:9292/path")]
    LoadUrl(String),
    #[error("cannot drive this load")]
    LoadOptions(#[source] LoadFlagError),
    #[error(transparent)]
    LoadNeeds(#[from] GeneratorError),
    #[error(transparent)]
    LoadTarget(#[from] TargetError),
    #[error(transparent)]
    Inject(#[from] InjectError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    File(#[from] RecordingError),
}

impl RecordError {
    fn machine(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Machine { what, source }
    }
}
