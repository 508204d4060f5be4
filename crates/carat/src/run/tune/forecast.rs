//! How many blocks it takes to show that a guard holds, from a few trials of the default.

use crate::config::TuneSpec;
use crate::run::tune::goal::{limit_of, scaled};
use carat_model::Trial;
use carat_model::metric::Metric;
use carat_report::numbers;
use carat_stats::forecast::{CHANCE, deviation_range};
use carat_tune::Confirmation;
use std::collections::BTreeMap;
use std::fmt;

/// With this many times the allowed blocks fewer than one candidate in twenty that has no effect on the metric would be
/// confirmed. A few trials know the standard deviation only to a factor of two, and many settings make a metric better, so
/// anything less is only a warning.
const HOPELESS: u32 = 16;

/// The blocks that a confirmation requires for one guard.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardForecast {
    pub metric: &'static str,
    /// How much worse it may become, as a fraction.
    pub limit: f64,
    /// Standard deviation of one trial, as a fraction.
    pub spread: f64,
    /// Trials from which it is known.
    pub trials: usize,
    /// Blocks in which four of five candidates without an effect on the metric are confirmed.
    pub blocks: u32,
    /// The same for the ends of the range in which the standard deviation lies with a chance of 80 %.
    pub range: (u32, u32),
    /// Blocks that the file allows.
    pub allowed: u32,
    /// Requests of a trial, if their number is fixed.
    pub requests: Option<u64>,
}

impl GuardForecast {
    /// Whether the allowed blocks suffice.
    pub fn fits(&self) -> bool {
        self.blocks <= self.allowed
    }

    /// Whether hardly any candidate would be confirmed.
    pub fn is_hopeless(&self) -> bool {
        self.blocks > HOPELESS.saturating_mul(self.allowed)
    }

    /// How many times the allowed blocks are required.
    fn excess(&self) -> f64 {
        f64::from(self.blocks) / f64::from(self.allowed.max(1))
    }
}

impl fmt::Display for GuardForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, range: (fewest, most), allowed, trials, .. } = self;
        let (limit, spread) = (numbers::limit(self.limit), 100.0 * self.spread);
        write!(
            f,
            "{metric} varies by {spread:.1} % from trial to trial (n = {trials}), so {fewest} to {most} blocks would \
             probably show that it stays within {limit}"
        )?;
        if self.fits() {
            return write!(f, "; {allowed} are allowed");
        }
        // The variance of a mean or a percentile falls with the number of requests.
        let requests = self.requests.map(|requests| {
            format!(
                "requests from {requests} to about {}",
                rounded_up(requests as f64 * self.excess())
            )
        });
        let wider = (100.0 * self.limit * self.excess().sqrt()).ceil();
        let requests = requests.unwrap_or_else(|| "the duration of the load".into());
        write!(
            f,
            ", and {allowed} are allowed: raise {requests}, the guard to \"+{wider:.0}%\", or [budget] confirm"
        )
    }
}

/// Rounded up to two digits.
fn rounded_up(number: f64) -> u64 {
    let unit = 10_f64.powf((number.max(1.0).log10().floor() - 1.0).max(0.0));
    ((number / unit).ceil() * unit) as u64
}

/// The forecast of every guard, from trials of the default in blocks of several.
pub(super) fn forecasts(spec: &TuneSpec, trials: &[Trial]) -> Vec<GuardForecast> {
    let rules = Confirmation::new(spec.attempts, spec.confirm_blocks);
    spec.guards
        .iter()
        .filter_map(|&(metric, limit)| {
            let Spread { deviation: spread, range: (low, high) } = spread(metric, trials)?;
            let blocks = |spread| rules.blocks_to_show(limit_of(metric, limit), spread);
            Some(GuardForecast {
                metric: metric.id,
                limit,
                spread,
                trials: trials.len(),
                blocks: blocks(spread),
                range: (blocks(low), blocks(high)),
                allowed: spec.confirm_blocks,
                requests: spec.requests,
            })
        })
        .collect()
}

/// The standard deviation of one trial, and the range in which it lies with a chance of 80 %.
struct Spread {
    deviation: f64,
    range: (f64, f64),
}

/// The spread of one trial within its block, on the scale of comparison; `None` without two trials in a block.
fn spread(metric: &Metric, trials: &[Trial]) -> Option<Spread> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        blocks.entry(trial.block).or_default().extend(scaled(metric, trial));
    }
    let mut squares = 0.0;
    let mut degrees = 0;
    for values in blocks.values().filter(|values| values.len() > 1) {
        // Within blocks, because differences between blocks do not disturb a comparison.
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        degrees += values.len() - 1;
    }
    let deviation = (degrees > 0).then(|| (squares / degrees as f64).sqrt())?;
    Some(Spread { deviation, range: deviation_range(deviation, degrees as f64, CHANCE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(blocks: u32, requests: Option<u64>) -> GuardForecast {
        GuardForecast {
            metric: "latency.p95",
            limit: 0.05,
            spread: 0.14,
            trials: 6,
            blocks,
            range: (blocks / 3, 4 * blocks),
            allowed: 60,
            requests,
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_to_do() {
        let text = forecast(210, Some(2000)).to_string();
        for part in [
            "14.0 %",
            "n = 6",
            "so 70 to 840 blocks would probably show",
            "60 are allowed",
            "from 2000 to about 7000",
            "\"+10%\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(forecast(210, None).to_string().contains("the duration of the load"));
        assert!(!forecast(60, Some(2000)).to_string().contains("raise"));
    }

    #[test]
    fn only_what_would_hardly_ever_be_confirmed_is_hopeless() {
        for (blocks, fits, hopeless) in
            [(60, true, false), (61, false, false), (960, false, false), (961, false, true)]
        {
            let forecast = forecast(blocks, None);
            assert_eq!((forecast.fits(), forecast.is_hopeless()), (fits, hopeless), "{blocks}");
        }
    }
}
