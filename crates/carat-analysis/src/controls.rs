//! Which part of a variant's remedy makes its difference to the baseline: its control, or the rest.

use crate::question::Question;
use carat_model::{Conclusion, ControlComparison, PartAtWork, Role, Verdict};

/// The conclusions about controls with the names of the controls, and for primary metrics the part at work.
///
/// `against_controls` is in the order of [`Question::with_controls`], primary metrics first; `against_baseline` has the
/// controls' own differences.
pub(crate) fn control_comparisons(
    question: &Question,
    against_controls: Vec<Conclusion>,
    against_baseline: &[Conclusion],
) -> Vec<ControlComparison> {
    let guards = question.guards.len();
    let controls = |each: usize| {
        question.with_controls().flat_map(move |c| std::iter::repeat_n(c.reference, each))
    };
    controls(question.primaries().count())
        .chain(controls(guards))
        .zip(against_controls)
        .map(|(control, conclusion)| {
            let own = against_baseline.iter().find(|own| {
                // A guard has no part at work: adopting depends on the variant, not on its control.
                own.variant == control
                    && own.metric == conclusion.metric
                    && own.role == Role::Primary
            });
            let part = own.map(|own| part_at_work(own.verdict, conclusion.verdict));
            ControlComparison { control: control.to_owned(), conclusion, part }
        })
        .collect()
}

/// The part at work, from the verdict on the control against the baseline and that on the variant against the control.
fn part_at_work(control: Verdict, rest: Verdict) -> PartAtWork {
    match (control, rest) {
        // No conclusion from one difference that was found and another that was not.
        (Verdict::Undecided, _) | (_, Verdict::Undecided) => PartAtWork::Undecided,
        (Verdict::Equivalent, Verdict::Equivalent) => PartAtWork::Neither,
        (_, Verdict::Equivalent) => PartAtWork::Control,
        (Verdict::Equivalent, _) => PartAtWork::Rest,
        (control, rest) if control == rest => PartAtWork::Both,
        _ => PartAtWork::Opposed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_verdicts_name_the_part_at_work() {
        use Verdict::{Equivalent, Larger, Slower, Smaller, Undecided};
        for (control, rest, part) in [
            (Smaller, Equivalent, PartAtWork::Control),
            (Slower, Equivalent, PartAtWork::Control),
            (Equivalent, Smaller, PartAtWork::Rest),
            (Smaller, Smaller, PartAtWork::Both),
            (Larger, Smaller, PartAtWork::Opposed),
            (Equivalent, Equivalent, PartAtWork::Neither),
            (Undecided, Smaller, PartAtWork::Undecided),
            (Smaller, Undecided, PartAtWork::Undecided),
        ] {
            assert_eq!(part_at_work(control, rest), part, "{control:?}, then {rest:?}");
        }
    }
}
