//! Begins an experiment or resumes one.

use crate::config::Experiment;
use crate::core::{ExperimentInfo, Variant};
use crate::process::{Identity, ProcRoot};
use crate::store::{Runner, Store, StoreError};
use crate::target::clean_up;
use std::path::{Path, PathBuf};

/// Options that concern the results file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The results file.
    pub path: PathBuf,
    /// Whether to continue an existing file.
    pub resume: bool,
    /// The most blocks, if given.
    pub blocks: Option<u32>,
    /// The seed, if given.
    pub seed: Option<u64>,
}

/// Why an experiment can neither begin nor resume.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The results file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The number of blocks was fixed when the experiment began.
    #[error(
        "{path} was begun with at most {begun} blocks; blocks added after looking at the results would not be evidence, so resume without --blocks, or begin another file with -o"
    )]
    OtherBudget {
        /// The file.
        path: PathBuf,
        /// The fixed number.
        begun: u32,
    },
    /// The seed was fixed when the experiment began.
    #[error(
        "{path} was begun with seed {begun}; resume without --seed, or begin another file with -o"
    )]
    OtherSeed {
        /// The file.
        path: PathBuf,
        /// The fixed seed.
        begun: u64,
    },
}

impl OpenError {
    /// Whether the file is usable, and other options would avoid the error.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::OtherBudget { .. } | Self::OtherSeed { .. } => true,
            Self::Store(error) => matches!(
                error,
                StoreError::Exists(_)
                    | StoreError::OtherPlan { .. }
                    | StoreError::OlderPlan { .. }
                    | StoreError::Busy { .. }
            ),
        }
    }
}

/// What is fixed when an experiment begins.
pub fn experiment_info(
    experiment: &Experiment,
    variants: Vec<Variant>,
    seed: u64,
    blocks: Option<u32>,
) -> ExperimentInfo {
    let guards = &experiment.measure.guards;
    ExperimentInfo {
        name: experiment.name.clone(),
        about: experiment.about.clone(),
        plan_hash: experiment.hash(),
        plan_text: experiment.text.clone(),
        seed,
        max_blocks: blocks.unwrap_or(experiment.trials.max),
        primary: experiment.measure.primary.id.to_owned(),
        margin: experiment.trials.margin.0,
        guards: guards.iter().map(|(name, limit)| ((*name).to_owned(), limit.0)).collect(),
        variants,
    }
}

/// Creates the results file, or opens it to resume, and records `runner` in it.
///
/// What a killed run left behind is removed first. Nothing is changed where an error is returned.
pub fn open(
    options: &OpenOptions,
    fresh: &ExperimentInfo,
    runner: &Runner,
) -> Result<(Store, ExperimentInfo), OpenError> {
    let path = &options.path;
    let mut store = if options.resume && path.exists() {
        let store = Store::resume(path, fresh)?;
        check(&store, options, fresh)?;
        clean_up_after_last_runner(&store)?;
        store
    } else {
        Store::create(path, fresh)?
    };
    store.set_runner(Some(runner))?;
    let info = store.info()?;
    Ok((store, info))
}

fn check(store: &Store, options: &OpenOptions, fresh: &ExperimentInfo) -> Result<(), OpenError> {
    let begun = store.info()?;
    let path = options.path.clone();
    if begun.plan_hash != fresh.plan_hash {
        // The same text has another hash only in another canonical form.
        return Err(match begun.plan_text == fresh.plan_text {
            true => StoreError::OlderPlan { path }.into(),
            false => StoreError::OtherPlan { path, found: begun.name }.into(),
        });
    }
    if options.blocks.is_some_and(|blocks| blocks != begun.max_blocks) {
        return Err(OpenError::OtherBudget { path, begun: begun.max_blocks });
    }
    if options.seed.is_some_and(|seed| seed != begun.seed) {
        return Err(OpenError::OtherSeed { path, begun: begun.seed });
    }
    Ok(())
}

fn clean_up_after_last_runner(store: &Store) -> Result<(), OpenError> {
    let Some(last) = store.runner()? else { return Ok(()) };
    if ProcRoot::default().alive(last.identity) {
        let (path, pid) = (store.path().to_owned(), last.identity.pid);
        return Err(StoreError::Busy { path, pid }.into());
    }
    clean_up(&last.token, &last.directory);
    Ok(())
}

/// This process as the runner of an experiment.
pub fn this_runner(token: &str, directory: &Path) -> Runner {
    let pid = std::process::id();
    let identity = ProcRoot::default().identify(pid).unwrap_or(Identity { pid, start_ticks: 0 });
    Runner { identity, token: token.to_owned(), directory: directory.to_owned() }
}
