//! Checks the error rates of `docs/explanation/method.md` with few replications; `bin/bench stats` runs the same
//! simulations with many.
//!
//! Bounds leave three standard errors of the simulation beside the promise, so that a wrong cut breaks
//! them and another seed does not.

use carat_stats::blocks::{blocks_for, detectable};
use carat_stats::family::{Claim, Decision, Design, GuardResult, guard};
use carat_stats::simulate::{
    Noise, Replication, SeededRng, SimulatedExperiment, repeated_t_test_errs,
};
use proptest::prelude::{Strategy, proptest};

const EFFECT: f64 = -567_222.0 / 71_162_253.0;
const MARGIN: f64 = 0.0025;

fn share(runs: &[Replication], is: impl Fn(&Replication) -> bool) -> f64 {
    runs.iter().filter(|run| is(run)).count() as f64 / runs.len() as f64
}

/// `promise` plus three standard errors of a share of `runs` simulated experiments.
fn at_most(promise: f64, runs: usize) -> f64 {
    promise + 3.0 * (promise * (1.0 - promise) / runs as f64).sqrt()
}

fn blocks(runs: &[Replication], budget: u32) -> Vec<u32> {
    runs.iter().map(|run| run.judged[0].decided_after.unwrap_or(budget)).collect()
}

#[test]
fn the_published_effect_is_decided_in_about_ten_blocks() {
    let design = Design::new(0.05, 1, 100);
    for noise in Noise::ALL {
        let runs = SimulatedExperiment::new(noise, &[EFFECT]).run(&design, MARGIN, 300, 1);
        let lengths = blocks(&runs, 100);
        let mean = f64::from(lengths.iter().sum::<u32>()) / 300.0;
        let within = |n| lengths.iter().filter(|&&blocks| blocks <= n).count() as f64 / 300.0;
        let (longest_mean, limit, share_within) =
            if noise == Noise::Outliers { (14.5, 27, 0.94) } else { (11.3, 15, 0.90) };
        assert!(mean <= longest_mean, "{noise:?}: {mean} blocks on average");
        assert!(within(limit) >= share_within, "{noise:?}: {} within {limit}", within(limit));
        assert!(share(&runs, |r| r.judged[0].decision == Decision::Less) >= 0.99, "{noise:?}");
        assert!(share(&runs, |r| r.covered) >= 0.95, "{noise:?}: interval");
    }
}

#[test]
fn a_difference_is_rarely_claimed_where_there_is_none() {
    let design = Design::new(0.05, 1, 100);
    for noise in Noise::ALL {
        let runs = SimulatedExperiment::new(noise, &[0.0]).run(&design, MARGIN, 400, 2);
        let wrong = share(&runs, |run| run.judged[0].decision.is_difference());
        assert!(wrong <= at_most(0.05, 400), "{noise:?}: {wrong}");
        assert!(share(&runs, |run| run.covered) >= 0.92, "{noise:?}: interval");
        let equivalent = share(&runs, |run| run.judged[0].decision == Decision::Equivalent);
        let promised = if noise == Noise::Outliers { 0.72 } else { 0.85 };
        assert!(equivalent >= promised, "{noise:?}: equivalent in {equivalent}");
    }
}

#[test]
fn the_error_holds_without_stopping_for_equivalence() {
    let design = Design::new(0.05, 1, 100);
    for noise in [Noise::Normal, Noise::TwoClusters] {
        let runs = SimulatedExperiment::new(noise, &[0.0]).run(&design, 0.0, 500, 3);
        let wrong = share(&runs, |run| run.judged[0].decision.is_difference());
        assert!(wrong <= at_most(0.05, 500), "{noise:?}: {wrong}");
    }
}

#[test]
fn a_t_interval_after_every_block_is_wrong_too_often() {
    let mut rng = SeededRng::new(4);
    let world = SimulatedExperiment::new(Noise::Normal, &[0.0]);
    let wrong = (0..300).filter(|_| repeated_t_test_errs(&world.differences(&mut rng)[0])).count();
    assert!(wrong > 45, "{wrong} of 300");
}

#[test]
fn three_variants_share_one_error() {
    for (effects, noise) in
        [([0.0, 0.0, 0.0], Noise::Normal), ([0.0, EFFECT, EFFECT], Noise::Outliers)]
    {
        let design = Design::new(0.05, 3, 60);
        let world = SimulatedExperiment { blocks: 60, ..SimulatedExperiment::new(noise, &effects) };
        let runs = world.run(&design, 0.0, 500, 5);
        let wrong = share(&runs, |run| {
            let judged = run.judged.iter().zip(effects);
            judged.clone().any(|(j, effect)| effect == 0.0 && j.decision.is_difference())
        });
        assert!(wrong <= at_most(0.05, 500), "{effects:?}: {wrong}");
        if effects[2] != 0.0 {
            assert!(share(&runs, |run| run.judged[2].decision == Decision::Less) >= 0.98);
        }
    }
}

#[test]
fn comparisons_with_controls_share_the_error_of_the_whole() {
    // A sham, a collection and a compaction that adds nothing to it, each with the one before as its control.
    for (effects, noise) in [([0.0; 3], Noise::Normal), ([0.0, EFFECT, EFFECT], Noise::Outliers)] {
        let world = SimulatedExperiment {
            blocks: 60,
            controls: vec![(1, 0), (2, 1)],
            ..SimulatedExperiment::new(noise, &effects)
        };
        let truths = world.truths();
        let design = Design::new(0.05, truths.len(), 60);
        let runs = world.run(&design, 0.0, 500, 8);
        let wrong = share(&runs, |run| {
            let mut judged = run.judged.iter().zip(&truths);
            judged.any(|(j, &truth)| truth == 0.0 && j.decision.is_difference())
        });
        assert!(wrong <= at_most(0.05, 500), "{effects:?}: {wrong}");
        if effects[1] != 0.0 {
            assert!(share(&runs, |run| run.judged[3].decision == Decision::Less) >= 0.98);
        }
    }
}

#[test]
fn a_budget_finds_its_detectable_difference() {
    for budget in [6, 8, 15, 30, 60] {
        let design = Design::new(0.05, 1, budget);
        let found = detectable(0.0041, budget).unwrap();
        let world = SimulatedExperiment {
            blocks: budget,
            ..SimulatedExperiment::new(Noise::Normal, &[-found])
        };
        let runs = world.run(&design, found, 300, 6);
        let power = share(&runs, |run| run.judged[0].decision == Decision::Less);
        assert!(power >= 0.86, "{budget} blocks: {power}");
    }
    assert_eq!(blocks_for(0.0041, 0.008), Some(15));
}

#[test]
fn a_guard_passes_a_true_breach_at_most_once_in_twenty() {
    let design = Design::new(0.05, 1, 100);
    let (sequence, limit) = (design.equivalence(1), 0.05_f64.ln_1p());
    let passes = |effect: f64| {
        let world = SimulatedExperiment {
            spread: 0.02,
            ..SimulatedExperiment::new(Noise::Normal, &[effect])
        };
        let mut rng = SeededRng::new(7);
        let is = |_: &u32| {
            guard(sequence, &world.differences(&mut rng)[0], limit) == GuardResult::Within
        };
        (0..500).filter(is).count() as f64 / 500.0
    };
    assert!(passes(0.0) >= 0.98);
    assert!(passes(0.05) <= at_most(0.05, 500));
}

fn pairs() -> impl Strategy<Value = Vec<Option<f64>>> {
    proptest::collection::vec(proptest::option::weighted(0.9, -0.02..0.01_f64), 0..40)
}

fn turned(decision: Decision) -> Decision {
    match decision {
        Decision::Less => Decision::More,
        Decision::More => Decision::Less,
        same => same,
    }
}

/// Tables are slow to compute and the same for every case.
fn design() -> &'static Design {
    static DESIGN: std::sync::OnceLock<Design> = std::sync::OnceLock::new();
    DESIGN.get_or_init(|| Design::new(0.05, 2, 30))
}

proptest! {
    #[test]
    fn swapping_variant_and_baseline_mirrors_the_decision(pairs in pairs()) {
        let mirrored = pairs.iter().map(|pair| pair.map(|d| -d)).collect();
        let margin = (-0.004, 0.004);
        let found = design().judge(&[Claim { pairs, margin }])[0];
        let other = design().judge(&[Claim { pairs: mirrored, margin }])[0];
        assert_eq!(found.decision, turned(other.decision));
        assert_eq!(found.decided_after, other.decided_after);
    }

    #[test]
    fn another_unit_changes_nothing(pairs in pairs()) {
        let scaled = pairs.iter().map(|pair| pair.map(|d| 8.0 * d)).collect();
        let found = design().judge(&[Claim { pairs, margin: (-0.004, 0.004) }]);
        let other = design().judge(&[Claim { pairs: scaled, margin: (-0.032, 0.032) }]);
        assert_eq!(found, other);
    }

    #[test]
    fn blocks_that_do_not_count_change_nothing(pairs in pairs()) {
        let known = pairs.iter().copied().filter(Option::is_some).collect();
        let margin = (-0.004, 0.004);
        let found = design().judge(&[Claim { pairs, margin }]);
        assert_eq!(found, design().judge(&[Claim { pairs: known, margin }]));
    }

    #[test]
    fn a_decision_survives_every_later_block(pairs in pairs(), later in pairs()) {
        let margin = (-0.004, 0.004);
        let before = design().judge(&[Claim { pairs: pairs.clone(), margin }])[0];
        let all = pairs.into_iter().chain(later).collect();
        let after = design().judge(&[Claim { pairs: all, margin }])[0];
        if before.decision != Decision::Undecided {
            assert_eq!((before.decision, before.decided_after), (after.decision, after.decided_after));
        }
    }
}
