//! The judgement: every block in order, every claim, and whether to go on.

use crate::analysis::diagnostics::Diagnostics;
use crate::analysis::outcomes::{self, Outcomes};
use crate::analysis::pairs::{Blocks, Dropped, Pairs};
use crate::analysis::question::{Question, family};
use crate::analysis::warning::Warning;
use crate::core::metric::METRICS;
use crate::core::{Conclusion, Estimate, Role, Trial, Verdict};
use carat_stats::family::{Claim, Design, GuardResult, Judged, guard};
use carat_stats::{Look, Walsh, budget};

/// A question with its tables of looks and cuts, ready to be asked after every block.
#[derive(Debug, Clone)]
pub struct Judge {
    question: Question,
    design: Design,
}

/// What follows from the trials so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// One per compared variant and metric: deciding metrics first, then guards, then the rest.
    pub conclusions: Vec<Conclusion>,
    /// Whether to run another block.
    pub next: NextStep,
    /// What a reader should know first.
    pub warnings: Vec<Warning>,
    /// Trials that did not count.
    pub dropped: Vec<Dropped>,
    /// How the trials of every variant ended, the baseline first.
    pub outcomes: Vec<Outcomes>,
}

/// Whether to run another block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Run another block of these variants, the baseline first.
    Continue(Vec<String>),
    /// No further block would be used.
    Stop(StopReason),
}

/// Why no further block is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Every claim and every guard is decided.
    Decided,
    /// All blocks that were allowed have been run.
    BudgetSpent,
    /// Too many blocks had to be dropped: the machine or the load is unfit.
    TooManyDropped,
    /// What is left fails too often to be compared.
    Failing,
    /// Trials end well, but none has a value of a deciding metric.
    Unmeasured,
}

/// Judges `trials` once; where the same question comes again after every block, keep a [`Judge`].
pub fn judge(question: &Question, trials: &[Trial]) -> Judgement {
    Judge::new(question.clone()).judge(trials)
}

impl Judge {
    /// Works out the looks and cuts of a question.
    pub fn new(question: Question) -> Self {
        let design = Design::new(question.alpha, question.claims(), question.max_blocks);
        Self { question, design }
    }

    /// Replays `trials` block by block: the same trials always lead to the same judgement.
    pub fn judge(&self, trials: &[Trial]) -> Judgement {
        let blocks = Blocks::new(trials);
        let mut conclusions = self.primaries(&blocks);
        conclusions.extend(self.guards(&blocks));
        let outcomes = outcomes::compare(&blocks, &self.question.variants);
        let next = self.next(&blocks, &conclusions, &outcomes);
        let dropped = blocks.dropped();
        let diagnostics = Diagnostics {
            question: &self.question,
            blocks: &blocks,
            outcomes: &outcomes,
            conclusions: &conclusions,
        };
        let warnings = diagnostics.warnings(&dropped);
        conclusions.extend(self.exploratory(&blocks));
        Judgement { conclusions, next, warnings, dropped, outcomes }
    }

    fn pairs(&self, blocks: &Blocks, variant: &str, metric: &str) -> Pairs {
        blocks.pairs(self.question.baseline().unwrap_or_default(), variant, metric)
    }

    fn claim(pairs: &Pairs, margin: f64) -> Claim {
        Claim { pairs: pairs.differences(), margin: pairs.margin(margin) }
    }

    fn primaries(&self, blocks: &Blocks) -> Vec<Conclusion> {
        let question = &self.question;
        let claims: Vec<(&str, &str, Pairs)> = question
            .compared()
            .iter()
            .flat_map(|variant| question.primaries().map(move |metric| (variant.as_str(), metric)))
            .map(|(variant, metric)| (variant, metric, self.pairs(blocks, variant, metric)))
            .collect();
        let asked: Vec<Claim> =
            claims.iter().map(|(_, _, pairs)| Self::claim(pairs, question.margin)).collect();
        let judged = self.design.judge(&asked);
        let conclude = |((variant, metric, pairs), judged): (&(&str, &str, Pairs), Judged)| {
            let made = JudgedClaim { variant, metric, role: Role::Primary, judged };
            self.conclude(made, pairs, question.margin)
        };
        claims.iter().zip(judged).map(conclude).collect()
    }

    fn guards(&self, blocks: &Blocks) -> Vec<Conclusion> {
        let mut conclusions = Vec::new();
        for variant in self.question.compared() {
            for (metric, limit) in &self.question.guards {
                let pairs = self.pairs(blocks, variant, metric);
                let judged = self.design.judge(&[Self::claim(&pairs, *limit)])[0];
                let one_sided = self.design.equivalence(1);
                let look = judged.look.and_then(|look| one_sided.look_at(look.blocks));
                let judged = Judged { look, ..judged };
                let role = Role::Guard { limit: *limit };
                let mut conclusion =
                    self.conclude(JudgedClaim { variant, metric, role, judged }, &pairs, *limit);
                conclusion.guard_passed =
                    match guard(one_sided, &pairs.worsenings(), pairs.limit(*limit)) {
                        GuardResult::Within => Some(true),
                        GuardResult::Beyond => Some(false),
                        GuardResult::Unknown => None,
                    };
                conclusions.push(conclusion);
            }
        }
        conclusions
    }

    fn exploratory(&self, blocks: &Blocks) -> Vec<Conclusion> {
        let asked = |name: &str| {
            self.question.primaries().any(|primary| primary == name)
                || self.question.guards.iter().any(|(guard, _)| guard == name)
        };
        let mut conclusions = Vec::new();
        for metric in METRICS.iter().map(|metric| metric.id).filter(|name| !asked(name)) {
            for variant in self.question.compared() {
                let pairs = self.pairs(blocks, variant, metric);
                if pairs.known().is_empty() {
                    continue;
                }
                let judged = self.design.judge(&[Self::claim(&pairs, self.question.margin)])[0];
                let made = JudgedClaim { variant, metric, role: Role::Exploratory, judged };
                conclusions.push(self.conclude(made, &pairs, self.question.margin));
            }
        }
        conclusions
    }

    fn conclude(&self, made: JudgedClaim, pairs: &Pairs, margin: f64) -> Conclusion {
        let known = pairs.known();
        let verdict = family(made.metric).verdict(made.judged.finding);
        let spread = budget::spread(&known);
        let needed = spread
            .filter(|_| verdict == Verdict::Undecided)
            .and_then(|spread| budget::blocks_for(spread, margin))
            .map(|blocks| blocks.saturating_sub(known.len() as u32).max(1));
        Conclusion {
            variant: made.variant.to_owned(),
            metric: made.metric.to_owned(),
            role: made.role,
            verdict,
            estimate: made.judged.look.and_then(|look| estimate(pairs, look)),
            blocks: made.judged.look.map_or(known.len() as u32, |look| look.blocks),
            guard_passed: None,
            detectable: spread.and_then(|s| budget::detectable(s, self.question.max_blocks)),
            blocks_needed: needed,
        }
    }

    fn next(&self, blocks: &Blocks, conclusions: &[Conclusion], outcomes: &[Outcomes]) -> NextStep {
        let question = &self.question;
        let Some(baseline) = question.baseline() else {
            return NextStep::Stop(StopReason::Decided);
        };
        let open: Vec<&String> = question
            .compared()
            .iter()
            .filter(|variant| {
                !conclusions.iter().all(|c| c.variant != **variant || self.settled(c))
            })
            .collect();
        if open.is_empty() {
            return NextStep::Stop(StopReason::Decided);
        }
        let fails =
            |variant: &str| outcomes.iter().any(|o| o.variant == variant && o.fails_too_often());
        let healthy: Vec<&String> = open.into_iter().filter(|variant| !fails(variant)).collect();
        if healthy.is_empty() || fails(baseline) {
            return NextStep::Stop(StopReason::Failing);
        }
        if self.question.primaries().any(|metric| blocks.unmeasured(metric)) {
            return NextStep::Stop(StopReason::Unmeasured);
        }
        let enough = |variant: &str| {
            let pairs = self.pairs(blocks, variant, &question.primary);
            pairs.known().len() as u32 >= question.max_blocks
        };
        let running: Vec<&String> =
            healthy.into_iter().filter(|variant| !enough(variant)).collect();
        if running.is_empty() {
            return NextStep::Stop(StopReason::BudgetSpent);
        }
        // One block in ten may be lost and run again; more than that says something of the machine.
        if blocks.count() >= question.max_blocks + (question.max_blocks / 10).max(2) {
            return NextStep::Stop(StopReason::TooManyDropped);
        }
        let names = std::iter::once(baseline.to_owned()).chain(running.into_iter().cloned());
        NextStep::Continue(names.collect())
    }

    /// Whether a conclusion asks for no further block.
    fn settled(&self, conclusion: &Conclusion) -> bool {
        match conclusion.role {
            Role::Primary => {
                let wide = |e: Estimate| {
                    let half = 0.5 * (e.ratio_interval.1 - e.ratio_interval.0);
                    conclusion.verdict != Verdict::Equivalent && half > 0.25 * e.ratio.abs()
                };
                let vague = self.question.precise && conclusion.estimate.is_none_or(wide);
                conclusion.verdict != Verdict::Undecided && !vague
            }
            Role::Guard { .. } => conclusion.guard_passed.is_some(),
            Role::Exploratory => true,
        }
    }
}

/// What was judged, before it is put into the model's words.
struct JudgedClaim<'a> {
    variant: &'a str,
    metric: &'a str,
    role: Role,
    judged: Judged,
}

/// The estimate of pairs at a look; `None` where the look has no interval yet.
pub(crate) fn estimate(pairs: &Pairs, look: Look) -> Option<Estimate> {
    let (cut, blocks) = (look.cut?, look.blocks as usize);
    let shares = Walsh::new(pairs.known().get(..blocks)?);
    let amounts = Walsh::new(pairs.plain().get(..blocks)?);
    let (low, high) = shares.interval(cut)?;
    Some(Estimate {
        ratio: pairs.as_ratio(shares.estimate()?),
        ratio_interval: (pairs.as_ratio(low), pairs.as_ratio(high)),
        difference: amounts.estimate()?,
        difference_interval: amounts.interval(cut)?,
        confidence: look.confidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Warning;
    use crate::analysis::pairs::tests::trial;
    use crate::core::Outcome;

    const PSS: &str = "memory.pss.final";

    /// A small fixed scatter, about 0.3 % of the whole, so that tests need no generator.
    fn scatter(block: u32, salt: u32) -> f64 {
        let turned = (block * 7 + salt * 13) % 11;
        1.0 + (f64::from(turned) - 5.0) * 0.0006
    }

    /// Blocks 0 to `blocks` of variants whose memory is their factor times 70 MB.
    fn trials(blocks: u32, factors: &[(&str, f64)]) -> Vec<Trial> {
        let mut trials = Vec::new();
        for block in 0..=blocks {
            for (salt, &(name, factor)) in (0..).zip(factors) {
                let memory = 70e6 * factor * scatter(block, salt);
                let p95 = 0.05 * scatter(block, salt + 3);
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
    fn nothing_is_said_before_the_first_look() {
        let run = trials(7, &[("default", 1.0), ("compact", 0.97)]);
        let judgement = judge(&question(&["default", "compact"]), &run);
        assert_eq!(judgement.conclusions[0].verdict, Verdict::Undecided);
        assert_eq!(judgement.conclusions[0].estimate, None);
        let both = vec!["default".to_owned(), "compact".to_owned()];
        assert_eq!(judgement.next, NextStep::Continue(both));
    }

    #[test]
    fn six_blocks_answer_where_six_are_all_there_will_be() {
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
    fn a_decided_variant_leaves_and_the_others_go_on() {
        let run = trials(10, &[("default", 1.0), ("same", 1.0), ("compact", 0.9)]);
        let narrow = Question { margin: 1e-4, ..question(&["default", "same", "compact"]) };
        let judgement = judge(&narrow, &run);
        let open = vec!["default".to_owned(), "same".to_owned()];
        assert_eq!(judgement.next, NextStep::Continue(open));
        assert_eq!(judgement.conclusions[1].verdict, Verdict::Smaller);
    }

    #[test]
    fn a_guard_keeps_its_variant_running_until_the_price_is_known() {
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
    fn no_errors_at_all_pass_the_guard_of_errors() {
        let mut run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
        for trial in &mut run {
            trial.metrics.insert("errors".to_owned(), 0.0);
        }
        let mut guarded = question(&["default", "compact"]);
        guarded.guards.push(("errors".to_owned(), 0.001));
        assert_eq!(judge(&guarded, &run).conclusions[1].guard_passed, Some(true));
    }

    #[test]
    fn a_variant_that_keeps_crashing_is_given_up() {
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
    fn a_metric_that_nobody_measures_ends_the_experiment_early() {
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

    #[test]
    fn another_baseline_needs_no_new_trials() {
        let run = trials(8, &[("default", 1.0), ("compact", 0.97)]);
        let turned = judge(&question(&["compact", "default"]), &run);
        assert_eq!(turned.conclusions[0].verdict, Verdict::Larger);
    }
}
