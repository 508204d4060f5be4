//! When what is undecided will probably be decided, in words.

use crate::standing::breaks_guard;
use carat_model::{BlockForecast, Conclusion, Results, count};
use carat_stats::forecast::FORESEEN;

/// `; probably decided after 10 to 33 blocks`, and how many are allowed where they may not suffice; empty for a variant
/// beyond a guard.
pub(crate) fn decided_after(results: &Results, conclusion: &Conclusion) -> String {
    // It is not offered, whatever else is decided of it.
    if breaks_guard(results, &conclusion.variant) {
        return String::new();
    }
    let Some(forecast) = conclusion.forecast else {
        return "; after how many blocks it is decided is not known yet".to_owned();
    };
    let allowed = results.info.max_blocks;
    // Within the budget its size need not be said.
    let suffice = forecast.high.is_some_and(|high| high <= allowed);
    let limit = if suffice { String::new() } else { format!(" ({} allowed)", are(allowed)) };
    format!("; probably {}{limit}", decided(forecast))
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

fn are(blocks: u32) -> String {
    if blocks == 1 { "1 is".to_owned() } else { format!("{blocks} are") }
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
