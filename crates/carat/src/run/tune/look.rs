//! The first look: a few trials of the default show what can act, how long a trial takes, and what guards cost.

use crate::config::{BlockSpec, TuneSpec, TunedVariant};
use crate::run::tune::error::TuneError;
use crate::run::tune::events::{TuneEvent, TuneHost, TuneProgress, TuneStage};
use crate::run::tune::forecast::{GuardForecast, forecasts};
use crate::run::tune::goal::{SearchGoal, scaled};
use carat_model::metric::{self, Metric};
use carat_model::{Outcome, Trial};
use carat_ruby::RubyVersion;
use carat_settings::SearchedServer;
use carat_stats::summary::median;

/// Blocks of two trials each, so that a standard deviation within blocks is known.
const LOOK_BLOCKS: u32 = 3;
/// Trials of the default.
pub const LOOK_TRIALS: u32 = 2 * LOOK_BLOCKS;

/// What the first trials of the default show.
pub(super) struct FirstLook {
    pub(super) server: SearchedServer,
    /// Median seconds of a trial, and those of all.
    pub(super) seconds: f64,
    pub(super) total_seconds: f64,
    pub(super) trials: usize,
    /// The metrics to report: the goal, the guards, then p95 and throughput if they are known.
    pub(super) shown: Vec<&'static Metric>,
    pub(super) guards: Vec<GuardForecast>,
}

/// Runs the default alone.
pub(super) fn look(
    spec: &TuneSpec,
    goal: &SearchGoal,
    seed: u64,
    host: &mut dyn TuneHost,
) -> Result<FirstLook, TuneError> {
    host.show(&TuneEvent::Begin(TuneProgress {
        stage: TuneStage::Look,
        trials: (0, spec.search_trials),
        configurations: Vec::new(),
        best: None,
        seconds_left: None,
    }));
    let block = BlockSpec {
        name: format!("{}-look", spec.name),
        variants: vec![default_variant(spec, "default"), default_variant(spec, "default again")],
        blocks: LOOK_BLOCKS,
        seed,
        attempts: None,
    };
    let trials = host.run(TuneStage::Look, &block)?;
    // With a default that fails, nothing can be compared.
    if let Some(failed) = trials.iter().find(|trial| trial.outcome != Outcome::Ok) {
        let detail = failed.detail.clone().unwrap_or_default();
        return Err(TuneError::Default { outcome: failed.outcome, detail });
    }
    for metric in &goal.metrics {
        if trials.iter().any(|trial| scaled(metric, trial).is_none()) {
            return Err(TuneError::Unmeasured(metric.id));
        }
    }
    let seconds: Vec<f64> = trials.iter().map(|trial| trial.seconds).collect();
    Ok(FirstLook {
        server: searched_server(&trials),
        seconds: median(&seconds).unwrap_or_default(),
        total_seconds: seconds.iter().sum(),
        trials: trials.len(),
        shown: shown(goal, &trials),
        guards: forecasts(spec, &trials),
    })
}

fn searched_server(trials: &[Trial]) -> SearchedServer {
    let processes = trials.iter().flat_map(|trial| &trial.samples).map(|sample| sample.processes);
    let ruby = trials.iter().find_map(|trial| trial.machine.get("ruby"));
    SearchedServer {
        // What is one process for its whole life forks no workers.
        forks: processes.max().map(|most| most > 1),
        ruby: ruby.and_then(|text| RubyVersion::find_in(text)),
    }
}

fn shown(goal: &SearchGoal, trials: &[Trial]) -> Vec<&'static Metric> {
    let mut shown = goal.metrics.clone();
    for extra in [&metric::LATENCY_P95, &metric::THROUGHPUT] {
        let is_known = trials.iter().all(|trial| scaled(extra, trial).is_some());
        if is_known && !shown.iter().any(|metric| metric.id == extra.id) {
            shown.push(extra);
        }
    }
    shown
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
