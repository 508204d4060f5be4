//! The course of a search.

use crate::analysis::{Judge, Question};
use crate::config::{BlockSpec, TuneSpec, TunedVariant};
use crate::core::metric::Metric;
use crate::core::{Better, Conclusion, Outcome, Role, Trial, Unit};
use crate::run::tune::outcome::{
    Attempt, Hint, TriedConfiguration, TuneOutcome, recommendation, refusal,
};
use crate::run::tune::space::TuneSpace;
use crate::settings::SearchedServer;
use carat_ruby::RubyVersion;
use carat_stats::budget::median;
use carat_tune::{Configuration, Prior, Search, SearchPlan, SearchTrial, SpaceError};
use std::collections::BTreeMap;

/// Error of all claims of a search together.
const ALPHA: f64 = 0.05;
/// Name of the baseline.
const DEFAULT: &str = "default";
/// Blocks of the first look at the default, of two trials each.
const LOOK_BLOCKS: u32 = 2;

/// The trials of some blocks, and why they ended early if they did.
pub type BlockTrials = Vec<Trial>;

/// Runs blocks of trials, or finds those that an earlier run has finished.
pub trait TrialSource {
    /// The trials of all blocks. With `alpha`, no block is run after a verdict at this error.
    ///
    /// # Errors
    /// Where trials cannot be run at all; a server that fails is an outcome of its trial.
    fn run(&mut self, block: &BlockSpec, alpha: Option<f64>) -> anyhow::Result<BlockTrials>;
}

/// The phase of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuneStage {
    /// Trials of the default, to see what can act.
    Look,
    /// Blocks that show every level.
    Screen,
    /// Blocks of what the model finds promising.
    Adapt,
    /// Fresh blocks of default and candidate.
    Confirm,
}

/// What happens in a search.
#[derive(Debug)]
pub enum TuneEvent<'a> {
    /// What will be tried, after the first look.
    Plan {
        /// The configurations.
        space: &'a TuneSpace,
        /// Number of valid configurations; `None` where there are too many to count.
        configurations: Option<usize>,
        /// Median seconds of a trial of the default.
        seconds: f64,
    },
    /// Blocks begin.
    Stage {
        /// The phase.
        stage: TuneStage,
        /// Trials of the search so far, and of its budget.
        trials: (usize, usize),
        /// The configurations besides the default, in words.
        configurations: &'a [String],
    },
}

/// Why a search ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// There is nothing to search.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The default fails.
    #[error("the server fails without any setting ({outcome}): {detail}")]
    Default {
        /// How its trial ended.
        outcome: Outcome,
        /// The cause.
        detail: String,
    },
    /// A metric of the goal is unknown of every trial.
    #[error("`{0}` was not measured in any trial of the default; choose another metric in [goal]")]
    Unmeasured(&'static str),
    /// Trials could not be run.
    #[error(transparent)]
    Trials(#[from] anyhow::Error),
}

/// Searches, confirms, and returns what can be said.
///
/// # Errors
/// Where trials cannot be run, or where the default itself fails.
pub fn tune(
    spec: &TuneSpec,
    seed: u64,
    source: &mut dyn TrialSource,
    on_event: &mut dyn FnMut(&TuneEvent<'_>),
) -> Result<TuneOutcome, TuneError> {
    let look = look(spec, seed, source, on_event)?;
    let space = TuneSpace::new(spec, look.server)?;
    let configurations = space.space.all().map(|all| all.len());
    on_event(&TuneEvent::Plan { space: &space, configurations, seconds: look.seconds });
    let metrics = metrics(spec);
    let plan = SearchPlan::new(seed, spec.search_trials, priors(&metrics), limits(spec));
    let mut session = TuneSession {
        spec,
        seed,
        space: &space,
        metrics,
        source,
        on_event,
        trials: look.trials,
        tried: BTreeMap::new(),
    };
    let mut search = Search::new(&space.space, plan, &space.profiles());
    session.search(&mut search)?;
    session.confirm(&mut search)
}

/// The goal's metric, then those of the guards.
fn metrics(spec: &TuneSpec) -> Vec<&'static Metric> {
    std::iter::once(spec.least).chain(spec.guards.iter().map(|(metric, _)| *metric)).collect()
}

fn priors(metrics: &[&'static Metric]) -> Vec<Prior> {
    metrics
        .iter()
        .map(|metric| match metric.unit {
            Unit::Bytes => Prior::MEMORY,
            Unit::Seconds => Prior::LATENCY,
            _ => Prior::THROUGHPUT,
        })
        .collect()
}

/// The guards as logarithms of ratios, higher is worse.
fn limits(spec: &TuneSpec) -> Vec<f64> {
    spec.guards.iter().map(|(metric, limit)| limit_of(metric, *limit)).collect()
}

fn limit_of(metric: &Metric, limit: f64) -> f64 {
    match metric.better {
        Better::Lower => (1.0 + limit).ln(),
        Better::Higher => -(1.0 - limit).max(f64::MIN_POSITIVE).ln(),
    }
}

/// What the first trials of the default show.
struct FirstLook {
    server: SearchedServer,
    seconds: f64,
    trials: usize,
}

fn look(
    spec: &TuneSpec,
    seed: u64,
    source: &mut dyn TrialSource,
    on_event: &mut dyn FnMut(&TuneEvent<'_>),
) -> Result<FirstLook, TuneError> {
    let trials = (0, spec.search_trials);
    on_event(&TuneEvent::Stage { stage: TuneStage::Look, trials, configurations: &[] });
    let block = BlockSpec {
        name: format!("{}-look", spec.name),
        variants: vec![default_variant(spec, DEFAULT), default_variant(spec, "default again")],
        blocks: LOOK_BLOCKS,
        seed,
    };
    let trials = source.run(&block, None)?;
    if let Some(failed) = trials.iter().find(|trial| trial.outcome != Outcome::Ok) {
        let detail = failed.detail.clone().unwrap_or_default();
        return Err(TuneError::Default { outcome: failed.outcome, detail });
    }
    for metric in metrics(spec) {
        if !trials.iter().any(|trial| trial.metrics.contains_key(metric.id)) {
            return Err(TuneError::Unmeasured(metric.id));
        }
    }
    let processes = trials.iter().flat_map(|trial| &trial.samples).map(|sample| sample.processes);
    let ruby = trials.iter().find_map(|trial| trial.machine.get("ruby"));
    let seconds: Vec<f64> = trials.iter().map(|trial| trial.seconds).collect();
    Ok(FirstLook {
        server: SearchedServer {
            forks: processes.max().map(|most| most > 1),
            ruby: ruby.and_then(|text| RubyVersion::find_in(text)),
        },
        seconds: median(&seconds).unwrap_or_default(),
        trials: trials.len(),
    })
}

/// The default under a name: knobs at their first level are part of it.
fn default_variant(spec: &TuneSpec, name: &str) -> TunedVariant {
    let mut variant = TunedVariant { name: name.into(), ..TunedVariant::default() };
    for level in spec.knobs.iter().filter_map(|knob| knob.levels.first()) {
        variant.env.extend(level.env.clone());
        variant.settings.extend(level.settings.clone());
    }
    variant
}

/// A search and its trials.
struct TuneSession<'a> {
    spec: &'a TuneSpec,
    seed: u64,
    space: &'a TuneSpace,
    metrics: Vec<&'static Metric>,
    source: &'a mut dyn TrialSource,
    on_event: &'a mut dyn FnMut(&TuneEvent<'_>),
    trials: usize,
    tried: BTreeMap<String, TriedTrials>,
}

/// The trials of one configuration: logarithms of ratios to the default of the same block.
#[derive(Default)]
struct TriedTrials {
    trials: usize,
    succeeded: usize,
    ratios: Vec<Vec<f64>>,
}

/// Blocks of configurations to run; the first is the default.
struct ProposedBlocks<'a> {
    stage: TuneStage,
    /// Trials of the search so far.
    done: usize,
    name: String,
    blocks: u32,
    alpha: Option<f64>,
    configurations: &'a [Configuration],
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
                name: format!("{}-search-{number:02}", self.spec.name),
                blocks: 1,
                alpha: None,
                configurations: &configurations,
            })?;
            let outcomes = self.outcomes(&configurations, &trials, 1);
            self.remember(&configurations, &outcomes);
            search.observe(&outcomes);
        }
    }

    fn run(&mut self, proposed: ProposedBlocks<'_>) -> Result<BlockTrials, TuneError> {
        let ProposedBlocks { stage, done, name, blocks, alpha, configurations } = proposed;
        let texts: Vec<String> =
            configurations[1..].iter().map(|one| self.space.text(one)).collect();
        let trials = (done, self.spec.search_trials);
        (self.on_event)(&TuneEvent::Stage { stage, trials, configurations: &texts });
        let variants = configurations
            .iter()
            .enumerate()
            .map(|(index, one)| self.space.variant(one, variant_name(index)))
            .collect();
        let block = BlockSpec { name, variants, blocks, seed: self.seed };
        let trials = self.source.run(&block, alpha)?;
        self.trials += trials.len();
        Ok(trials)
    }

    /// The outcomes of one block. A trial that is missing counts as failed: its server could not be measured.
    fn outcomes(
        &self,
        configurations: &[Configuration],
        trials: &[Trial],
        block: u32,
    ) -> Vec<SearchTrial> {
        configurations
            .iter()
            .enumerate()
            .map(|(index, configuration)| {
                let name = variant_name(index);
                let trial = trials.iter().find(|t| t.block == block && t.variant == name);
                SearchTrial {
                    configuration: configuration.clone(),
                    logarithms: trial.and_then(|trial| self.logarithms(trial)),
                }
            })
            .collect()
    }

    /// Logarithms of the metrics, higher is worse; `None` where the trial failed or one is unknown or not positive.
    fn logarithms(&self, trial: &Trial) -> Option<Vec<f64>> {
        let succeeded = trial.outcome == Outcome::Ok;
        let values: Option<Vec<f64>> =
            self.metrics.iter().map(|metric| logarithm(metric, trial)).collect();
        values.filter(|_| succeeded)
    }

    fn remember(&mut self, configurations: &[Configuration], outcomes: &[SearchTrial]) {
        let default = outcomes.first().and_then(|trial| trial.logarithms.clone());
        for (configuration, outcome) in configurations.iter().zip(outcomes).skip(1) {
            let tried = self.tried.entry(self.space.text(configuration)).or_default();
            tried.trials += 1;
            tried.succeeded += usize::from(outcome.logarithms.is_some());
            if let (Some(own), Some(default)) = (&outcome.logarithms, &default) {
                tried
                    .ratios
                    .push(own.iter().zip(default).map(|(own, other)| own - other).collect());
            }
        }
    }

    fn confirm(&mut self, search: &mut Search<'_>) -> Result<TuneOutcome, TuneError> {
        let mut outcome = TuneOutcome {
            recommendation: None,
            attempts: Vec::new(),
            hints: Vec::new(),
            left_out: self
                .space
                .left_out
                .iter()
                .map(|setting| (setting.name.to_owned(), setting.why.clone()))
                .collect(),
            failing: Vec::new(),
            tried: Vec::new(),
            trials: 0,
        };
        for attempt in 1..=self.spec.attempts {
            let Some(candidate) = search.candidate() else { break };
            outcome.hints = hints(search, &candidate);
            let text = self.space.text(&candidate);
            let pair = [self.space.space.default_configuration(), candidate.clone()];
            let alpha = ALPHA / f64::from(self.spec.attempts);
            let trials = self.run(ProposedBlocks {
                stage: TuneStage::Confirm,
                done: search.trials(),
                name: format!("{}-confirm-{attempt}", self.spec.name),
                blocks: self.spec.confirm_blocks,
                alpha: Some(alpha),
                configurations: &pair,
            })?;
            let conclusions = self.conclusions(&trials, alpha);
            let Some(why) = refusal(&conclusions, &self.limit_words()) else {
                let variant = self.space.variant(&candidate, text.clone());
                outcome.recommendation = Some(recommendation(text, variant, conclusions));
                break;
            };
            outcome.attempts.push(Attempt { text, why, conclusions });
            let last = trials.iter().map(|trial| trial.block).max().unwrap_or(0);
            let blocks: Vec<Vec<SearchTrial>> =
                (1..=last).map(|block| self.outcomes(&pair, &trials, block)).collect();
            search.observe_confirmation(&candidate, &blocks);
        }
        outcome.failing = search
            .banned_levels()
            .into_iter()
            .map(|(name, level)| format!("{name}={level}"))
            .collect();
        outcome.tried = self.tried();
        outcome.trials = self.trials;
        Ok(outcome)
    }

    /// The conclusions of a confirmation: the goal first, then the guards in the order of the file.
    fn conclusions(&self, trials: &[Trial], alpha: f64) -> Vec<Conclusion> {
        let candidate = variant_name(1);
        let question = Question {
            margin: self.spec.margin,
            guards: self.spec.guards.iter().map(|(m, limit)| (m.id.to_owned(), *limit)).collect(),
            alpha,
            max_blocks: self.spec.confirm_blocks,
            ..Question::new(&[DEFAULT, &candidate], self.spec.least.id)
        };
        let judged = Judge::new(question).judge(trials).conclusions;
        judged.into_iter().filter(|one| one.role != Role::Exploratory).collect()
    }

    /// What each guard limits, in words.
    fn limit_words(&self) -> Vec<String> {
        let guards = self.spec.guards.iter();
        guards
            .map(|(metric, limit)| format!("limit of {:.0} % in {}", 100.0 * limit, metric.id))
            .collect()
    }

    /// The median ratio of each metric to the default.
    fn ratios(&self, tried: &TriedTrials) -> Vec<Option<f64>> {
        (0_usize..)
            .zip(&self.metrics)
            .map(|(index, metric)| {
                let values: Vec<f64> = tried.ratios.iter().map(|ratios| ratios[index]).collect();
                let sign = if metric.better == Better::Lower { 1.0 } else { -1.0 };
                median(&values).map(|value| (sign * value).exp())
            })
            .collect()
    }

    fn tried(&self) -> Vec<TriedConfiguration> {
        self.tried
            .iter()
            .map(|(text, tried)| TriedConfiguration {
                text: text.clone(),
                succeeded: tried.succeeded,
                trials: tried.trials,
                ratios: self.ratios(tried),
            })
            .collect()
    }
}

/// The logarithm of a metric, higher is worse; `None` where it is unknown or not positive.
fn logarithm(metric: &Metric, trial: &Trial) -> Option<f64> {
    let value = *trial.metrics.get(metric.id)?;
    let sign = if metric.better == Better::Lower { 1.0 } else { -1.0 };
    (value > 0.0).then(|| sign * value.ln())
}

/// The name of a configuration in its block. Names of settings would make the names of variants too long.
fn variant_name(index: usize) -> String {
    if index == 0 { DEFAULT.into() } else { format!("candidate {index}") }
}

fn hints(search: &Search<'_>, candidate: &Configuration) -> Vec<Hint> {
    let effects = search.choice(&[]).effects(candidate);
    effects
        .into_iter()
        .map(|effect| Hint {
            setting: format!("{}={}", effect.name, effect.level),
            change: effect.logarithm.exp() - 1.0,
            standard_error: effect.standard_error,
        })
        .collect()
}
