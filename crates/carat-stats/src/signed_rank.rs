//! The exact null distribution of Wilcoxon's signed-rank statistic, and the cuts of intervals.
//!
//! Source: F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics 1 (1945); the
//! recursion over ranks is the textbook one (Hollander and Wolfe, *Nonparametric Statistical
//! Methods*).

use crate::normal;

/// Above this many pairs the normal approximation is used, which is then accurate to one rank.
const EXACT_UP_TO: usize = 200;

/// P(T⁺ ≤ t) for t = 0, 1, …, n(n+1)/2, where T⁺ is the sum of the ranks of positive differences.
///
/// Each rank i is positive with probability one half: q_i\[t\] = (q_{i−1}\[t\] + q_{i−1}\[t−i\]) /
/// 2.
pub fn cumulative(n: usize) -> Vec<f64> {
    let top = n * (n + 1) / 2;
    let mut mass = vec![0.0; top + 1];
    mass[0] = 1.0;
    for rank in 1..=n {
        let reached = rank * (rank + 1) / 2;
        // Downwards, because `mass[t - rank]` must still be that of the ranks before this one.
        for t in (0..=reached).rev() {
            let moved = if t >= rank { mass[t - rank] } else { 0.0 };
            mass[t] = 0.5 * (mass[t] + moved);
        }
    }
    let mut sum = 0.0;
    mass.iter()
        .map(|p| {
            sum += p;
            sum
        })
        .collect()
}

/// The largest c with P(T⁺ ≤ c) ≤ `p` / 2, or `None` where even c = 0 is too likely.
///
/// With M = n(n+1)/2 sorted Walsh averages w, \[w₍c₊₁₎, w₍M₋c₎\] (counted from 1) then covers the
/// centre of symmetry with probability at least 1 − `p`.
pub fn cut(n: usize, p: f64) -> Option<usize> {
    // The exact distribution takes n³ steps and its table n² numbers.
    if n > EXACT_UP_TO {
        return approximate_cut(n, p);
    }
    cumulative(n).iter().take_while(|&&below| below <= p / 2.0).count().checked_sub(1)
}

/// The two-sided error 2·P(T⁺ ≤ c) of the interval with cut `c`.
pub fn error_of_cut(n: usize, c: usize) -> f64 {
    cumulative(n).get(c).map_or(1.0, |below| (2.0 * below).min(1.0))
}

fn approximate_cut(n: usize, p: f64) -> Option<usize> {
    let pairs = n as f64;
    let mean = pairs * (pairs + 1.0) / 4.0;
    // Hollander and Wolfe give the moments; the half is the correction for continuity.
    let sd = (pairs * (pairs + 1.0) * (2.0 * pairs + 1.0) / 24.0).sqrt();
    let c = (mean - normal::upper_quantile(p / 2.0) * sd - 0.5).floor();
    (c >= 0.0).then_some(c as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_that_of_all_sign_patterns() {
        for n in 1..=10_usize {
            let top = n * (n + 1) / 2;
            let mut count = vec![0_u32; top + 1];
            for signs in 0..1_usize << n {
                count[(1..=n).filter(|rank| signs >> (rank - 1) & 1 == 1).sum::<usize>()] += 1;
            }
            let mut below = 0;
            for (t, probability) in cumulative(n).into_iter().enumerate() {
                below += count[t];
                let exact = f64::from(below) / f64::from(1_u32 << n);
                assert!((probability - exact).abs() < 1e-12, "n = {n}, t = {t}");
            }
        }
    }

    /// Critical values as in printed tables of the signed-rank test, for example in Hollander and
    /// Wolfe; `qsignrank(p / 2, n) - 1` of R gives the same.
    #[test]
    fn cuts_are_those_of_printed_tables() {
        for (n, p, want) in [
            (5, 0.05, None),
            (6, 0.05, Some(0)),
            (7, 0.05, Some(2)),
            (8, 0.05, Some(3)),
            (9, 0.05, Some(5)),
            (10, 0.05, Some(8)),
            (12, 0.05, Some(13)),
            (15, 0.05, Some(25)),
            (20, 0.05, Some(52)),
            (25, 0.05, Some(89)),
            (8, 0.01, Some(0)),
            (15, 0.01, Some(15)),
            (20, 0.01, Some(37)),
            (20, 0.10, Some(60)),
        ] {
            assert_eq!(cut(n, p), want, "n = {n}, p = {p}");
        }
    }

    #[test]
    fn six_pairs_reach_96_9_percent_and_five_do_not_reach_95() {
        assert!((error_of_cut(6, 0) - 0.031_25).abs() < 1e-12);
        assert!((error_of_cut(5, 0) - 0.062_5).abs() < 1e-12);
    }

    #[test]
    fn the_approximation_joins_the_exact_cuts() {
        for p in [0.05, 0.01] {
            let exact = cut(EXACT_UP_TO, p).unwrap();
            assert!(exact.abs_diff(approximate_cut(EXACT_UP_TO, p).unwrap()) <= 8, "p = {p}");
        }
    }
}
