//! Judges an experiment: one conclusion per variant and metric, and whether to run another block.

use crate::controls::control_comparisons;
use crate::diagnostics::Diagnostics;
use crate::open_comparisons::OpenComparisons;
use crate::outcomes::{self, Outcomes};
use crate::pairs::{Blocks, Dropped, Pairs};
use crate::question::{Question, VariantComparison, verdict_words};
use crate::warning::Warning;
use carat_model::metric::METRICS;
use carat_model::{BlockForecast, Conclusion, ControlComparison, Estimate, Role, Trial, Verdict};
use carat_stats::family::{Claim, Decision, Design, GuardResult, Judged, guard};
use carat_stats::{Look, Walsh, blocks};
use carat_tune::{Confirmation, ConfirmationEnd};

/// A question with its tables of looks and cuts, for judging after every block.
#[derive(Debug, Clone)]
pub struct Judge {
    question: Question,
    design: Design,
    /// The rules that end the confirmation of a candidate; `None` for any other experiment.
    confirmation: Option<Confirmation>,
    open: OpenComparisons,
}

/// The conclusions from the trials so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// One per compared variant and metric: primary metrics first, then guards, then the rest.
    pub conclusions: Vec<Conclusion>,
    /// One per variant, control, and primary metric or guard: primary metrics first.
    pub controls: Vec<ControlComparison>,
    /// Whether to run another block.
    pub next: NextStep,
    /// How the confirmation of a candidate ended; `None` while it has not, and for any other experiment.
    pub confirmation: Option<ConfirmationEnd>,
    /// What weakens the conclusions.
    pub warnings: Vec<Warning>,
    /// Trials that did not count.
    pub dropped: Vec<Dropped>,
}

/// Whether to run another block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Run another block of these variants, in the order of the experiment.
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
    /// Too many blocks were dropped: the machine or the load is unsuitable.
    TooManyDropped,
    /// The remaining variants, or the baseline, fail too often to be compared.
    Failing,
    /// Trials succeed, but none has a value of a primary metric.
    Unmeasured,
}

impl Judge {
    /// Computes the tables of looks and cuts for a question.
    pub fn new(mut question: Question) -> Self {
        let confirmation =
            question.attempts.map(|attempts| Confirmation::new(attempts, question.max_blocks));
        question.alpha = question.error();
        let (claims, budget) = (question.claims(), question.max_blocks);
        let design = Design::in_rounds(question.alpha, claims, budget, question.round);
        Self { question, design, confirmation, open: OpenComparisons::default() }
    }

    /// When the interval of a variant's difference to the baseline is probably on one side of `change`, a fraction.
    pub fn blocks_to_tell(
        &self,
        trials: &[Trial],
        (variant, metric): (&str, &str),
        change: f64,
    ) -> Option<BlockForecast> {
        let reference = self.question.baseline()?;
        let pairs = Blocks::new(trials).pairs(VariantComparison { variant, reference }, metric);
        self.open.change(&self.question, &pairs, change)
    }

    /// The fewest blocks that can decide a claim, where the budget is too small to decide anything.
    ///
    /// Such an experiment cannot end with a wrong verdict, and this number does not depend on its results: continued up to
    /// it, it errs as rarely as one that was begun with it. Continued up to a number chosen after looking, it would not.
    pub fn blocks_to_add_up_to(&self) -> Option<u32> {
        // A guard is decided by the fewest blocks: it shares its error with no claim, and has twice as much.
        let sequences = [self.design.difference(1), self.design.equivalence(1)];
        let can_decide = sequences
            .iter()
            .any(|sequence| sequence.looks.iter().any(|look| sequence.meets_confidence(*look)));
        // A confirmation has rules of its own, which may end it earlier.
        (self.confirmation.is_none() && !can_decide).then(|| self.question.fewest_blocks())
    }

    /// Replays `trials` block by block: the same trials always lead to the same judgement.
    pub fn judge(&self, trials: &[Trial]) -> Judgement {
        let blocks = Blocks::new(trials);
        let (mut conclusions, mut against_controls) = self.primaries(&blocks);
        // Guards after primaries: `control_comparisons` relies on this order.
        conclusions.extend(self.guards(&blocks, self.question.with_baseline()));
        against_controls.extend(self.guards(&blocks, self.question.with_controls()));
        let controls = control_comparisons(&self.question, against_controls, &conclusions);
        let outcomes = outcomes::compare(&blocks, &self.question.variants);
        let confirmation = self.confirmation_end(&blocks);
        let open = match self.confirmation {
            // Confirmed or refused: further blocks would change nothing.
            Some(_) if confirmation.is_some() => Vec::new(),
            Some(_) => self.question.with_baseline().collect(),
            None => self.open((&conclusions, &controls)),
        };
        let next = self.next(&blocks, open, &outcomes);
        let dropped = blocks.dropped();
        let diagnostics = Diagnostics {
            question: &self.question,
            blocks: &blocks,
            outcomes: &outcomes,
            conclusions: &conclusions,
        };
        let warnings = diagnostics.warnings(&dropped);
        // After the warnings and after `open`: exploratory figures must not ask for a block.
        conclusions.extend(self.exploratory(&blocks));
        Judgement { conclusions, controls, next, confirmation, warnings, dropped }
    }

    /// How the confirmation of the first compared variant ended. Only blocks with every metric count.
    fn confirmation_end(&self, blocks: &Blocks) -> Option<ConfirmationEnd> {
        let rules = self.confirmation.as_ref()?;
        let compared = self.question.with_baseline().next()?;
        let goal = blocks.pairs(compared, &self.question.primary);
        let guards: Vec<(Pairs, f64)> = self
            .question
            .guards
            .iter()
            .map(|(metric, limit)| (blocks.pairs(compared, metric), *limit))
            .collect();
        let limits: Vec<f64> = guards.iter().map(|(pairs, limit)| pairs.limit(*limit)).collect();
        let worsenings: Vec<Vec<Option<f64>>> = std::iter::once(&goal)
            .chain(guards.iter().map(|(pairs, _)| pairs))
            .map(Pairs::worsenings)
            .collect();
        // A block counts only with every metric: all are judged on the same pairs.
        let rows: Vec<Vec<f64>> = (0..blocks.count() as usize)
            .filter_map(|block| worsenings.iter().map(|metric| metric[block]).collect())
            .collect();
        // The margin as a saving: limits are worsenings, so its sign is turned.
        let margin = -goal.limit(-self.question.margin).abs();
        rules.end(&rows, margin, &limits).map(|(end, _)| end)
    }

    fn claim(pairs: &Pairs, margin: f64) -> Claim {
        Claim { pairs: pairs.differences(), margin: pairs.margin(margin) }
    }

    /// The conclusions that share the error: those about the baseline, then those about controls.
    fn primaries(&self, blocks: &Blocks) -> (Vec<Conclusion>, Vec<Conclusion>) {
        let question = &self.question;
        let claims: Vec<(&str, &str, Pairs)> = question
            .with_baseline()
            .chain(question.with_controls())
            .flat_map(|compared| question.primaries().map(move |metric| (compared, metric)))
            .map(|(compared, metric)| (compared.variant, metric, blocks.pairs(compared, metric)))
            .collect();
        let statistics: Vec<Claim> =
            claims.iter().map(|(_, _, pairs)| Self::claim(pairs, question.margin)).collect();
        let mut conclusions: Vec<Conclusion> = claims
            .iter()
            .zip(self.design.judge(&statistics))
            .map(|(&(variant, metric, ref pairs), judged)| {
                let claim = JudgedClaim { variant, metric, role: Role::Primary, judged };
                // What is decided needs no forecast, which costs hundreds of continuations.
                let is_open = judged.decision == Decision::Undecided;
                let forecast = is_open.then(|| self.open.claim(question, pairs)).flatten();
                Conclusion { forecast, ..self.conclude(claim, pairs) }
            })
            .collect();
        // Conclusions about the baseline come first, in the order of the claims above.
        let of_baseline = question.compared().len() * question.primaries().count();
        let of_controls = conclusions.split_off(of_baseline);
        (conclusions, of_controls)
    }

    fn guards<'a>(
        &self,
        blocks: &Blocks,
        compared: impl Iterator<Item = VariantComparison<'a>>,
    ) -> Vec<Conclusion> {
        let guards = &self.question.guards;
        compared
            .flat_map(|compared| guards.iter().map(move |(name, limit)| (compared, name, *limit)))
            .map(|(compared, metric, limit)| self.guard(blocks, compared, (metric, limit)))
            .collect()
    }

    fn guard(
        &self,
        blocks: &Blocks,
        compared: VariantComparison,
        (metric, limit): (&str, f64),
    ) -> Conclusion {
        let pairs = blocks.pairs(compared, metric);
        // A guard is tested alone: adopting needs all of them, so each has its full error.
        let judged = self.design.judge(&[Self::claim(&pairs, limit)])[0];
        let one_sided = self.design.equivalence(1);
        // One side of the interval is the test, hence that of twice the error.
        let look = judged.look.and_then(|look| one_sided.look_at(look.blocks));
        let judged = Judged { look, ..judged };
        let role = Role::Guard { limit };
        let claim = JudgedClaim { variant: compared.variant, metric, role, judged };
        let guard_passed = match guard(one_sided, &pairs.known_worsenings(), pairs.limit(limit)) {
            GuardResult::Within => Some(true),
            GuardResult::Beyond => Some(false),
            GuardResult::Unknown => None,
        };
        let open = guard_passed.is_none();
        let forecast = open.then(|| self.open.guard(&self.question, &pairs, limit)).flatten();
        Conclusion { guard_passed, forecast, ..self.conclude(claim, &pairs) }
    }

    fn exploratory(&self, blocks: &Blocks) -> Vec<Conclusion> {
        let mut conclusions = Vec::new();
        for metric in METRICS.iter().map(|metric| metric.id) {
            // What the question asks for has a conclusion with its share of the error already.
            if self.question.asks_for(metric) {
                continue;
            }
            for compared in self.question.with_baseline() {
                let pairs = blocks.pairs(compared, metric);
                if pairs.known().is_empty() {
                    continue;
                }
                // As a single claim, without correction: exploratory figures share no error.
                let judged = self.design.judge(&[Self::claim(&pairs, self.question.margin)])[0];
                let (variant, role) = (compared.variant, Role::Exploratory);
                let claim = JudgedClaim { variant, metric, role, judged };
                conclusions.push(self.conclude(claim, &pairs));
            }
        }
        conclusions
    }

    /// The blocks and the interval of a difference that no verdict is about: that of a single claim.
    pub fn explore(&self, pairs: &Pairs) -> (u32, Option<Estimate>) {
        let judged = self.design.judge(&[Self::claim(pairs, self.question.margin)])[0];
        let blocks = judged.look.map_or(pairs.known().len() as u32, |look| look.blocks);
        (blocks, judged.look.and_then(|look| estimate(pairs, look)))
    }

    fn conclude(&self, claim: JudgedClaim, pairs: &Pairs) -> Conclusion {
        let known = pairs.known();
        let verdict = verdict_words(claim.metric).verdict(claim.judged.decision);
        let spread = blocks::spread(&known);
        Conclusion {
            variant: claim.variant.to_owned(),
            metric: claim.metric.to_owned(),
            role: claim.role,
            verdict,
            estimate: claim.judged.look.and_then(|look| estimate(pairs, look)),
            blocks: claim.judged.look.map_or(known.len() as u32, |look| look.blocks),
            guard_passed: None,
            // For the whole budget: what this experiment could still find.
            detectable: spread.and_then(|s| blocks::detectable(s, self.question.max_blocks)),
            forecast: None,
            required_confidence: claim.judged.look.map(|look| look.required),
        }
    }

    fn next(
        &self,
        blocks: &Blocks,
        open: Vec<VariantComparison<'_>>,
        outcomes: &[Outcomes],
    ) -> NextStep {
        match self.running(blocks, open, outcomes) {
            Ok(variants) => NextStep::Continue(variants),
            Err(reason) => NextStep::Stop(reason),
        }
    }

    /// The variants of the next block for the comparisons that are open, or why there is none.
    fn running(
        &self,
        blocks: &Blocks,
        mut open: Vec<VariantComparison<'_>>,
        outcomes: &[Outcomes],
    ) -> Result<Vec<String>, StopReason> {
        let question = &self.question;
        let baseline = question.baseline().ok_or(StopReason::Decided)?;
        // Before failures: a decided experiment is decided even if a variant fails later.
        if open.is_empty() {
            return Err(StopReason::Decided);
        }
        // A comparison with a variant that keeps failing would never get its pairs.
        open.retain(|compared| {
            [compared.variant, compared.reference]
                .iter()
                .all(|variant| !fails_too_often(outcomes, variant))
        });
        if open.is_empty() || fails_too_often(outcomes, baseline) {
            return Err(StopReason::Failing);
        }
        // Two blocks without a value: the metric does not exist on this server.
        if question.primaries().any(|metric| blocks.unmeasured(metric)) {
            return Err(StopReason::Unmeasured);
        }
        open.retain(|compared| {
            let pairs = blocks.pairs(*compared, &question.primary);
            // Only pairs count against the budget, so that a dropped block can be run again.
            (pairs.known().len() as u32) < question.max_blocks
        });
        if open.is_empty() {
            return Err(StopReason::BudgetSpent);
        }
        // One block in ten may be dropped and run again; more than that points to an unsuitable machine.
        let spare = if question.reruns { (question.max_blocks / 10).max(2) } else { 0 };
        if blocks.count() >= question.max_blocks + spare {
            return Err(StopReason::TooManyDropped);
        }
        // A decided variant is left out, unless it is the control of one that is open.
        let needed = |variant: &str| {
            open.iter().any(|compared| [compared.variant, compared.reference].contains(&variant))
        };
        // In the order of the experiment, which the draw of the block's order relies on.
        Ok(question.variants.iter().filter(|variant| needed(variant)).cloned().collect())
    }

    /// The comparisons that are not settled. Guards count only against the baseline: adopting a variant does not depend
    /// on its difference to a control.
    fn open(
        &self,
        (conclusions, controls): (&[Conclusion], &[ControlComparison]),
    ) -> Vec<VariantComparison<'_>> {
        let with_baseline = self.question.with_baseline().filter(|compared| {
            // Undecided guards keep the comparison open as well.
            conclusions.iter().any(|c| c.variant == compared.variant && !self.is_settled(c))
        });
        let with_controls = self.question.with_controls().filter(|compared| {
            controls.iter().any(|c| {
                (c.conclusion.variant.as_str(), c.control.as_str())
                    == (compared.variant, compared.reference)
                    && c.conclusion.role == Role::Primary
                    && !self.is_settled(&c.conclusion)
            })
        });
        // A variant beyond a guard is not offered, so it needs no further block, unless its figures are to be precise.
        let is_refused = |variant: &str| {
            let mut of_variant = conclusions.iter().filter(|c| c.variant == variant);
            !self.question.precise && of_variant.any(|c| c.guard_passed == Some(false))
        };
        let open = with_baseline.chain(with_controls);
        open.filter(|compared| !is_refused(compared.variant)).collect()
    }

    /// Whether a conclusion needs no further block.
    fn is_settled(&self, conclusion: &Conclusion) -> bool {
        match conclusion.role {
            Role::Primary => {
                let precise = !self.question.precise || is_precise(conclusion);
                conclusion.verdict != Verdict::Undecided && precise
            }
            Role::Guard { .. } => conclusion.guard_passed.is_some(),
            Role::Exploratory => true,
        }
    }
}

fn fails_too_often(outcomes: &[Outcomes], variant: &str) -> bool {
    outcomes.iter().any(|of| of.variant == variant && of.fails_too_often())
}

/// Whether the interval is narrower than half the difference. Equivalence needs no more than its margin.
fn is_precise(conclusion: &Conclusion) -> bool {
    conclusion.estimate.is_some_and(|estimate| {
        let half = 0.5 * (estimate.ratio_interval.1 - estimate.ratio_interval.0);
        conclusion.verdict == Verdict::Equivalent || half <= 0.25 * estimate.ratio.abs()
    })
}

/// One judged claim, before it becomes a [`Conclusion`].
struct JudgedClaim<'a> {
    variant: &'a str,
    metric: &'a str,
    role: Role,
    judged: Judged,
}

/// The estimate from the pairs at a look; `None` where the look has no interval yet, or where a difference has no size.
pub(crate) fn estimate(pairs: &Pairs, look: Look) -> Option<Estimate> {
    // No interval yet: an estimate alone would look like a result.
    let (cut, blocks) = (look.cut?, look.blocks as usize);
    // The pairs of the look, because the interval is valid for exactly those.
    let shares = Walsh::new(pairs.known().get(..blocks)?);
    let amounts = Walsh::new(pairs.plain().get(..blocks)?);
    let (difference, difference_interval) = (amounts.estimate()?, amounts.interval(cut)?);
    let in_own_unit = pairs.in_own_unit();
    let (ratio, (low, high)) = match in_own_unit {
        true => (difference, difference_interval),
        false => {
            let (low, high) = shares.interval(cut)?;
            (pairs.as_ratio(shares.estimate()?), (pairs.as_ratio(low), pairs.as_ratio(high)))
        }
    };
    // Infinite where a value is zero: then only the direction is known.
    [ratio, low, high].iter().all(|share| share.is_finite()).then_some(Estimate {
        ratio,
        ratio_interval: (low, high),
        difference,
        difference_interval,
        confidence: look.confidence,
        in_own_unit,
    })
}

#[cfg(test)]
pub(crate) mod tests;
