//! The outcome of a search for the best settings, as text for a terminal.

use crate::core::{Conclusion, Role};
use crate::report::numbers::{count, estimate, percent};
use crate::report::text::shorten;
use crate::report::wording::word;
use crate::run::tune::{Attempt, Hint, Recommendation, TriedConfiguration, TuneOutcome};
use std::fmt::{self, Write};

/// Configurations of the search that are listed.
const LISTED: usize = 12;
/// Characters of a configuration in the list.
const CONFIGURATION: usize = 60;

/// The outcome; `command` starts the server, and `metrics` are the goal and the guards.
pub(crate) fn tune_text(outcome: &TuneOutcome, command: &[String], metrics: &[String]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_outcome(&mut out, outcome, command, metrics);
    out
}

fn write_outcome(
    out: &mut String,
    outcome: &TuneOutcome,
    command: &[String],
    metrics: &[String],
) -> fmt::Result {
    for attempt in &outcome.attempts {
        write_attempt(out, attempt)?;
    }
    match &outcome.recommendation {
        Some(recommendation) => write_recommendation(out, recommendation, command)?,
        None => writeln!(out, "Nothing better than the default was confirmed.")?,
    }
    write_hints(out, &outcome.hints)?;
    write_tried(out, &outcome.tried, metrics)?;
    if !outcome.failing.is_empty() {
        writeln!(out, "\nThe server fails with: {}", outcome.failing.join(", "))?;
    }
    if !outcome.left_out.is_empty() {
        writeln!(out, "\nNot tried:")?;
        for (name, why) in &outcome.left_out {
            writeln!(out, "  {name}: {why}")?;
        }
    }
    Ok(())
}

fn write_attempt(out: &mut String, attempt: &Attempt) -> fmt::Result {
    writeln!(out, "Not recommended, because {}: {}", attempt.why, attempt.text)?;
    write_conclusions(out, &attempt.conclusions)?;
    writeln!(out)
}

fn write_recommendation(
    out: &mut String,
    recommendation: &Recommendation,
    command: &[String],
) -> fmt::Result {
    writeln!(out, "Recommended: {}", recommendation.text)?;
    write_conclusions(out, &recommendation.conclusions)?;
    let settings: Vec<String> =
        recommendation.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let env: Vec<String> =
        recommendation.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let (env, settings) = (env.concat(), settings.join(" "));
    writeln!(out, "\n  {env}carat exec {settings} -- {}", command.join(" "))
}

fn write_conclusions(out: &mut String, conclusions: &[Conclusion]) -> fmt::Result {
    for conclusion in conclusions {
        let figures = conclusion.estimate.as_ref().map_or_else(
            || "too few blocks for an interval".to_owned(),
            |found| estimate(&conclusion.metric, found),
        );
        let verdict = match (conclusion.role, conclusion.guard_passed) {
            (Role::Guard { limit }, Some(true)) => {
                format!("within the {} allowed", percent(limit, 0))
            }
            (Role::Guard { limit }, Some(false)) => {
                format!("beyond the {} allowed", percent(limit, 0))
            }
            (Role::Guard { limit }, None) => {
                format!("not shown to be within the {} allowed", percent(limit, 0))
            }
            _ => word(conclusion.verdict).to_owned(),
        };
        let (metric, blocks) = (&conclusion.metric, count(conclusion.blocks, "block"));
        writeln!(out, "  {metric:<20} {figures}, {blocks}: {verdict}")?;
    }
    Ok(())
}

fn write_hints(out: &mut String, hints: &[Hint]) -> fmt::Result {
    if hints.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nWhat each of its settings seems to be worth, read from the search that chose it (hints, not evidence):"
    )?;
    for Hint { setting, change, standard_error } in hints {
        let (change, error) = (100.0 * change, 100.0 * standard_error);
        writeln!(out, "  {setting:<40} {change:+.1} % (standard error {error:.1})")?;
    }
    Ok(())
}

/// The configurations with the least goal metric. Their figures are those of single trials.
fn write_tried(out: &mut String, tried: &[TriedConfiguration], metrics: &[String]) -> fmt::Result {
    let mut best: Vec<(f64, &TriedConfiguration)> =
        tried.iter().filter_map(|one| Some(((*one.ratios.first()?)?, one))).collect();
    if best.is_empty() {
        return Ok(());
    }
    best.sort_by(|one, other| one.0.total_cmp(&other.0));
    writeln!(
        out,
        "\nThe best of {} configurations of the search, as ratios to the default of the same block (the luckiest come first):",
        tried.len()
    )?;
    writeln!(out, "  {:>6}  {}  configuration", "trials", metrics.join("  "))?;
    for (_, one) in best.iter().take(LISTED) {
        let ratios: Vec<String> = one
            .ratios
            .iter()
            .zip(metrics)
            .map(|(ratio, metric)| {
                let text = ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.3}"));
                format!("{text:>width$}", width = metric.len())
            })
            .collect();
        let text = shorten(&one.text, CONFIGURATION);
        writeln!(out, "  {:>6}  {}  {text}", one.trials, ratios.join("  "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn outcome() -> TuneOutcome {
        TuneOutcome {
            recommendation: None,
            attempts: vec![Attempt {
                text: "trim=idle".into(),
                why: "it is not smaller by what matters".into(),
                conclusions: Vec::new(),
            }],
            hints: vec![Hint { setting: "trim=idle".into(), change: -0.021, standard_error: 0.01 }],
            left_out: BTreeMap::from([("ksm".into(), "the server forks no workers".into())]),
            failing: vec!["compact=auto".into()],
            tried: vec![TriedConfiguration {
                text: "trim=idle".into(),
                succeeded: 2,
                trials: 3,
                ratios: vec![Some(0.98), None],
            }],
            trials: 42,
        }
    }

    #[test]
    fn a_search_without_a_recommendation_says_so_and_why() {
        let metrics = ["memory.pss.late".to_owned(), "latency.p95".to_owned()];
        let text = tune_text(&outcome(), &["puma".to_owned()], &metrics);
        for part in [
            "Not recommended, because it is not smaller by what matters: trim=idle",
            "Nothing better than the default was confirmed.",
            "-2.1 % (standard error 1.0)",
            "The server fails with: compact=auto",
            "ksm: the server forks no workers",
            "0.980",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("carat exec"), "{text}");
    }

    #[test]
    fn a_recommendation_can_be_run_as_printed() {
        let recommendation = Recommendation {
            text: "arena_max=2 puma=2x6".into(),
            settings: BTreeMap::from([("arena_max".into(), "2".into())]),
            env: BTreeMap::from([("WORKERS".into(), "2".into())]),
            conclusions: Vec::new(),
        };
        let found = TuneOutcome { recommendation: Some(recommendation), ..outcome() };
        let command = ["puma".to_owned(), "-C".to_owned(), "puma.rb".to_owned()];
        let text = tune_text(&found, &command, &["memory.pss.late".to_owned()]);
        assert!(text.contains("WORKERS=2 carat exec arena_max=2 -- puma -C puma.rb"), "{text}");
    }
}
