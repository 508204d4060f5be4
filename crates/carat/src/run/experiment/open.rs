//! Beginning an experiment, or going on with one.

use crate::analysis::Question;
use crate::config::Experiment;
use crate::core::{ExperimentInfo, Variant};
use crate::process::{Identity, ProcRoot};
use crate::store::{Runner, Store, StoreError};
use crate::target::clean_up;
use std::path::{Path, PathBuf};

/// What the user asked of the results file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The results file.
    pub path: PathBuf,
    /// Whether to go on with it.
    pub resume: bool,
    /// The most blocks, if the user said so.
    pub blocks: Option<u32>,
    /// The seed, if the user said so.
    pub seed: Option<u64>,
}

/// Why an experiment cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The results file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The budget was fixed when the experiment began.
    #[error(
        "{path} was begun with at most {begun} blocks; blocks added after looking at the results would not be evidence, so resume without --blocks, or begin anew with -o"
    )]
    OtherBudget {
        /// The file.
        path: PathBuf,
        /// What was fixed.
        begun: u32,
    },
    /// So was the seed.
    #[error("{path} was begun with seed {begun}; resume without --seed, or begin anew with -o")]
    OtherSeed {
        /// The file.
        path: PathBuf,
        /// What was fixed.
        begun: u64,
    },
}

impl OpenError {
    /// Whether the file is fine, and other options would settle the matter.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::OtherBudget { .. } | Self::OtherSeed { .. } => true,
            Self::Store(error) => matches!(
                error,
                StoreError::Exists(_) | StoreError::OtherPlan { .. } | StoreError::Busy { .. }
            ),
        }
    }
}

/// What is fixed when an experiment begins.
pub fn header(
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
        machine: crate::run::experiment::machine_facts(),
    }
}

/// The question that a results file asks.
pub fn question(header: &ExperimentInfo) -> Question {
    let names: Vec<&str> = header.variants.iter().map(|variant| variant.name.as_str()).collect();
    Question {
        margin: header.margin,
        guards: header.guards.clone().into_iter().collect(),
        max_blocks: header.max_blocks,
        ..Question::new(&names, &header.primary)
    }
}

/// Creates the results file, or opens it to go on, and notes `runner` in it.
///
/// Whatever a killed run left behind is removed first. Nothing is changed where an error is returned.
pub fn open(
    options: &OpenOptions,
    fresh: &ExperimentInfo,
    runner: &Runner,
) -> Result<(Store, ExperimentInfo), OpenError> {
    let path = &options.path;
    let mut store = if options.resume && path.exists() {
        let store = Store::resume(path, fresh)?;
        check(&store, options, fresh)?;
        take_over(&store)?;
        store
    } else {
        Store::create(path, fresh)?
    };
    store.set_runner(Some(runner))?;
    let header = store.header()?;
    Ok((store, header))
}

fn check(store: &Store, options: &OpenOptions, fresh: &ExperimentInfo) -> Result<(), OpenError> {
    let begun = store.header()?;
    let path = || options.path.clone();
    if begun.plan_hash != fresh.plan_hash {
        return Err(StoreError::OtherPlan { path: path(), found: begun.name }.into());
    }
    if options.blocks.is_some_and(|blocks| blocks != begun.max_blocks) {
        return Err(OpenError::OtherBudget { path: path(), begun: begun.max_blocks });
    }
    if options.seed.is_some_and(|seed| seed != begun.seed) {
        return Err(OpenError::OtherSeed { path: path(), begun: begun.seed });
    }
    Ok(())
}

fn take_over(store: &Store) -> Result<(), OpenError> {
    let Some(before) = store.runner()? else { return Ok(()) };
    if ProcRoot::default().alive(before.identity) {
        let (path, pid) = (store.path().to_owned(), before.identity.pid);
        return Err(StoreError::Busy { path, pid }.into());
    }
    clean_up(&before.token, &before.directory);
    Ok(())
}

/// Who this process is, for the results file.
pub fn this_runner(token: &str, directory: &Path) -> Runner {
    let pid = std::process::id();
    let identity = ProcRoot::default().identify(pid).unwrap_or(Identity { pid, start_ticks: 0 });
    Runner { identity, token: token.to_owned(), directory: directory.to_owned() }
}
