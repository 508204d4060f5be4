//! What a merge of parts found, as text.

use crate::store::{BlockAttempt, MergedParts};
use carat_report::numbers::count;
use std::path::Path;

/// The number of trials in `new`, then a line per attempt that does not count.
pub(crate) fn merge_text(merged: &MergedParts, new: &Path) -> String {
    let counted = merged.counted();
    let trials: usize = counted.values().map(|attempt| attempt.trials.len()).sum();
    let blocks = count(counted.len(), "block");
    let mut text = match merged.info().fleet {
        Some(_) => format!("{blocks} with {}, in {}\n", count(trials, "trial"), new.display()),
        None => format!("merged into {}\n", new.display()),
    };
    for line in uncounted_lines(merged) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// A line per attempt that does not count, with the one that does.
pub(crate) fn uncounted_lines(merged: &MergedParts) -> Vec<String> {
    if merged.info().fleet.is_none() {
        return Vec::new();
    }
    let counted = merged.counted();
    let uncounted = merged.uncounted().into_iter();
    let lines = uncounted.map(|attempt| {
        let name = attempt_name(attempt);
        match counted.get(&attempt.block) {
            Some(one) => format!("{name} is kept and does not count: {} does", attempt_name(one)),
            None => format!("{name} is kept and does not count: it is not complete"),
        }
    });
    lines.collect()
}

/// The name of an attempt, as its part has it: `b0007.a2.TOKEN`.
fn attempt_name(attempt: &BlockAttempt) -> String {
    let BlockAttempt { block, number, token, .. } = attempt;
    format!("b{block:04}.a{number}.{token}")
}
