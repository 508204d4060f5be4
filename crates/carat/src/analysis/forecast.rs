//! From a few blocks: what could be found in how many blocks and minutes.

use crate::analysis::pairs::{Blocks, Pairs};
use crate::analysis::question::Question;
use crate::core::Trial;
use carat_stats::budget::{self, blocks_for, detectable};
use carat_stats::normal::upper_quantile;

/// Budgets that a forecast always tells of.
const BUDGETS: [u32; 6] = [8, 15, 30, 60, 100, 200];

/// What a metric's scatter allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The metric.
    pub metric: String,
    /// Scatter of single trials as a fraction: the largest of all variants'.
    pub spread: f64,
    /// The smallest difference, as a fraction, that so many blocks will probably decide about.
    pub detectable: Vec<(u32, f64)>,
    /// What the question asks of this metric: the margin, or the limit of a guard, as a fraction.
    pub asked: f64,
    /// Blocks that this takes; `None` where no number does.
    pub needed: Option<u32>,
}

/// What a pilot says about an experiment.
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
    // More claims share the error: the same power then takes this much more (normal approximation).
    let claims = question.claims().max(1) as f64;
    let reach = |alpha: f64| upper_quantile(alpha / 2.0) + upper_quantile(0.05);
    let dearer = (reach(question.alpha / claims) / reach(question.alpha)).powi(2);
    let of = |metric: &str, asked: f64, dearer: f64| {
        let known: Vec<Pairs> = pairs(question, &blocks, metric);
        let spreads = known.iter().filter_map(|pairs| budget::spread(&pairs.known()));
        let spread = spreads.max_by(f64::total_cmp)? * dearer.sqrt();
        Some(Forecast {
            metric: metric.to_owned(),
            spread: spread / dearer.sqrt(),
            detectable: BUDGETS
                .into_iter()
                .filter_map(|n| Some((n, detectable(spread, n)?)))
                .collect(),
            asked,
            needed: blocks_for(spread, asked),
        })
    };
    let primaries = question.primaries().map(|metric| of(metric, question.margin, dearer));
    let guards = question.guards.iter().map(|(metric, limit)| of(metric, *limit, 1.0));
    let forecasts: Vec<Forecast> = primaries.chain(guards).flatten().collect();
    let first = pairs(question, &blocks, &question.primary);
    let counted = first.iter().map(|pairs| pairs.known().len()).min()?;
    (!forecasts.is_empty()).then(|| Outlook {
        blocks: counted as u32,
        block_seconds: blocks.seconds().unwrap_or(0.0),
        forecasts,
    })
}

fn pairs(question: &Question, blocks: &Blocks, metric: &str) -> Vec<Pairs> {
    let baseline = question.baseline().unwrap_or_default();
    question.compared().iter().map(|variant| blocks.pairs(baseline, variant, metric)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pairs::tests::trial;
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
    fn a_pilot_tells_what_the_published_experiment_needed() {
        let question = Question::new(&["a", "b"], RSS);
        let outlook = forecast(&question, &pilot(40, &["a", "b"])).unwrap();
        let found = &outlook.forecasts[0];
        assert!((found.spread - 0.0041).abs() < 0.0015, "{found:?}");
        assert_eq!((outlook.blocks, outlook.block_seconds), (40, 60.0));
        assert!(found.detectable.windows(2).all(|w| w[0].1 > w[1].1));
        assert!(found.needed.is_some_and(|n| (50..=200).contains(&n)), "{found:?}");
    }

    #[test]
    fn more_variants_take_more_blocks() {
        let two = pilot(20, &["a", "b"]);
        let narrow = Question::new(&["a", "b"], RSS);
        let wide = Question { also_primary: vec!["memory.pss.final".into()], ..narrow.clone() };
        let needed = |question| forecast(question, &two).unwrap().forecasts[0].needed.unwrap();
        assert!(needed(&wide) > needed(&narrow));
    }

    #[test]
    fn four_blocks_tell_nothing() {
        assert_eq!(forecast(&Question::new(&["a", "b"], RSS), &pilot(4, &["a", "b"])), None);
    }
}
