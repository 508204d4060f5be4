//! Simulated experiments in blocks, modelled on the second published experiment.

use crate::family::{Claim, Design, Judged};
use crate::normal::t_upper_quantile;
use crate::simulate::{Noise, SeededRng};
use crate::walsh::Walsh;

/// Memory of the published baseline in bytes.
const BASELINE: f64 = 71_162_253.0;
/// The kernel counts memory in pages.
const PAGE: f64 = 4096.0;

/// An experiment with a known truth.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedExperiment {
    /// The distribution of trials.
    pub noise: Noise,
    /// Standard deviation of a trial as a share of the baseline; 0.0041 in the published
    /// experiment.
    pub spread: f64,
    /// True effect of every variant but the baseline, as a share.
    pub effects: Vec<f64>,
    /// Further comparisons: a variant and its control, by their places in `effects`.
    pub controls: Vec<(usize, usize)>,
    /// The budget of blocks.
    pub blocks: u32,
}

/// One simulated experiment, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Replication {
    /// The decision about every variant, then that about every comparison with a control.
    pub judged: Vec<Judged>,
    /// Whether the final 95 % interval covers the first variant's true effect.
    pub covered: bool,
}

impl SimulatedExperiment {
    /// The published experiment's spread and a budget of 100 blocks.
    pub fn new(noise: Noise, effects: &[f64]) -> Self {
        let effects = effects.to_vec();
        Self { noise, spread: 0.0041, effects, controls: Vec::new(), blocks: 100 }
    }

    /// The true differences of logarithms of all comparisons, in the order of [`Replication::judged`].
    pub fn truths(&self) -> Vec<f64> {
        let own = self.effects.iter().map(|effect| effect.ln_1p());
        let of = |at: usize| self.effects[at].ln_1p();
        own.chain(self.controls.iter().map(|&(variant, control)| of(variant) - of(control)))
            .collect()
    }

    /// Differences of logarithms by comparison and block: between variant and baseline, then between variant and control.
    pub fn differences(&self, rng: &mut SeededRng) -> Vec<Vec<f64>> {
        let arms = self.effects.len() + 1;
        let drawn = self.noise.draw(self.blocks as usize * arms, rng);
        let mut differences = vec![Vec::with_capacity(self.blocks as usize); self.effects.len()];
        for block in drawn.chunks(arms) {
            // The noise belongs to a place in time, and the order decides which variant runs there.
            let order = rng.order(arms);
            let base = self.log_memory(0.0, block[order[0]]);
            for (variant, series) in differences.iter_mut().enumerate() {
                let noise = block[order[variant + 1]];
                series.push(self.log_memory(self.effects[variant], noise) - base);
            }
        }
        for &(variant, control) in &self.controls {
            let pairs = differences[variant].iter().zip(&differences[control]);
            let series = pairs.map(|(own, other)| own - other).collect();
            differences.push(series);
        }
        differences
    }

    fn log_memory(&self, effect: f64, noise: f64) -> f64 {
        // Steps of a page make equal values, which the rank statistics must bear.
        let exact = BASELINE * (1.0 + effect + self.spread * noise);
        ((exact / PAGE).round() * PAGE).ln()
    }

    /// Runs and judges `replications` experiments.
    pub fn run(
        &self,
        design: &Design,
        margin: f64,
        replications: u32,
        seed: u64,
    ) -> Vec<Replication> {
        let mut rng = SeededRng::new(seed);
        (0..replications).map(|_| self.once(design, margin, &mut rng)).collect()
    }

    fn once(&self, design: &Design, margin: f64, rng: &mut SeededRng) -> Replication {
        let differences = self.differences(rng);
        // Lower and upper limit of a ratio are not symmetric as logarithms.
        let margin = ((-margin).ln_1p(), margin.ln_1p());
        let claims: Vec<Claim> = differences
            .iter()
            .map(|series| Claim { pairs: series.iter().copied().map(Some).collect(), margin })
            .collect();
        let judged = design.judge(&claims);
        let covered = self.covered(design, &differences[0], judged[0].decided_after);
        Replication { judged, covered }
    }

    fn covered(&self, design: &Design, series: &[f64], decided_after: Option<u32>) -> bool {
        // An experiment that stops early is covered if the interval that stopped it is.
        let blocks = decided_after.unwrap_or(self.blocks);
        let look = design.difference(1).look_at(blocks);
        let walsh = Walsh::new(&series[..blocks as usize]);
        let truth = self.effects[0].ln_1p();
        let interval = look.and_then(|look| look.cut).and_then(|cut| walsh.interval(cut));
        // A look without an interval excludes nothing, so it cannot miss the truth.
        interval.is_none_or(|(low, high)| low <= truth && truth <= high)
    }
}

/// Whether a plain 95 % t interval after every block from the sixth on would ever exclude 0. Tools that
/// compare usually stop by this rule.
pub fn repeated_t_test_errs(differences: &[f64]) -> bool {
    (6..=differences.len()).any(|n| {
        let so_far = &differences[..n];
        let mean = so_far.iter().sum::<f64>() / n as f64;
        let squares: f64 = so_far.iter().map(|d| (d - mean).powi(2)).sum();
        let error = (squares / (n - 1) as f64 / n as f64).sqrt();
        mean.abs() > t_upper_quantile(0.025, (n - 1) as f64) * error
    })
}
