//! Why a search ends without an outcome.

use crate::run::tune::forecast::GuardForecast;
use carat_model::Outcome;
use carat_tune::SpaceError;

/// Why a search ended without an outcome. What was measured is kept.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No setting that the file names can act on the server.
    #[error(
        "no setting is left to try: {0}; name other settings in [search], or add a [[knob]] of your own"
    )]
    NothingToTry(String),
    /// The settings and levels make no search.
    #[error("{0}; change [search] or the [[knob]] tables")]
    Space(SpaceError),
    #[error("the server fails without any setting ({outcome}): {detail}")]
    Default {
        /// How its trial ended.
        outcome: Outcome,
        detail: String,
    },
    /// A metric has no value, or one that has no ratio.
    #[error(
        "`{0}` was not measured, or was zero, in a trial of the default; choose another metric in [goal]"
    )]
    Unmeasured(&'static str),
    /// Guards that hardly any candidate would be shown to keep.
    #[error("the search was not begun, because its winner could hardly be confirmed: {}", words(.0))]
    Guards(Vec<GuardForecast>),
    /// Trials could not be run.
    #[error(transparent)]
    Trials(#[from] anyhow::Error),
}

fn words(forecasts: &[GuardForecast]) -> String {
    forecasts.iter().map(GuardForecast::to_string).collect::<Vec<_>>().join("; ")
}
