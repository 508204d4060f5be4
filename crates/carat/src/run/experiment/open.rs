//! Begins an experiment or resumes one.

use crate::config::Experiment;
use crate::run::experiment::changed::{ChangeError, adopt, move_aside};
use crate::store::{Runner, Store, StoreError, is_results_file};
use crate::target::clean_up;
use carat_analysis::{Judge, question};
use carat_model::{ExperimentInfo, Variant, count};
use carat_proc::process::{Identity, ProcRoot};
use std::path::{Path, PathBuf};

/// Options that concern the results file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The results file.
    pub path: PathBuf,
    /// Whether to continue an existing file.
    pub resume: bool,
    /// Whether to move an existing file aside and begin anew.
    pub fresh: bool,
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
    /// The experiment file was changed since.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The number of blocks was fixed when the experiment began.
    #[error(
        "{path} was begun with at most {}; blocks added after looking at the results would not be evidence, so resume without --blocks{}, or begin another file with -o",
        count(*begun, "block"),
        fewest.map(|fewest| format!(" or with {fewest}, the fewest that can decide")).unwrap_or_default()
    )]
    OtherBudget {
        path: PathBuf,
        /// The fixed number.
        begun: u32,
        /// The one other number that is allowed, if any: [`Judge::blocks_to_add_up_to`].
        fewest: Option<u32>,
    },
    /// A fleet's blocks are tied to its machines.
    #[error(
        "{0} has the blocks of a fleet; continue with `carat fleet submit` and `carat fleet watch`, or begin another file with -o"
    )]
    Fleet(PathBuf),
    /// A device or a folder, which other programs may need where it is.
    #[error("{0} is not a file, so it is not moved aside; name another with -o")]
    NotAFile(PathBuf),
    /// The seed was fixed when the experiment began.
    #[error(
        "{path} was begun with seed {begun}; resume without --seed, or begin another file with -o"
    )]
    OtherSeed {
        path: PathBuf,
        /// The fixed seed.
        begun: u64,
    },
}

impl OpenError {
    /// Whether the file is usable, and other options would avoid the error.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::OtherBudget { .. }
            | Self::OtherSeed { .. }
            | Self::Fleet(_)
            | Self::NotAFile(_)
            | Self::Change(ChangeError::Changed { .. }) => true,
            Self::Store(error) | Self::Change(ChangeError::Store(error)) => matches!(
                error,
                StoreError::Exists(_)
                    | StoreError::NotResults(_)
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
        fleet: None,
    }
}

/// An open results file.
#[derive(Debug)]
pub struct OpenedResults {
    pub store: Store,
    /// What was fixed when the experiment began.
    pub info: ExperimentInfo,
    /// What became of an older file.
    pub note: Option<String>,
}

/// Creates the results file, or opens it to resume, and records `runner` in it.
///
/// What a killed run left behind is removed first. Nothing is changed where an error is returned.
pub fn open(
    options: &OpenOptions,
    experiment: &Experiment,
    fresh: &ExperimentInfo,
    runner: &Runner,
) -> Result<OpenedResults, OpenError> {
    let path = &options.path;
    let mut note = None;
    let mut store = if options.resume && path.exists() {
        let store = Store::resume(path, fresh)?;
        // Before anything is cleaned up, because an error must change nothing.
        let more = check(&store, options)?;
        let begun = store.info()?;
        // What a killed run left would use memory and ports of the next trials.
        clean_up_after_last_runner(&store)?;
        let mut store = if begun.plan_hash == fresh.plan_hash {
            store
        } else {
            let (store, text) = adopt(store, experiment, fresh)?;
            note = Some(text);
            store
        };
        if let Some(blocks) = more {
            store.allow_blocks(blocks)?;
        }
        store
    } else {
        if options.fresh && path.exists() {
            note = Some(begin_anew(path)?);
        }
        Store::create(path, fresh)?
    };
    store.set_runner(Some(runner))?;
    let info = store.info()?;
    Ok(OpenedResults { store, info, note })
}

/// Fails where [`open`] would refuse these options whatever the plan is. Nothing is changed.
pub(super) fn check_options(options: &OpenOptions) -> Result<(), OpenError> {
    let path = &options.path;
    if options.fresh || !path.exists() {
        return Ok(());
    }
    if !options.resume {
        return Err(StoreError::Exists(path.clone()).into());
    }
    // One that a killed run left empty is begun.
    Store::begun(path)?.map_or(Ok(()), |store| check(&store, options).map(drop))
}

/// Moves an older results file aside, also a damaged one, unless a run still writes to it.
fn begin_anew(path: &Path) -> Result<String, OpenError> {
    if !path.is_file() {
        return Err(OpenError::NotAFile(path.to_owned()));
    }
    // Any other file is the user's, and needed where it is.
    if !is_results_file(path) {
        return Err(StoreError::NotResults(path.to_owned()).into());
    }
    // A file that cannot be opened has no runner to wait for, and is moved all the same.
    if let Ok(store) = Store::open(path) {
        clean_up_after_last_runner(&store)?;
    }
    let aside = move_aside(path)?;
    Ok(format!("the old results are now in {}", aside.display()))
}

/// Whether the results may be continued with these options; the second value is a larger number of blocks to allow.
fn check(store: &Store, options: &OpenOptions) -> Result<Option<u32>, OpenError> {
    let begun = store.info()?;
    let path = options.path.clone();
    if begun.fleet.is_some() {
        return Err(OpenError::Fleet(path));
    }
    let more = options.blocks.filter(|blocks| *blocks != begun.max_blocks);
    let fewest = Judge::new(question(&begun)).blocks_to_add_up_to();
    if more.is_some() && more != fewest {
        return Err(OpenError::OtherBudget { path, begun: begun.max_blocks, fewest });
    }
    if options.seed.is_some_and(|seed| seed != begun.seed) {
        return Err(OpenError::OtherSeed { path, begun: begun.seed });
    }
    Ok(more)
}

fn clean_up_after_last_runner(store: &Store) -> Result<(), OpenError> {
    let Some(last) = store.runner()? else { return Ok(()) };
    // With its start time, because the pid alone can be another process's by now.
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
    // No process started at zero, so a later carat takes this one for ended.
    let identity = ProcRoot::default().identify(pid).unwrap_or(Identity { pid, start_ticks: 0 });
    Runner { identity, token: token.to_owned(), directory: directory.to_owned() }
}
