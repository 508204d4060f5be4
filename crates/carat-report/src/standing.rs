//! Which variant leads. The headline, the order of sentences, of tables and of charts follow from it.

use crate::facts;
use crate::machine_text::machines_contradict;
use carat_model::{Better, Conclusion, MomentComparison, PartAtWork, Results, Verdict, metric};
use std::collections::BTreeSet;

/// How a variant stands, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Better than the baseline, and within every guard.
    Better,
    /// Better than the baseline, and a guard is open.
    BetterAtOpenCost,
    /// Worse, equivalent, undecided, or better only by what its control does.
    Other,
    /// Beyond a guard, whatever it saves.
    BreaksGuard,
}

/// The standing of a variant that is not the baseline.
pub(crate) fn standing(results: &Results, variant: &str) -> Standing {
    if breaks_guard(results, variant) {
        return Standing::BreaksGuard;
    }
    let mut guards = facts::guards(results, variant);
    let primary = facts::conclusion(results, variant, &results.info.primary);
    let is_proven = primary.is_some_and(is_better) && !machines_contradict(results, variant);
    if !is_proven || control_does_it(results, variant) {
        return Standing::Other;
    }
    match guards.all(|guard| guard.guard_passed == Some(true)) {
        true => Standing::Better,
        false => Standing::BetterAtOpenCost,
    }
}

/// Whether a variant is proven to be beyond a guard.
pub(crate) fn breaks_guard(results: &Results, variant: &str) -> bool {
    facts::guards(results, variant).any(|guard| guard.guard_passed == Some(false))
}

/// The results with the variants that break a guard after the others. The baseline stays first, and every other place is
/// that in the file, because the order of a file has a meaning of its own.
pub(crate) fn in_order(mut results: Results) -> Results {
    // The baseline stays first, whatever its guards say.
    let compared = results.info.variants.iter().skip(1).map(|variant| variant.name.clone());
    let breaking: BTreeSet<String> = compared.filter(|name| breaks_guard(&results, name)).collect();
    // Stable: all other places are those of the file.
    results.info.variants.sort_by_key(|one| breaking.contains(&one.name));
    results.growth.sort_by_key(|one| breaking.contains(&one.variant));
    results.least.sort_by_key(|one| breaking.contains(&one.variant));
    results.machines.sort_by_key(|one| breaking.contains(&one.variant));
    results.classes.sort_by_key(|one| breaking.contains(&one.variant));
    for moment in results.moments.chunk_by_mut(is_same_moment) {
        moment.sort_by_key(|one| breaking.contains(&one.variant));
    }
    results
}

fn is_same_moment(one: &MomentComparison, next: &MomentComparison) -> bool {
    (one.moment, one.figure) == (next.moment, next.figure)
}

/// Whether a control makes all of the difference to the baseline.
pub(crate) fn control_does_it(results: &Results, variant: &str) -> bool {
    facts::against_controls(results, &results.info.primary).any(|compared| {
        compared.conclusion.variant == variant && compared.part == Some(PartAtWork::Control)
    })
}

fn is_better(conclusion: &Conclusion) -> bool {
    let lower = metric::find(&conclusion.metric).is_none_or(|known| known.better == Better::Lower);
    match conclusion.verdict {
        Verdict::Smaller => lower,
        Verdict::Larger => !lower,
        Verdict::Faster => true,
        Verdict::Slower | Verdict::Equivalent | Verdict::Undecided => false,
    }
}
