//! When an open comparison will probably be decided.

use crate::pairs::Pairs;
use crate::question::Question;
use carat_model::BlockForecast;
use carat_stats::forecast::{ForecastGoal, Forecaster};
use std::sync::OnceLock;

/// The looks of open comparisons. They are computed when the first forecast is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenComparisons {
    claims: OnceLock<Forecaster>,
    guards: OnceLock<Forecaster>,
}

impl OpenComparisons {
    /// The forecast of a claim. Its share of the error is that at the beginning, as if no other claim were decided first.
    pub(crate) fn claim(&self, question: &Question, pairs: &Pairs) -> Option<BlockForecast> {
        let margin = pairs.margin(question.margin);
        let forecaster = self.claims(question);
        range(forecaster, &pairs.known(), ForecastGoal::Difference { margin })
    }

    /// The forecast of a guard with the limit `limit`, as a fraction.
    pub(crate) fn guard(
        &self,
        question: &Question,
        pairs: &Pairs,
        limit: f64,
    ) -> Option<BlockForecast> {
        let guards = match question.claims() {
            1 => self.claims(question),
            _ => self.guards.get_or_init(|| Forecaster::new(question.alpha, question.round)),
        };
        range(guards, &pairs.known_worsenings(), ForecastGoal::Limit(pairs.limit(limit)))
    }

    /// The forecast of when the interval of a claim is on one side of `change`, as a fraction.
    pub(crate) fn change(
        &self,
        question: &Question,
        pairs: &Pairs,
        change: f64,
    ) -> Option<BlockForecast> {
        let goal = ForecastGoal::Change(pairs.of_ratio(change));
        range(self.claims(question), &pairs.known(), goal)
    }

    fn claims(&self, question: &Question) -> &Forecaster {
        let alpha = question.alpha / question.claims().max(1) as f64;
        // Computed only when asked for: the recursion of the looks takes noticeable time.
        self.claims.get_or_init(|| Forecaster::new(alpha, question.round))
    }
}

fn range(forecaster: &Forecaster, pairs: &[f64], goal: ForecastGoal) -> Option<BlockForecast> {
    let range = forecaster.range(pairs, goal)?;
    Some(BlockForecast { low: range.low, high: range.high })
}
