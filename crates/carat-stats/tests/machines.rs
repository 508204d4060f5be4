//! Checks what `docs/explanation/method.md` promises about machines of several types.
//!
//! Bounds leave three standard errors of the simulation beside the promise.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use carat_stats::family::{Design, GuardResult, guard};
use carat_stats::heterogeneity::permutation_p;
use carat_stats::simulate::{Noise, SeededRng};

/// The share of simulated fleets of two types, with 10 blocks each, that are called different at 1 %.
fn called_different(noise: Noise, effects: [f64; 2], sd: f64, runs: u64) -> f64 {
    let mut rng = SeededRng::new(41);
    let found = (0..runs).filter(|&run| {
        let groups = effects.map(|effect| {
            let drawn = noise.draw(10, &mut rng);
            drawn.iter().map(|d| effect + sd * d).collect::<Vec<f64>>()
        });
        permutation_p(&groups, run).unwrap() <= 0.01
    });
    found.count() as f64 / runs as f64
}

#[test]
fn equal_types_are_called_different_in_one_fleet_of_a_hundred() {
    for noise in [Noise::Normal, Noise::Outliers] {
        let share = called_different(noise, [-0.05; 2], 0.01, 300);
        assert!(share <= 0.01 + 3.0 * (0.01_f64 * 0.99 / 300.0).sqrt(), "{noise:?}: {share}");
    }
}

#[test]
fn twelve_and_three_per_cent_are_called_different() {
    // An outlier in one block of twenty is as large as the difference of the types.
    for (noise, least) in [(Noise::Normal, 0.99), (Noise::Outliers, 0.85)] {
        let share = called_different(noise, [-0.128, -0.030], 0.01, 60);
        assert!(share >= least, "{noise:?}: {share}");
    }
}

/// The share of experiments that let a guard of 5 % pass that is at its limit on average. A fast type, on which nothing
/// gets worse, has `fast` blocks for each one of a slow type, on which p95 is 10 % worse.
fn passes(fast: usize, runs: u32) -> f64 {
    let design = Design::in_rounds(0.05, 1, 60, 2);
    let mut rng = SeededRng::new(42);
    let passed = (0..runs).filter(|_| {
        let mut worse = Vec::new();
        while worse.len() < 60 {
            let mut round: Vec<f64> = vec![0.0; fast];
            round.push(1.1_f64.ln());
            let order = rng.order(round.len());
            worse.extend(order.into_iter().map(|at| round[at] + 0.1 * rng.normal()));
        }
        guard(design.equivalence(1), &worse[..60], 0.05_f64.ln_1p()) == GuardResult::Within
    });
    f64::from(passed.count() as u32) / f64::from(runs)
}

#[test]
fn a_guard_at_its_limit_passes_if_fast_machines_count_more_often_and_not_in_rounds() {
    // Both types together are 5 % worse, which is the limit.
    let (in_rounds, by_arrival) = (passes(1, 400), passes(3, 400));
    assert!(in_rounds <= 0.055 + 3.0 * (0.05_f64 * 0.95 / 400.0).sqrt(), "{in_rounds}");
    assert!(by_arrival >= 0.2, "{by_arrival}: counting by arrival would do no harm here");
}
