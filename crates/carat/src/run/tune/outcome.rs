//! What a confirmation leads to.

use crate::config::TunedVariant;
use carat_analysis::Recommendation;
use carat_model::Conclusion;
use carat_tune::ConfirmationEnd;
use std::collections::BTreeSet;

/// Why a confirmation does not recommend its configuration; `None` if it does. `guards` has the words for each limit.
pub(super) fn refusal(
    end: Option<ConfirmationEnd>,
    conclusions: &[Conclusion],
    guards: &[String],
) -> Option<String> {
    match end {
        Some(ConfirmationEnd::Confirmed) => None,
        Some(ConfirmationEnd::NotSmaller) => Some("it is not smaller by what matters".into()),
        Some(ConfirmationEnd::LimitBroken(index)) => {
            let words = guards.get(index).map_or("limit", String::as_str);
            // The goal is the first conclusion.
            let broken = conclusions.get(index + 1).and_then(|guard| guard.guard_passed);
            Some(match broken {
                Some(false) => format!("its {words} is broken"),
                // A confirmation can also end because a guard will hardly be shown to hold.
                _ => format!("its {words} is probably broken"),
            })
        }
        Some(ConfirmationEnd::Undecided) => {
            let open = conclusions.iter().skip(1).zip(guards);
            let open = open.filter(|(guard, _)| guard.guard_passed != Some(true));
            let words: Vec<&str> = open.map(|(_, words)| words.as_str()).collect();
            Some(format!("its {} was not shown to hold", words.join(" and its ")))
        }
        None => Some("too many of its trials failed or lack a metric".into()),
    }
}

/// The variables and settings of a variant, for the outcome.
pub(super) fn recommendation(
    text: String,
    variant: TunedVariant,
    conclusions: Vec<Conclusion>,
    notes: BTreeSet<String>,
) -> Recommendation {
    let (settings, env, notes) = (variant.settings, variant.env, notes.into_iter().collect());
    Recommendation { text, settings, env, conclusions, notes }
}
