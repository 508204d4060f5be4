//! What a search asks for and reports.

use crate::config::BlockSpec;
use crate::run::tune::forecast::GuardForecast;
use carat_model::Trial;
use std::fmt;

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
    /// Blocks of the recommended configuration and of it without each of its settings.
    Ablate,
}

impl fmt::Display for TuneStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look => "look",
            Self::Screen => "screen",
            Self::Adapt => "adapt",
            Self::Confirm => "confirm",
            Self::Ablate => "ablate",
        })
    }
}

/// What will be tried, known after the first look.
#[derive(Debug, Clone)]
pub struct TunePlan {
    /// Settings and knobs.
    pub factors: usize,
    /// Valid configurations; `None` where there are too many to count.
    pub configurations: Option<usize>,
    /// Settings that are not tried, with the reason.
    pub left_out: Vec<(&'static str, String)>,
    /// Median seconds of a trial of the default.
    pub seconds: f64,
    pub search_trials: usize,
    /// Fewest and most trials of the confirmations.
    pub confirm_trials: (usize, usize),
    /// One per guard.
    pub guards: Vec<GuardForecast>,
}

/// Blocks that begin.
#[derive(Debug, Clone)]
pub struct TuneProgress {
    pub stage: TuneStage,
    /// Trials of the search so far, and of its budget.
    pub trials: (usize, usize),
    /// The configurations beside the default, in words.
    pub configurations: Vec<String>,
    /// The configuration with the best median so far whose guards hold, and its change of the goal's metric, as a fraction.
    pub best: Option<(String, f64)>,
    /// Expected seconds of the rest of the phase: for a confirmation the most.
    pub seconds_left: Option<f64>,
}

/// What happens in a search.
#[derive(Debug)]
pub enum TuneEvent {
    /// The first look has ended.
    Plan(TunePlan),
    /// Blocks begin.
    Begin(TuneProgress),
}

/// Runs the blocks of a search and shows its progress.
pub trait TuneHost {
    /// The trials of all blocks; those that an earlier run has finished are not run again.
    ///
    /// # Errors
    /// Where trials cannot be run at all. A server that fails is an outcome of its trial.
    fn run(&mut self, stage: TuneStage, block: &BlockSpec) -> anyhow::Result<Vec<Trial>>;

    /// Shows what happens.
    fn show(&mut self, event: &TuneEvent);
}
