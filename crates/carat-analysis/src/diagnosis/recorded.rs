//! What a recording shows of growth, as rows of the diagnosis of its end.

use crate::diagnosis::{DiagnosisKind, DiagnosisRow, row};
use crate::growth::{
    class_in_brief, grown_class, in_brief, innermost_growth, sentence, undecided_sentence,
};
use carat_model::{Bytes, Recording, Sample, TrackedPart};

/// Whether a part, or a class, is known to grow.
pub(super) fn proves_growth(recording: &Recording) -> bool {
    innermost_growth(&recording.growth).is_some() || grown_class(recording).is_some()
}

/// What is proven of the growth, or what the memory was at two moments.
pub(super) fn growth(recording: &Recording) -> Option<DiagnosisRow> {
    let whole = recording.growth.iter().find(|one| one.part == TrackedPart::Memory);
    let two = two_moments(recording);
    let text = match (innermost_growth(&recording.growth), whole, &two) {
        (Some(grows), ..) => in_brief(grows),
        (None, Some(whole), _) if !whole.is_undecided() => sentence(whole),
        (None, Some(open), Some((_, moments))) => {
            format!("{moments}; {}", undecided_sentence(open))
        }
        (None, Some(open), None) => undecided_sentence(open),
        (None, None, Some((_, moments))) => format!("{moments}; two moments prove no leak"),
        (None, None, None) => return None,
    };
    Some(row(DiagnosisKind::Growth, two.map(|(size, _)| size), text))
}

/// The class that grows, and what keeps it.
pub(super) fn holder(recording: &Recording) -> Option<DiagnosisRow> {
    let class = grown_class(recording)?;
    Some(row(DiagnosisKind::Kept, None, class_in_brief(class)))
}

/// The difference between the first and the last complete sample, and both in words; `None` without time between them.
fn two_moments(recording: &Recording) -> Option<(Bytes, String)> {
    // A partial sample lacks a process.
    let known = |sample: &&Sample| sample.pss.is_some_and(|pss| pss.0 > 0) && !sample.partial;
    let first = recording.samples.iter().find(known)?;
    let last = recording.samples.iter().rfind(known)?;
    let seconds = last.at_ms.checked_sub(first.at_ms).filter(|ms| *ms > 0)? as f64 / 1e3;
    let (before, now) = (first.pss?, last.pss?);
    let (sign, size) = match now >= before {
        true => ("+", now.saturating_sub(before)),
        false => ("−", before.saturating_sub(now)),
    };
    let time = match seconds {
        few if few < 10.0 => format!("{few:.1} s"),
        some if some < 120.0 => format!("{some:.0} s"),
        many => format!("{:.1} min", many / 60.0),
    };
    Some((size, format!("{sign}{size} in {time}, from {before} to {now}")))
}
