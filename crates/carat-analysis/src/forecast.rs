//! Forecasts from a pilot: the difference that can be found, and the blocks and minutes that it takes.

use crate::judge::Judge;
use crate::pairs::{Blocks, Pairs};
use crate::question::Question;
use carat_model::{Conclusion, Role, Trial};
use carat_stats::blocks::{self, blocks_for, detectable};
use carat_stats::normal::upper_quantile;

/// Budgets in every forecast.
const BUDGETS: [u32; 6] = [8, 15, 30, 60, 100, 200];

/// The forecast for one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    pub metric: String,
    /// Standard deviation of single trials as a fraction; the largest of the variants.
    pub spread: f64,
    /// The range in which it lies with a chance of 80 %.
    pub spread_range: (f64, f64),
    /// Blocks, and the smallest difference, as a fraction, that they will probably decide about.
    pub detectable: Vec<(u32, f64)>,
    /// The margin, or the limit of a guard, as a fraction.
    pub requested: f64,
    /// Blocks that this takes, for the ends of `spread_range`; `None` where no number suffices.
    pub needed: Option<(u32, u32)>,
    /// For a guard: whether these trials prove of every variant that it is kept, or that it is not.
    pub is_decided: bool,
}

/// The forecast for an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Blocks of the pilot that counted.
    pub blocks: u32,
    /// Seconds that one block takes, all its trials together.
    pub block_seconds: f64,
    /// The deciding metrics, then the guards.
    pub forecasts: Vec<Forecast>,
}

/// Forecasts from the trials of a pilot; `None` with fewer than five blocks that count.
pub fn forecast(question: &Question, trials: &[Trial]) -> Option<Outlook> {
    let blocks = Blocks::new(trials);
    // Claims that share the error have a smaller part of it each, and need more blocks.
    let inflation = inflation(question);
    let primaries = question
        .primaries()
        .map(|metric| metric_forecast(question, &blocks, (metric, question.margin), inflation))
        .map(|forecast| forecast.map(|forecast| decidable(question, forecast)));
    let decided = decided_guards(question, trials);
    // A guard has its full error, so nothing raises its blocks.
    let guards = question
        .guards
        .iter()
        .map(|(metric, limit)| metric_forecast(question, &blocks, (metric, *limit), 1.0))
        .map(|forecast| {
            let forecast = forecast?;
            let is_decided = decided.contains(&forecast.metric);
            Some(Forecast { is_decided, ..forecast })
        });
    let forecasts: Vec<Forecast> = primaries.chain(guards).flatten().collect();
    let first = pairs(question, &blocks, &question.primary);
    // The smallest number: an experiment waits for its slowest comparison.
    let counted = first.iter().map(|pairs| pairs.known().len()).min()?;
    (!forecasts.is_empty()).then(|| Outlook {
        blocks: counted as u32,
        block_seconds: blocks.seconds().unwrap_or(0.0),
        forecasts,
    })
}

/// The same forecast without the budgets in which no claim can be decided.
fn decidable(question: &Question, mut forecast: Forecast) -> Forecast {
    forecast.detectable.retain(|(budget, _)| question.first_verdict_within(*budget).is_some());
    forecast
}

/// The factor by which several claims that share the error raise the blocks for the same power, by the normal
/// approximation.
fn inflation(question: &Question) -> f64 {
    let claims = question.claims().max(1) as f64;
    (critical_distance(question.alpha / claims) / critical_distance(question.alpha)).powi(2)
}

/// The effect in standard errors that a two-sided test of error `alpha` finds with a power of 95 %.
fn critical_distance(alpha: f64) -> f64 {
    upper_quantile(alpha / 2.0) + upper_quantile(0.05)
}

fn metric_forecast(
    question: &Question,
    blocks: &Blocks,
    (metric, requested): (&str, f64),
    inflation: f64,
) -> Option<Forecast> {
    let known: Vec<Pairs> = pairs(question, blocks, metric);
    let spreads = known.iter().filter_map(|pairs| {
        let known = pairs.known();
        Some((blocks::spread(&known)?, known.len()))
    });
    // The noisiest comparison decides when the experiment ends.
    let (spread, pairs) = spreads.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let spread_range = blocks::spread_range(spread, pairs);
    // Several claims raise the blocks as a larger standard deviation would.
    let raised = inflation.sqrt();
    // Too few blocks for any decision have no entry.
    let detectable = BUDGETS.map(|n| Some((n, detectable(spread * raised, n)?)));
    let [fewest, most] =
        [spread_range.0, spread_range.1].map(|spread| blocks_for(spread * raised, requested));
    Some(Forecast {
        metric: metric.to_owned(),
        spread,
        spread_range,
        detectable: detectable.into_iter().flatten().collect(),
        requested,
        needed: fewest.zip(most),
        is_decided: false,
    })
}

/// The guards of which no variant, also against its controls, is open.
fn decided_guards(question: &Question, trials: &[Trial]) -> Vec<String> {
    // Judging asks for forecasts of its own, which take noticeable time.
    if question.guards.is_empty() {
        return Vec::new();
    }
    let judgement = Judge::new(question.clone()).judge(trials);
    let controls = judgement.controls.iter().map(|compared| &compared.conclusion);
    let all: Vec<&Conclusion> = judgement.conclusions.iter().chain(controls).collect();
    let is_open = |name: &str| {
        let guards = all.iter().filter(|one| matches!(one.role, Role::Guard { .. }));
        guards.filter(|one| one.metric == name).any(|one| one.guard_passed.is_none())
    };
    question.guards.iter().map(|(name, _)| name.clone()).filter(|name| !is_open(name)).collect()
}

fn pairs(question: &Question, blocks: &Blocks, metric: &str) -> Vec<Pairs> {
    let compared = question.with_baseline().chain(question.with_controls());
    compared.map(|compared| blocks.pairs(compared, metric)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_stats::simulate::{Noise, SeededRng};

    const RSS: &str = "memory.rss.final";

    fn pilot(blocks: u32, variants: &[&str]) -> Vec<Trial> {
        let mut rng = SeededRng::new(9);
        let drawn = Noise::Normal.draw(blocks as usize * variants.len(), &mut rng);
        let one = |(i, noise): (usize, &f64)| {
            let block = (i / variants.len()) as u32 + 1;
            trial(block, variants[i % variants.len()], &[(RSS, 70e6 * (1.0 + 0.0041 * noise))])
        };
        drawn.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_pilot_forecasts_the_blocks_of_the_published_experiment() {
        let question = Question::new(&["a", "b"], RSS);
        let outlook = forecast(&question, &pilot(40, &["a", "b"])).unwrap();
        let found = &outlook.forecasts[0];
        assert!((found.spread - 0.0041).abs() < 0.0015, "{found:?}");
        assert_eq!((outlook.blocks, outlook.block_seconds), (40, 60.0));
        assert!(found.detectable.windows(2).all(|w| w[0].1 > w[1].1));
        let (fewest, most) = found.needed.unwrap();
        assert!(50 < fewest && fewest < 100 && 100 < most && most < 300, "{found:?}");
    }

    #[test]
    fn more_claims_take_more_blocks() {
        let two = pilot(20, &["a", "b"]);
        let narrow = Question::new(&["a", "b"], RSS);
        let wide = Question { also_primary: vec!["memory.pss.final".into()], ..narrow.clone() };
        let needed = |question| forecast(question, &two).unwrap().forecasts[0].needed.unwrap().0;
        assert!(needed(&wide) > needed(&narrow));
    }

    #[test]
    fn a_budget_that_cannot_decide_detects_nothing() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for (variants, budget) in [(&names[..4], 8), (&names, 15)] {
            let question = Question { max_blocks: 6, ..Question::new(variants, RSS) };
            let outlook = forecast(&question, &pilot(6, variants)).unwrap();
            assert_eq!(outlook.forecasts[0].detectable[0].0, budget);
        }
    }

    #[test]
    fn a_guard_that_the_trials_decide_needs_no_more_blocks() {
        for (limit, is_decided) in [(0.1, true), (0.0001, false)] {
            let guards = vec![(RSS.to_owned(), limit)];
            let question = Question { guards, ..Question::new(&["a", "b"], "latency.p95") };
            let outlook = forecast(&question, &pilot(20, &["a", "b"])).unwrap();
            assert_eq!(outlook.forecasts.last().unwrap().is_decided, is_decided);
        }
    }

    #[test]
    fn four_blocks_give_no_forecast() {
        assert_eq!(forecast(&Question::new(&["a", "b"], RSS), &pilot(4, &["a", "b"])), None);
    }
}
