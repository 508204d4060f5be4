//! What an experiment could detect, as text.

use crate::numbers::{self, duration};
use crate::text::written;
use carat_analysis::{Forecast, Outlook, Question};
use std::fmt::{self, Write};

/// From which block on a verdict is possible, in the dry run and in the forecast.
pub fn first_verdict_text(question: &Question) -> String {
    match question.first_verdict() {
        Some(blocks) => format!("a verdict is possible from block {blocks} on"),
        None => {
            let blocks = numbers::count(question.max_blocks, "block");
            format!("{blocks} cannot decide; {} can", question.fewest_blocks())
        }
    }
}

/// Blocks and time by detectable difference, for every metric; `question` is that of the experiment as it is planned.
pub fn forecast_text(outlook: &Outlook, question: &Question) -> String {
    written(|out| {
        write_blocks(out, outlook, question)?;
        let mut forecasts = outlook.forecasts.iter();
        forecasts.try_for_each(|forecast| write_forecast(out, forecast, outlook.block_seconds))
    })
}

fn write_blocks(out: &mut String, outlook: &Outlook, question: &Question) -> fmt::Result {
    let (blocks, most) = (numbers::count(outlook.blocks, "block"), question.max_blocks);
    let (time, first) = (duration(outlook.block_seconds), first_verdict_text(question));
    writeln!(
        out,
        "From {blocks} of {time} each. The experiment has at most {most}: {first}. The ranges hold with a chance of 80 %; a line is for an experiment begun with so many blocks."
    )
}

fn write_forecast(out: &mut String, forecast: &Forecast, block_seconds: f64) -> fmt::Result {
    let Forecast { metric, spread, spread_range: (low, high), .. } = forecast;
    let [spread, low, high] = [spread, low, high].map(|share| percent(*share));
    writeln!(out, "\n{metric}: standard deviation of a single trial {spread} ({low} to {high})")?;
    writeln!(out, "  blocks       time  detects a difference of about")?;
    for &(blocks, difference) in &forecast.detectable {
        let time = time(blocks, block_seconds);
        writeln!(out, "  {blocks:>6}  {time:>9}  {}", percent(difference))?;
    }
    let requested = percent(forecast.requested);
    match forecast.needed {
        _ if forecast.is_decided => {
            writeln!(out, "  the requested {requested} is decided already, by these blocks")
        }
        Some((fewest, most)) => {
            let [short, long] = [fewest, most].map(|blocks| time(blocks, block_seconds));
            writeln!(
                out,
                "  the requested {requested} requires {fewest} to {most} blocks, {short} to {long}"
            )
        }
        None => {
            writeln!(out, "  the requested {requested} can never be decided; set a margin above 0")
        }
    }
}

fn time(blocks: u32, block_seconds: f64) -> String {
    duration(f64::from(blocks) * block_seconds)
}

fn percent(share: f64) -> String {
    numbers::percent(share, if share < 0.001 { 3 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question::new(&["a", "b"], carat_model::metric::MEMORY_RSS_FINAL.id)
    }

    fn outlook(block_seconds: f64) -> Outlook {
        let forecast = Forecast {
            metric: carat_model::metric::MEMORY_RSS_FINAL.id.to_owned(),
            spread: 0.0041,
            spread_range: (0.003, 0.0082),
            detectable: vec![(8, 0.0088), (100, 0.0025)],
            requested: 0.0025,
            needed: Some((54, 400)),
            is_decided: false,
        };
        Outlook { blocks: 6, block_seconds, forecasts: vec![forecast] }
    }

    #[test]
    fn of_a_budget_that_cannot_decide_the_fewest_blocks_that_can_are_said() {
        let text = |max_blocks| first_verdict_text(&Question { max_blocks, ..question() });
        assert_eq!(text(3), "3 blocks cannot decide; 8 can");
        assert_eq!(text(6), "a verdict is possible from block 6 on");
    }

    #[test]
    fn the_time_of_short_blocks_is_never_zero() {
        let text = forecast_text(&outlook(0.04), &question());
        assert!(text.starts_with("From 6 blocks of 40.00 ms each."), "{text}");
        assert!(text.contains("      8  320.00 ms  0.88 %"), "{text}");
        assert!(text.ends_with("requires 54 to 400 blocks, 2.2 s to 16 s\n"), "{text}");
    }

    #[test]
    fn a_decided_guard_asks_for_no_blocks() {
        let mut outlook = outlook(30.0);
        outlook.forecasts[0].is_decided = true;
        let text = forecast_text(&outlook, &question());
        let end = "the requested 0.25 % is decided already, by these blocks\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_forecast_lists_blocks_time_and_detectable_difference() {
        assert_eq!(
            forecast_text(&outlook(30.0), &question()),
            "From 6 blocks of 30 s each. The experiment has at most 100: a verdict is possible from block 8 on. The ranges hold with a chance of 80 %; a line is for an experiment begun with so many blocks.\n\
             \nmemory.rss.final: standard deviation of a single trial 0.41 % (0.30 % to 0.82 %)\n\
             \x20 blocks       time  detects a difference of about\n\
             \x20      8    4.0 min  0.88 %\n\
             \x20    100     50 min  0.25 %\n\
             \x20 the requested 0.25 % requires 54 to 400 blocks, 27 min to 3.3 h\n"
        );
    }
}
