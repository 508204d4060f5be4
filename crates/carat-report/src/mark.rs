//! The sign of a verdict, and its word.

use crate::standing::breaks_guard;
use carat_model::{Conclusion, Results, Verdict};

/// What stands in front of a variant, so that colour is not needed to tell verdicts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Less,
    More,
    Equal,
    Open,
    /// Beyond a guard, whatever it saves.
    BreaksGuard,
}

impl Mark {
    /// The mark of a variant with this verdict. One that breaks a guard has no other mark, whatever is compared.
    pub(crate) fn of(results: &Results, variant: &str, verdict: Verdict) -> Self {
        // Whatever it saves, a variant beyond a guard is not recommended.
        if breaks_guard(results, variant) { Self::BreaksGuard } else { Self::of_verdict(verdict) }
    }

    /// In the primary metric a variant that breaks a guard has that mark alone.
    pub(crate) fn of_conclusion(results: &Results, conclusion: &Conclusion) -> Self {
        match conclusion.metric == results.info.primary {
            true => Self::of(results, &conclusion.variant, conclusion.verdict),
            false => Self::of_verdict(conclusion.verdict),
        }
    }

    pub(crate) fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Smaller | Verdict::Faster => Self::Less,
            Verdict::Larger | Verdict::Slower => Self::More,
            Verdict::Equivalent => Self::Equal,
            Verdict::Undecided => Self::Open,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Less => "▼",
            Self::More => "▲",
            Self::Equal => "=",
            Self::Open => "?",
            Self::BreaksGuard => "✗",
        }
    }
}

pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Smaller => "smaller",
        Verdict::Larger => "larger",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}
