use super::*;
use crate::Warning;
use crate::pairs::tests::trial;
use carat_model::{Outcome, PartAtWork};

const PSS: &str = "memory.pss.final";

pub(crate) fn judge(question: &Question, trials: &[Trial]) -> Judgement {
    Judge::new(question.clone()).judge(trials)
}

/// A small fixed variation, about 0.3 % of the whole, so that the tests need no random numbers.
fn variation(block: u32, salt: u32) -> f64 {
    let turned = (block * 7 + salt * 13) % 11;
    1.0 + (f64::from(turned) - 5.0) * 0.0006
}

/// Blocks 0 to `blocks` of variants whose memory is their factor times 70 MB.
fn trials(blocks: u32, factors: &[(&str, f64)]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for block in 0..=blocks {
        for (salt, &(name, factor)) in (0..).zip(factors) {
            let memory = 70e6 * factor * variation(block, salt);
            let p95 = 0.05 * variation(block, salt + 3);
            trials.push(trial(block, name, &[(PSS, memory), ("latency.p95", p95)]));
        }
    }
    trials
}

fn question(variants: &[&str]) -> Question {
    Question::new(variants, PSS)
}

#[test]
fn a_clear_saving_is_decided_at_the_first_look() {
    let run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
    let judgement = judge(&question(&["default", "compact"]), &run);
    let conclusion = &judgement.conclusions[0];
    assert_eq!(conclusion.verdict, Verdict::Smaller);
    assert_eq!((conclusion.blocks, judgement.next), (8, NextStep::Stop(StopReason::Decided)));
    let estimate = conclusion.estimate.unwrap();
    assert!((estimate.ratio + 0.03).abs() < 0.003, "{estimate:?}");
    assert!((estimate.difference + 2.1e6).abs() < 0.2e6, "{estimate:?}");
    assert!(estimate.ratio_interval.0 < -0.03 && estimate.ratio_interval.1 > -0.03);
}

#[test]
fn no_verdict_before_the_first_look() {
    let run = trials(7, &[("default", 1.0), ("compact", 0.97)]);
    let judgement = judge(&question(&["default", "compact"]), &run);
    assert_eq!(judgement.conclusions[0].verdict, Verdict::Undecided);
    assert_eq!(judgement.conclusions[0].estimate, None);
    let both = vec!["default".to_owned(), "compact".to_owned()];
    assert_eq!(judgement.next, NextStep::Continue(both));
}

#[test]
fn only_an_experiment_whose_budget_can_decide_nothing_may_get_more_blocks() {
    let more = |variants: &[&str], max_blocks| {
        let question = Question { max_blocks, ..question(variants) };
        Judge::new(question).blocks_to_add_up_to()
    };
    assert_eq!(more(&["default", "compact"], 3), Some(8));
    assert!(more(&["default", "a", "b", "c"], 3) > Some(8));
    // Six can decide a claim, and already fewer a guard.
    for (variants, budget) in [(2, 6), (2, 8), (4, 6), (4, 30)] {
        let names = &["default", "a", "b", "c"][..variants];
        assert_eq!(more(names, budget), None, "{variants} variants, {budget} blocks");
    }
}

#[test]
fn six_blocks_decide_where_six_are_the_whole_budget() {
    let run = trials(6, &[("default", 1.0), ("compact", 0.97)]);
    let short = Question { max_blocks: 6, ..question(&["default", "compact"]) };
    let judgement = judge(&short, &run);
    assert_eq!(judgement.conclusions[0].verdict, Verdict::Smaller);
    assert_eq!(judgement.conclusions[0].estimate.unwrap().confidence, 0.968_75);
    let three = Question { max_blocks: 3, ..short };
    let judgement = judge(&three, &trials(3, &[("default", 1.0), ("compact", 0.97)]));
    assert_eq!(judgement.conclusions[0].verdict, Verdict::Undecided);
    assert_eq!(judgement.conclusions[0].estimate.unwrap().confidence, 0.75);
    assert_eq!(judgement.next, NextStep::Stop(StopReason::BudgetSpent));
}

#[test]
fn a_variant_against_itself_is_equivalent_within_a_wide_margin() {
    let wide = Question { margin: 0.02, ..question(&["default", "same"]) };
    let judgement = judge(&wide, &trials(8, &[("default", 1.0), ("same", 1.0)]));
    assert_eq!(judgement.conclusions[0].verdict, Verdict::Equivalent);
    assert_eq!(judgement.conclusions[0].estimate.unwrap().confidence, 0.90);
}

#[test]
fn a_decided_variant_stops_and_the_others_continue() {
    let run = trials(10, &[("default", 1.0), ("same", 1.0), ("compact", 0.9)]);
    let narrow = Question { margin: 1e-4, ..question(&["default", "same", "compact"]) };
    let judgement = judge(&narrow, &run);
    let open = vec!["default".to_owned(), "same".to_owned()];
    assert_eq!(judgement.next, NextStep::Continue(open));
    assert_eq!(judgement.conclusions[1].verdict, Verdict::Smaller);
}

#[test]
fn an_undecided_guard_keeps_its_variant_running() {
    let mut run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
    for (i, slow) in run.iter_mut().filter(|t| t.variant == "compact").enumerate() {
        let p95 = if i % 2 == 0 { 0.040 } else { 0.065 };
        slow.metrics.insert("latency.p95".to_owned(), p95);
    }
    let mut guarded = question(&["default", "compact"]);
    guarded.guards.push(("latency.p95".to_owned(), 0.05));
    let judgement = judge(&guarded, &run);
    assert_eq!(judgement.conclusions[0].verdict, Verdict::Smaller);
    assert_eq!(judgement.conclusions[1].guard_passed, None);
    assert!(matches!(judgement.next, NextStep::Continue(_)));
    let calm = judge(&guarded, &trials(8, &[("default", 1.0), ("compact", 0.97)]));
    assert_eq!(calm.conclusions[1].guard_passed, Some(true));
    assert_eq!(calm.next, NextStep::Stop(StopReason::Decided));
}

#[test]
fn a_variant_beyond_a_guard_asks_for_no_further_block_unless_its_figures_are_to_be_precise() {
    let mut run = trials(8, &[("default", 1.0), ("slow", 1.01)]);
    for (at, trial) in run.iter_mut().enumerate() {
        let p95 = if trial.variant == "slow" { 0.4 } else { 0.05 } + at as f64 * 1e-4;
        trial.metrics.insert("latency.p95".to_owned(), p95);
    }
    let mut guarded = question(&["default", "slow"]);
    guarded.guards.push(("latency.p95".to_owned(), 0.05));
    // So narrow that the memory stays undecided.
    guarded.margin = 0.0101;
    let judgement = judge(&guarded, &run);
    assert_eq!(judgement.conclusions[1].guard_passed, Some(false));
    assert_eq!(judgement.next, NextStep::Stop(StopReason::Decided));
    guarded.precise = true;
    assert!(matches!(judge(&guarded, &run).next, NextStep::Continue(_)));
}

#[test]
fn a_confirmation_ends_when_a_guard_can_hardly_be_shown_and_any_other_experiment_goes_on() {
    let mut run = trials(20, &[("default", 1.0), ("candidate", 0.8)]);
    for (i, slow) in run.iter_mut().filter(|t| t.variant == "candidate").enumerate() {
        let p95 = if i % 2 == 0 { 0.040 } else { 0.075 };
        slow.metrics.insert("latency.p95".to_owned(), p95);
    }
    let guards = vec![("latency.p95".to_owned(), 0.05)];
    let plain = Question { guards, max_blocks: 60, ..question(&["default", "candidate"]) };
    let confirming = Question { attempts: Some(2), ..plain.clone() };
    let after = |blocks: usize| judge(&confirming, &run[..2 * (blocks + 1)]);
    assert_eq!(after(14).confirmation, None);
    assert!(matches!(after(14).next, NextStep::Continue(_)));
    assert_eq!(after(15).confirmation, Some(ConfirmationEnd::LimitBroken(0)));
    assert_eq!(after(15).next, NextStep::Stop(StopReason::Decided));
    assert_eq!(after(15).conclusions[1].guard_passed, None);
    assert!(matches!(judge(&plain, &run[..32]).next, NextStep::Continue(_)));
    let calm = trials(9, &[("default", 1.0), ("candidate", 0.8)]);
    let calm = judge(&confirming, &calm);
    assert_eq!(calm.confirmation, Some(ConfirmationEnd::Confirmed));
    let confidence = calm.conclusions[0].estimate.unwrap().confidence;
    assert!((confidence - 0.975).abs() < 1e-12, "{confidence}");
}

#[test]
fn a_block_with_a_failed_trial_is_run_again_unless_every_block_runs_once() {
    let mut run = trials(1, &[("default", 1.0), ("broken", 1.0)]);
    for trial in run.iter_mut().filter(|trial| trial.variant == "broken") {
        trial.outcome = Outcome::Crashed;
    }
    let again = Question { max_blocks: 1, ..question(&["default", "broken"]) };
    assert!(matches!(judge(&again, &run).next, NextStep::Continue(_)));
    let once = Question { reruns: false, ..again };
    assert_eq!(judge(&once, &run).next, NextStep::Stop(StopReason::TooManyDropped));
}

#[test]
fn two_blocks_of_a_small_budget_are_run_again_and_no_third() {
    let mut run = trials(8, &[("default", 1.0), ("same", 1.0)]);
    // One variant and then the other, so that neither fails too often.
    for (block, variant) in [(2, "default"), (4, "same"), (6, "default")] {
        let crashed = run.iter_mut().find(|one| (one.block, &*one.variant) == (block, variant));
        crashed.unwrap().outcome = Outcome::Crashed;
    }
    let narrow = Question { margin: 1e-4, max_blocks: 6, ..question(&["default", "same"]) };
    let after = |blocks: usize| judge(&narrow, &run[..2 * (blocks + 1)]).next;
    assert!(matches!(after(7), NextStep::Continue(_)));
    assert_eq!(after(8), NextStep::Stop(StopReason::TooManyDropped));
}

#[test]
fn zero_errors_pass_a_guard_on_errors() {
    let mut run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
    for trial in &mut run {
        trial.metrics.insert("errors".to_owned(), 0.0);
    }
    let mut guarded = question(&["default", "compact"]);
    guarded.guards.push(("errors".to_owned(), 0.001));
    assert_eq!(judge(&guarded, &run).conclusions[1].guard_passed, Some(true));
}

#[test]
fn a_variant_that_keeps_crashing_is_stopped() {
    let mut run = trials(4, &[("default", 1.0), ("broken", 1.0)]);
    for trial in run.iter_mut().filter(|trial| trial.variant == "broken") {
        trial.outcome = Outcome::Crashed;
    }
    let judgement = judge(&question(&["default", "broken"]), &run);
    assert_eq!(judgement.next, NextStep::Stop(StopReason::Failing));
    assert_eq!(judgement.dropped.len(), 4);
    assert!(judgement.warnings.iter().any(|w| matches!(w, Warning::Fails { failed: 4, .. })));
}

#[test]
fn a_metric_without_values_ends_the_experiment_early() {
    let run = trials(2, &[("default", 1.0), ("compact", 0.9)]);
    let question = Question::new(&["default", "compact"], "memory.rss.final");
    let judgement = judge(&question, &run);
    assert_eq!(judgement.next, NextStep::Stop(StopReason::Unmeasured));
    let is = |w: &Warning| matches!(w, Warning::Unmeasured { .. });
    assert!(judgement.warnings.iter().any(is), "{:?}", judgement.warnings);
}

#[test]
fn the_order_in_which_trials_were_stored_does_not_matter() {
    let mut run = trials(12, &[("default", 1.0), ("compact", 0.998)]);
    let before = judge(&question(&["default", "compact"]), &run);
    run.reverse();
    assert_eq!(before, judge(&question(&["default", "compact"]), &run));
}

/// Compaction with a collection as control, and that with a sham.
fn controlled() -> Question {
    let named = |(one, other): (&str, &str)| (one.to_owned(), other.to_owned());
    let controls = [("compact", "gc"), ("gc", "sham"), ("sham", "default")].map(named).into();
    let variants = question(&["default", "sham", "gc", "compact"]);
    Question { controls, margin: 0.004, ..variants }
}

#[test]
fn a_control_equal_to_its_variant_does_all_of_the_work() {
    let run = trials(22, &[("default", 1.0), ("sham", 1.0), ("gc", 0.97), ("compact", 0.97)]);
    let judgement = judge(&controlled(), &run);
    let found: Vec<(&str, &str, Verdict, Option<PartAtWork>)> = judgement
        .controls
        .iter()
        .map(|c| (c.conclusion.variant.as_str(), c.control.as_str(), c.conclusion.verdict, c.part))
        .collect();
    let expected = [
        ("compact", "gc", Verdict::Equivalent, Some(PartAtWork::Control)),
        ("gc", "sham", Verdict::Smaller, Some(PartAtWork::Rest)),
    ];
    assert_eq!(found, expected);
    assert_eq!(judgement.next, NextStep::Stop(StopReason::Decided));
}

#[test]
fn a_control_adds_claims_that_share_the_error_and_the_baseline_as_control_adds_none() {
    let run = trials(22, &[("default", 1.0), ("sham", 1.0), ("gc", 0.97), ("compact", 0.97)]);
    let with = controlled();
    let alone = Question { controls: Vec::new(), ..with.clone() };
    assert_eq!((with.claims(), alone.claims()), (5, 3));
    let confidence = |question: &Question| {
        let judgement = judge(question, &run[..4 * 13]);
        judgement.conclusions[2].estimate.unwrap().ratio_interval
    };
    let (wide, narrow) = (confidence(&with), confidence(&alone));
    assert!(wide.1 - wide.0 >= narrow.1 - narrow.0, "{wide:?} {narrow:?}");
    let redundant = vec![("gc".to_owned(), "default".to_owned())];
    let redundant = Question { controls: redundant, ..alone.clone() };
    assert_eq!(judge(&redundant, &run), judge(&alone, &run));
}

#[test]
fn an_open_question_about_a_control_runs_both_variants_and_no_other() {
    let run = trials(12, &[("default", 1.0), ("sham", 1.05), ("gc", 0.97), ("compact", 0.9699)]);
    let judgement = judge(&Question { margin: 1e-5, ..controlled() }, &run);
    let decided = |c: &Conclusion| c.verdict != Verdict::Undecided;
    assert!(judgement.conclusions.iter().filter(|c| c.metric == PSS).all(decided));
    let open = vec!["gc".to_owned(), "compact".to_owned()];
    assert_eq!(judgement.next, NextStep::Continue(open));
    assert_eq!(judgement.controls[0].part, Some(PartAtWork::Undecided));
}

#[test]
fn a_guard_is_reported_against_a_control_and_asks_for_no_further_block() {
    let mut run = trials(22, &[("default", 1.0), ("sham", 1.0), ("gc", 0.97), ("compact", 0.97)]);
    for (i, trial) in run.iter_mut().enumerate() {
        // Control and variant swing by a fifth against each other, so their difference swings by twice as much.
        let up = (i % 8 < 4) == (trial.variant == "gc");
        let swing = if up { 1.2 } else { 1.0 / 1.2 };
        let p95 = if ["gc", "compact"].contains(&trial.variant.as_str()) { swing } else { 1.0 };
        trial.metrics.insert("latency.p95".to_owned(), 0.05 * p95);
    }
    let guards = vec![("latency.p95".to_owned(), 0.25)];
    let judgement = judge(&Question { guards, ..controlled() }, &run);
    let guard = judgement.controls.iter().find(|c| c.conclusion.metric == "latency.p95").unwrap();
    assert_eq!((guard.control.as_str(), guard.part), ("gc", None));
    assert_eq!(guard.conclusion.role, Role::Guard { limit: 0.25 });
    assert!(guard.conclusion.estimate.is_some());
    assert_eq!(guard.conclusion.guard_passed, None);
    assert_eq!(judgement.next, NextStep::Stop(StopReason::Decided));
}

#[test]
fn more_claims_make_the_first_verdict_later() {
    let first = |question: Question| question.first_verdict();
    assert_eq!(first(question(&["default", "compact"])), Some(8));
    assert_eq!(first(controlled()), Some(11));
    let eight = Question { max_blocks: 8, ..controlled() };
    assert_eq!(first(eight.clone()), Some(8));
    let mut more = eight;
    more.controls.extend([("compact", "sham")].map(|(v, c)| (v.to_owned(), c.to_owned())));
    more.also_primary = vec!["latency.p95".to_owned()];
    assert_eq!(first(more), None);
}

#[test]
fn the_fewest_blocks_are_those_of_the_first_verdict_or_where_the_budget_allows_none_of_a_larger_one()
 {
    let fewest = |max_blocks| {
        let question = Question { max_blocks, ..controlled() };
        (question.first_verdict(), question.fewest_blocks())
    };
    // A budget of eight has one look, which is exact.
    for (budget, first, expected) in
        [(3, None, 11), (8, Some(8), 8), (11, Some(11), 11), (60, Some(11), 11)]
    {
        assert_eq!(fewest(budget), (first, expected), "{budget} blocks");
    }
}

#[test]
fn another_baseline_needs_no_new_trials() {
    let run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
    let turned = judge(&question(&["compact", "default"]), &run);
    assert_eq!(turned.conclusions[0].verdict, Verdict::Larger);
}

#[test]
fn a_count_that_is_zero_in_the_baseline_has_a_verdict_and_a_difference_in_its_own_unit() {
    for typical in [0.0, 2.0] {
        let run: Vec<Trial> = (1..=9)
            .flat_map(|block| {
                let base = if block % 2 == 0 { 0.0 } else { typical };
                [("a", base), ("b", base + 3.0)]
                    .map(|(name, of)| trial(block, name, &[("gc.count", of)]))
            })
            .collect();
        let question = Question { max_blocks: 9, ..Question::new(&["a", "b"], "gc.count") };
        let judgement = Judge::new(question).judge(&run);
        let found = &judgement.conclusions[0];
        let estimate = found.estimate.unwrap();
        assert_eq!(found.verdict, Verdict::Larger);
        assert!(estimate.in_own_unit);
        assert_eq!(
            (estimate.ratio, estimate.difference, estimate.difference_interval),
            (3.0, 3.0, (3.0, 3.0))
        );
    }
}
