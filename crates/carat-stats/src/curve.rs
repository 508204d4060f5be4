//! Judges a figure measured at several steps of a load, such as latency over the number of connections.
//!
//! Testing every step separately claims a difference at some step in 30 % of experiments without any
//! effect. Therefore one claim covers the whole curve, its mean over the steps, and the single steps
//! share one error by Holm's procedure.

use crate::family::{Claim, Design, Judged};

#[derive(Debug, Clone, PartialEq)]
pub struct JudgedCurve {
    /// The mean over all steps, which is the area between the two curves.
    pub area: Judged,
    /// Every step; together they have one error.
    pub steps: Vec<Judged>,
}

/// The tables for curves with a given number of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveDesign {
    whole: Design,
    single: Design,
}

impl CurveDesign {
    /// The design for a two-sided error `alpha` of each part, `steps` steps and at most `budget`
    /// blocks, with looks after multiples of `round` blocks.
    pub fn in_rounds(alpha: f64, steps: usize, budget: u32, round: u32) -> Self {
        Self {
            whole: Design::in_rounds(alpha, 1, budget, round),
            single: Design::in_rounds(alpha, steps, budget, round),
        }
    }

    /// Judges `blocks`, each with the difference (of logarithms) at every step; `margin` as in
    /// [`Claim`].
    ///
    /// A block in which any step is missing does not count.
    pub fn judge(&self, blocks: &[Option<Vec<f64>>], margin: (f64, f64)) -> JudgedCurve {
        let steps = blocks.iter().flatten().map(Vec::len).max().unwrap_or(0);
        // A mean over fewer steps differs without any effect, so such a block does not count.
        let complete: Vec<Option<&[f64]>> = blocks
            .iter()
            .map(|block| block.as_deref().filter(|block| block.len() == steps))
            .collect();
        let area = claim(&complete, margin, |block| block.iter().sum::<f64>() / block.len() as f64);
        let single: Vec<Claim> =
            (0..steps).map(|step| claim(&complete, margin, |block| block[step])).collect();
        JudgedCurve { area: self.whole.judge(&[area])[0], steps: self.single.judge(&single) }
    }
}

fn claim(blocks: &[Option<&[f64]>], margin: (f64, f64), figure: impl Fn(&[f64]) -> f64) -> Claim {
    Claim { pairs: blocks.iter().map(|block| block.map(&figure)).collect(), margin }
}

/// The non-decreasing curve nearest to `values`, to draw beside points that dip by chance (pool
/// adjacent violators; M. Ayer et al., Annals of Mathematical Statistics 26, 1955).
pub fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let (mut sum, mut count) = (value, 1);
        while let Some(&(before, size)) = pools.last() {
            // Equal neighbours do not dip, so they stay apart.
            if before / size as f64 <= sum / count as f64 {
                break;
            }
            sum += before;
            count += size;
            pools.pop();
        }
        pools.push((sum, count));
    }
    pools.iter().flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Decision;
    use crate::simulate::SeededRng;

    /// Ten steps with a correlation of one half within a block; the last five differ by `effect`
    /// standard deviations.
    fn blocks(effect: f64, rng: &mut SeededRng) -> Vec<Option<Vec<f64>>> {
        let mut block = || {
            let common = rng.normal();
            let step = |i: usize| {
                let own = (common + rng.normal()) * std::f64::consts::FRAC_1_SQRT_2;
                own + if i >= 5 { effect } else { 0.0 }
            };
            Some((0..10).map(step).collect())
        };
        (0..20).map(|_| block()).collect()
    }

    #[test]
    fn a_curve_without_effect_is_rarely_claimed_anywhere_and_an_effect_is_found() {
        let design = CurveDesign::in_rounds(0.05, 10, 20, 1);
        let mut rng = SeededRng::new(41);
        let (mut at_a_step, mut whole, mut late, mut early) = (0, 0, 0, 0);
        let none = (-1e-9, 1e-9);
        for _ in 0..400 {
            let curve = design.judge(&blocks(0.0, &mut rng), none);
            at_a_step += usize::from(curve.steps.iter().any(|s| s.decision.is_difference()));
            whole += usize::from(curve.area.decision.is_difference());
            let curve = design.judge(&blocks(2.0, &mut rng), none);
            late += usize::from(curve.steps[9].decision == Decision::More);
            early += usize::from(curve.steps[..5].iter().any(|s| s.decision.is_difference()));
        }
        // 5 % of 400 is 20; 33 is three standard errors above it.
        assert!(at_a_step <= 33 && whole <= 33 && early <= 33, "{at_a_step} {whole} {early}");
        assert!(late >= 390, "{late}");
    }

    #[test]
    fn a_block_that_lacks_a_step_does_not_count() {
        let design = CurveDesign::in_rounds(0.05, 2, 10, 1);
        let mut blocks = vec![Some(vec![0.1, 0.2]); 9];
        blocks.push(Some(vec![0.1]));
        let before = design.judge(&blocks[..9], (-0.01, 0.01));
        assert_eq!(before, design.judge(&blocks, (-0.01, 0.01)));
    }

    #[test]
    fn dips_are_pooled() {
        assert_eq!(rising(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(rising(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert!(rising(&[]).is_empty());
    }
}
