//! The course of a search.

use crate::config::{BlockSpec, TuneSpec, TunedVariant};
use crate::run::tune::error::TuneError;
use crate::run::tune::events::{TuneEvent, TuneHost, TunePlan, TuneProgress, TuneStage};
use crate::run::tune::goal::SearchGoal;
use crate::run::tune::look::{FirstLook, look};
use crate::run::tune::space::TuneSpace;
use crate::run::tune::tried::TriedList;
use carat_analysis::TuneOutcome;
use carat_model::Trial;
use carat_model::metric::Metric;
use carat_tune::{Configuration, Confirmation, Search, SearchTrial};
use std::path::PathBuf;

/// Name of the baseline.
pub(super) const DEFAULT: &str = "default";

/// How a search is done, beside its file.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// Seed of every random number.
    pub seed: u64,
    /// Whether the winner is also compared with itself without each of its settings.
    pub ablate: bool,
    /// The root of the server's file system, in which allocators are looked for.
    pub root: PathBuf,
}

/// Searches, confirms, and returns what can be said.
///
/// # Errors
/// Where trials cannot be run, where the default itself fails, or where no candidate could be confirmed.
pub fn tune(
    spec: &TuneSpec,
    options: &TuneOptions,
    host: &mut dyn TuneHost,
) -> Result<TuneOutcome, TuneError> {
    let goal = SearchGoal::new(spec);
    let look = look(spec, &goal, options.seed, host)?;
    let space = TuneSpace::new(spec, look.server, &options.root)?;
    // The screen begins with the profiles: they are the best guess before any trial.
    let rules = goal.plan(options.seed, spec.search_trials);
    let mut search = Search::new(&space.space, rules, &space.profiles());
    let most_trials = search.most_trials();
    host.show(&TuneEvent::Plan(plan(spec, &space, &look, most_trials)));
    if look.guards.iter().any(|guard| guard.is_hopeless()) {
        let hopeless = look.guards.into_iter().filter(|guard| guard.is_hopeless());
        return Err(TuneError::Guards(hopeless.collect()));
    }
    let mut session = TuneSession {
        spec,
        options,
        space: &space,
        goal,
        shown: look.shown,
        host,
        blocks: 0,
        most_trials,
        trials: look.trials,
        seconds: look.total_seconds,
        tried: TriedList::default(),
    };
    session.search(&mut search)?;
    session.confirm(&mut search)
}

fn plan(spec: &TuneSpec, space: &TuneSpace, look: &FirstLook, search_trials: usize) -> TunePlan {
    let rules = Confirmation::new(spec.attempts, spec.confirm_blocks);
    let first = rules.next_look(0).unwrap_or(spec.confirm_blocks);
    TunePlan {
        factors: space.space.factors().len(),
        configurations: space.space.all().map(|all| all.len()),
        left_out: space.left_out.iter().map(|one| (one.name, one.why.clone())).collect(),
        seconds: look.seconds,
        search_trials,
        confirm_trials: (2 * first as usize, 2 * (spec.confirm_blocks * spec.attempts) as usize),
        guards: look.guards.clone(),
    }
}

/// A search and its trials.
pub(super) struct TuneSession<'a> {
    pub(super) spec: &'a TuneSpec,
    pub(super) options: &'a TuneOptions,
    pub(super) space: &'a TuneSpace,
    goal: SearchGoal,
    /// The metrics to report; those of the goal come first.
    pub(super) shown: Vec<&'static Metric>,
    host: &'a mut dyn TuneHost,
    /// Experiments so far: each has an order of trials of its own.
    blocks: u64,
    /// Most trials of the search.
    most_trials: usize,
    pub(super) trials: usize,
    pub(super) seconds: f64,
    pub(super) tried: TriedList,
}

/// Blocks to run.
pub(super) struct ProposedBlocks {
    pub(super) stage: TuneStage,
    /// Trials of the search so far.
    pub(super) done: usize,
    /// Added to the name of the search.
    pub(super) name: String,
    pub(super) blocks: u32,
    /// The first is the baseline.
    pub(super) variants: Vec<TunedVariant>,
    /// The configurations beside the default, in words.
    pub(super) texts: Vec<String>,
}

impl TuneSession<'_> {
    fn search(&mut self, search: &mut Search<'_>) -> Result<(), TuneError> {
        let mut number = 0;
        loop {
            let is_screening = search.is_screening();
            let Some(configurations) = search.next_block() else { return Ok(()) };
            number += 1;
            let trials = self.run(ProposedBlocks {
                stage: if is_screening { TuneStage::Screen } else { TuneStage::Adapt },
                done: search.trials(),
                name: format!("search-{number:02}"),
                blocks: 1,
                variants: self.variants(&configurations),
                texts: self.texts(&configurations),
            })?;
            self.remember(&configurations, &trials);
            search.observe(&self.outcomes(&configurations, &trials, 1));
        }
    }

    /// The default and its candidates as variants.
    pub(super) fn variants(&self, configurations: &[Configuration]) -> Vec<TunedVariant> {
        let numbered = configurations.iter().enumerate();
        numbered.map(|(index, one)| self.space.variant(one, variant_name(index))).collect()
    }

    /// The configurations after the default, in words.
    pub(super) fn texts(&self, configurations: &[Configuration]) -> Vec<String> {
        configurations.iter().skip(1).map(|one| self.space.text(one)).collect()
    }

    pub(super) fn run(&mut self, proposed: ProposedBlocks) -> Result<Vec<Trial>, TuneError> {
        let ProposedBlocks { stage, done, name, blocks, variants, texts } = proposed;
        self.blocks += 1;
        let rest = match stage {
            TuneStage::Screen | TuneStage::Adapt => self.most_trials.saturating_sub(done),
            _ => blocks as usize * variants.len(),
        };
        let progress = TuneProgress {
            stage,
            trials: (done, self.most_trials),
            configurations: texts,
            best: self.tried.best(&self.shown, &self.limits()),
            // The mean so far is that of trials of this very server.
            seconds_left: Some(rest as f64 * self.seconds / self.trials.max(1) as f64),
        };
        self.host.show(&TuneEvent::Begin(progress));
        // The same number in every block would give every variant the same place in all of them.
        let seed = self.options.seed.wrapping_add(self.blocks);
        let name = format!("{}-{name}", self.spec.name);
        // Only a confirmation is evidence, so only it shares an error among attempts.
        let attempts = (stage == TuneStage::Confirm).then_some(self.spec.attempts);
        let block = BlockSpec { name, variants, blocks, seed, attempts };
        let trials = self.host.run(stage, &block)?;
        self.trials += trials.len();
        self.seconds += trials.iter().map(|trial| trial.seconds).sum::<f64>();
        Ok(trials)
    }

    /// How much worse each guarded metric may become, as fractions.
    fn limits(&self) -> Vec<f64> {
        self.spec.guards.iter().map(|(_, limit)| *limit).collect()
    }

    /// The outcomes of one block. A trial that is missing counts as failed: its server could not be measured.
    pub(super) fn outcomes(
        &self,
        configurations: &[Configuration],
        trials: &[Trial],
        block: u32,
    ) -> Vec<SearchTrial> {
        configurations
            .iter()
            .enumerate()
            .map(|(index, configuration)| SearchTrial {
                configuration: configuration.clone(),
                logarithms: find(trials, block, index).and_then(|trial| self.goal.values(trial)),
            })
            .collect()
    }

    fn remember(&mut self, configurations: &[Configuration], trials: &[Trial]) {
        // Of the same block, because a machine drifts between blocks.
        let default = find(trials, 1, 0);
        for (index, configuration) in configurations.iter().enumerate().skip(1) {
            if let Some(trial) = find(trials, 1, index) {
                self.tried.add(self.space.text(configuration), trial, default, &self.shown);
            }
        }
    }
}

/// The trial of a block's configuration with this index.
fn find(trials: &[Trial], block: u32, index: usize) -> Option<&Trial> {
    let name = variant_name(index);
    trials.iter().find(|trial| trial.block == block && trial.variant == name)
}

/// The name of a configuration in its block. Names of settings would make the names of variants too long.
pub(super) fn variant_name(index: usize) -> String {
    if index == 0 { DEFAULT.into() } else { format!("candidate {index}") }
}
