//! The folder of a search: what it began with, and the results file of each of its blocks.

use crate::config::{BlockSpec, Experiment, TuneSpec, changed_content, read_text_file};
use crate::run::Interrupt;
use crate::run::experiment::{ExperimentRequest, FakeTrials, PreparedExperiment, RunError};
use crate::run::tune::{FakeApp, TuneEvent, TuneHost, TuneStage};
use crate::view::{event_text, output, progress_line};
use crate::work::run_trials;
use anyhow::{Context, bail};
use carat_files::{NamedBy, create_folder, write_file};
use carat_model::Trial;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The copy of the file with which a search began, and what the command line added.
const COPY: &str = "tune.toml";
const BEGUN: &str = "begun.toml";

/// How the user asks for a search.
#[derive(Debug)]
pub(crate) struct SearchOpening<'a> {
    pub(crate) file: &'a Path,
    pub(crate) seed: Option<u64>,
    /// Whether a search that has begun may be continued.
    pub(crate) resume: bool,
    /// Whether the file's number of trials was made smaller.
    pub(crate) quick: bool,
}

/// What the command line adds to the file of a search.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct BegunSearch {
    pub(crate) seed: u64,
    /// Trials of the search.
    pub(crate) search_trials: usize,
}

/// Creates the folder of a search, or opens it to resume.
///
/// # Errors
/// Where the folder cannot be written, or holds another search than `opening` asks for.
pub(crate) fn open_search(
    folder: &Path,
    spec: &TuneSpec,
    opening: &SearchOpening<'_>,
) -> anyhow::Result<BegunSearch> {
    let (copy, kept) = (folder.join(COPY), folder.join(BEGUN));
    if copy.exists() {
        return resume(&copy, &kept, spec, opening);
    }
    let seed = opening.seed.unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    let begun = BegunSearch { seed, search_trials: spec.search_trials };
    create_folder(folder).with_context(|| {
        let folder = folder.display();
        format!("cannot create {folder}; check the free space and the permissions")
    })?;
    write_in_search(&kept, &toml::to_string(&begun)?)?;
    // Last, because its presence means that the folder is complete.
    write_in_search(&copy, &spec.text)?;
    Ok(begun)
}

fn resume(
    copy: &Path,
    kept: &Path,
    spec: &TuneSpec,
    opening: &SearchOpening<'_>,
) -> anyhow::Result<BegunSearch> {
    let folder = copy.parent().unwrap_or(copy).display();
    if !opening.resume {
        bail!("{folder} holds a search; continue it with --resume, or begin another with -o");
    }
    let begun = read(copy)?;
    if let Some(key) = spec.changed_load(&begun) {
        bail!(
            "the file of {key} has changed since the search in {folder} began; restore it, or begin another search with -o"
        );
    }
    // Any change makes another search: its proposals depend on every line.
    if begun != spec.text {
        let file = opening.file.display();
        bail!(
            "{file} or --set has changed since the search in {folder} began; begin another with -o, or restore what {} has",
            copy.display()
        );
    }
    let begun: BegunSearch =
        toml::from_str(&read(kept)?).with_context(|| kept.display().to_string())?;
    if opening.seed.is_some_and(|seed| seed != begun.seed) {
        bail!("the search in {folder} began with seed {}; resume without --seed", begun.seed);
    }
    // What is proposed depends on the number of trials, which was fixed when it began.
    if opening.quick && begun.search_trials > spec.search_trials {
        bail!(
            "the search in {folder} began with {} trials; resume without --quick",
            begun.search_trials
        );
    }
    Ok(begun)
}

fn read(path: &Path) -> anyhow::Result<String> {
    read_text_file(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file of a search.
pub(crate) fn write_in_search(path: &Path, text: &str) -> anyhow::Result<()> {
    write_file(path, text.as_bytes(), NamedBy::Carat).with_context(|| {
        format!("cannot write {}; check the free space and the permissions", path.display())
    })
}

/// Runs every block as an experiment with a results file in the folder.
pub(crate) struct FolderHost<'a> {
    spec: &'a TuneSpec,
    folder: &'a Path,
    /// One request for all blocks, because it may come between two of them.
    interrupt: Interrupt,
    pub(crate) interrupted: bool,
    fake: Option<FakeApp>,
    pace: Duration,
    /// Progress of the search when the current blocks began.
    context: String,
    /// Warnings about settings that were printed.
    warned: BTreeSet<String>,
}

impl<'a> FolderHost<'a> {
    pub(crate) fn new(
        spec: &'a TuneSpec,
        folder: &'a Path,
        fake: Option<FakeApp>,
        pace: Duration,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            spec,
            folder,
            interrupt: Interrupt::on_signals().context("cannot listen for Ctrl-C")?,
            interrupted: false,
            fake,
            pace,
            context: String::new(),
            warned: BTreeSet::new(),
        })
    }

    /// Writes the experiment of a block before its first trial, or finds the one that was planned.
    fn plan(&self, block: &BlockSpec) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("{}.toml", block.name));
        let text = self.spec.experiment(block);
        match read_text_file(&file) {
            // Compared as text: it is what the trials of this block ran under.
            Ok(planned) if planned == text => Ok(file),
            Ok(_) => bail!(
                "{} is not the block that the search proposes now: it was changed, or another version of carat began the search; \
                 begin another with -o",
                file.display()
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                write_in_search(&file, &text).map(|()| file)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn request(&self, stage: TuneStage, block: &BlockSpec, file: &Path) -> ExperimentRequest {
        let results = file.with_extension("carat");
        let variants = self.fake.as_ref().map(|app| app.variants(block));
        ExperimentRequest {
            experiment: file.to_owned(),
            resume: results.exists(),
            output: Some(results),
            fresh: false,
            blocks: None,
            // The same as in the file; fake figures depend on it.
            seed: Some(block.seed),
            settings: Vec::new(),
            // Relative paths start at the user's file, not at the search's folder.
            folder: Some(self.spec.folder.clone()),
            // A model learns from single blocks, so none is repeated.
            once: matches!(stage, TuneStage::Screen | TuneStage::Adapt),
            limit: None,
            interrupt: Some(self.interrupt.clone()),
            fake: variants.map(|variants| FakeTrials { variants, pace: self.pace }),
        }
    }

    fn prepare_block(&mut self, request: ExperimentRequest) -> anyhow::Result<PreparedExperiment> {
        let file = request.experiment.clone();
        let prepared = PreparedExperiment::new(request, &output::variable);
        let begun = &self.spec.text;
        let changed = match &prepared {
            Ok(prepared) => changed_content(begun, &prepared.experiment.text),
            // Perhaps because the load's file changed between two readings of it.
            Err(_) => Experiment::read_with(&file, &[], Some(&self.spec.folder))
                .ok()
                .and_then(|found| changed_content(begun, &found.text)),
        };
        if let Some(key) = changed {
            bail!("the file of {key} has changed since the search began; restore it");
        }
        let prepared = prepared?;
        for (_, warning) in prepared.warnings() {
            // Once for the whole search: each block would repeat it.
            if self.warned.insert(warning.to_owned()) {
                output::print_message(&format!("note: {warning}"));
            }
        }
        Ok(prepared)
    }
}

impl TuneHost for FolderHost<'_> {
    fn run(&mut self, stage: TuneStage, block: &BlockSpec) -> anyhow::Result<Vec<Trial>> {
        let file = self.plan(block)?;
        let mut finished = None;
        loop {
            let request = self.request(stage, block, &file);
            let (store, ended) = run_trials(self.prepare_block(request)?, Some(&self.context))?;
            // Read again, because the file also has the trials of earlier runs.
            let trials = store.trials()?;
            match ended {
                Ok(()) => return Ok(trials),
                // One configuration fails; the others of its block can still be measured.
                Err(RunError::Failing { .. } | RunError::Futile { .. })
                    // Again only while trials are added, so that a failing rest ends the loop.
                    if finished != Some(trials.len()) =>
                {
                    finished = Some(trials.len());
                }
                Err(RunError::Failing { .. } | RunError::Futile { .. }) => return Ok(trials),
                Err(error) => {
                    self.interrupted = matches!(error, RunError::Interrupted);
                    return Err(error.into());
                }
            }
        }
    }

    fn show(&mut self, event: &TuneEvent) {
        let least = self.spec.least.id;
        output::print_message(&event_text(event, least));
        if let TuneEvent::Begin(progress) = event {
            self.context = progress_line(progress, least);
        }
    }
}
