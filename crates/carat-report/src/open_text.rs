//! When what is undecided will probably be decided, in words.

use crate::facts::proven;
use crate::standing::breaks_guard;
use carat_analysis::question;
use carat_model::{BlockForecast, Conclusion, Results, count};
use carat_stats::forecast::FORESEEN;

/// The fewest blocks that can decide what is open, where it has too few for any interval; `None` where it has enough. The one
/// number for terminal, page and Markdown: that of the dry run, [`Question::fewest_blocks`](carat_analysis::Question).
pub(crate) fn fewest_for(results: &Results, open: &[&Conclusion]) -> Option<u32> {
    let most = open.iter().map(|one| one.blocks).max()?;
    if open.iter().any(|one| proven(one).is_some()) {
        return None;
    }
    Some(question(&results.info).fewest_blocks()).filter(|fewest| *fewest > most)
}

/// `; probably decided after 10 to 33 blocks`, and how many are allowed where they may not suffice; empty for a variant
/// beyond a guard.
pub(crate) fn decided_after(results: &Results, conclusion: &Conclusion) -> String {
    // It is not offered, whatever else is decided of it.
    if breaks_guard(results, &conclusion.variant) {
        return String::new();
    }
    let allowed = results.info.max_blocks;
    // Within the budget its size need not be said.
    let are = if allowed == 1 { "is" } else { "are" };
    let limit = |needed: Option<u32>| match needed.is_some_and(|needed| needed <= allowed) {
        true => String::new(),
        false => format!(" ({allowed} {are} allowed)"),
    };
    match (conclusion.forecast, fewest_for(results, &[conclusion])) {
        (Some(forecast), _) => format!("; probably {}{}", decided(forecast), limit(forecast.high)),
        (None, Some(fewest)) => format!("; {fewest} blocks can decide{}", limit(Some(fewest))),
        (None, None) => "; after how many blocks it is decided is not known yet".to_owned(),
    }
}

/// `decided after 10 to 33 blocks`.
pub(crate) fn decided(forecast: BlockForecast) -> String {
    match (forecast.low, forecast.high) {
        (low, Some(high)) if low == high => {
            format!("decided after {}", count(low as usize, "block"))
        }
        (low, Some(high)) => format!("decided after {low} to {high} blocks"),
        // Even the early end is out of sight.
        (low, None) if low >= FORESEEN => format!("not decided even after {FORESEEN} blocks"),
        (low, None) => format!("decided after {low} to more than {FORESEEN} blocks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_a_range_and_says_where_it_ends_to_know() {
        for (low, high, text) in [
            (10, Some(33), "decided after 10 to 33 blocks"),
            (10, Some(10), "decided after 10 blocks"),
            (50, None, "decided after 50 to more than 400 blocks"),
            (400, None, "not decided even after 400 blocks"),
        ] {
            assert_eq!(decided(BlockForecast { low, high }), text);
        }
    }
}
