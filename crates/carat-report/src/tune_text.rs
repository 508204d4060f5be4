//! The outcome of a search for the best settings, as text for a terminal.

use crate::figures::in_words;
use crate::numbers::{count, duration, estimate};
use crate::text::{shorten, written};
use crate::tune_facts::{change_text, commands, front, headline, limits_first};
use carat_analysis::{AblatedSetting, Attempt, Hint, TuneOutcome};
use carat_model::Conclusion;
use carat_redact::{Audience, SearchReport, redact_search};
use std::fmt::{self, Write};

/// Configurations of the front that are listed.
const LISTED: usize = 12;
/// Settings whose effect alone is listed.
const EFFECTS: usize = 12;
/// Failures that are listed without details.
const FAILURES: usize = 3;
/// Characters of a configuration in the list, and of a failure.
const CONFIGURATION: usize = 60;
const FAILURE: usize = 120;

/// The outcome of a search: the answer, with every table if `details` are wanted, and last the command to use.
pub fn tune_text(report: &SearchReport, details: bool) -> String {
    let report = &redact_search(report, Audience::Own);
    let outcome = &report.outcome;
    written(|out| {
        // In the order of time: the answer comes after what failed before it.
        outcome.attempts.iter().try_for_each(|attempt| write_attempt(out, attempt))?;
        writeln!(out, "{}", headline(outcome).whole())?;
        if let Some(found) = &outcome.recommendation {
            write_conclusions(out, &found.conclusions)?;
            found.notes.iter().try_for_each(|note| writeln!(out, "! {note}"))?;
        }
        write_failures(out, outcome, if details { LISTED } else { FAILURES })?;
        if details {
            write_details(out, outcome)?;
        }
        writeln!(out, "\n{}, {}", count(outcome.trials, "trial"), duration(outcome.seconds))?;
        let lines = outcome.recommendation.iter().flat_map(|found| commands(report, found));
        // Last, where it is still to be seen when a long text has scrolled away.
        let mut labelled = lines.zip(["Use it", "Or"]);
        labelled.try_for_each(|(line, label)| writeln!(out, "{label:<11}{line}"))
    })
}

fn write_details(out: &mut String, outcome: &TuneOutcome) -> fmt::Result {
    write_ablation(out, &outcome.ablation)?;
    let of_winner =
        "What each of its settings seems to be worth, read from the search that chose it";
    write_hints(out, of_winner, &outcome.hints)?;
    let alone = "What settings seem to be worth alone, the largest saving first";
    write_hints(out, alone, &outcome.effects[..outcome.effects.len().min(EFFECTS)])?;
    write_front(out, outcome)?;
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

fn write_conclusions(out: &mut String, conclusions: &[Conclusion]) -> fmt::Result {
    for conclusion in conclusions {
        let blocks = count(conclusion.blocks as usize, "block");
        writeln!(out, "  {:<20} {} ({blocks})", conclusion.metric, in_words(conclusion))?;
    }
    Ok(())
}

fn write_ablation(out: &mut String, ablation: &[AblatedSetting]) -> fmt::Result {
    if ablation.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nThe recommended configuration without each of its settings (hints: only the whole was confirmed):"
    )?;
    for AblatedSetting { setting, conclusion } in ablation {
        let (metric, blocks) = (&conclusion.metric, count(conclusion.blocks, "block"));
        let figures = match &conclusion.estimate {
            Some(found) => estimate(metric, found),
            None => "too few blocks for an interval".to_owned(),
        };
        writeln!(out, "  without {setting:<32} {metric} {figures}, {blocks}")?;
    }
    Ok(())
}

fn write_hints(out: &mut String, title: &str, hints: &[Hint]) -> fmt::Result {
    if hints.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title} (hints, not evidence):")?;
    for Hint { setting, change, standard_error } in hints {
        let (change, error) = (100.0 * change, 100.0 * standard_error);
        writeln!(out, "  {setting:<40} {change:+.1} % (standard error {error:.1})")?;
    }
    Ok(())
}

/// The configurations that no other beats in every metric, and the confirmed one. Their figures are those of single trials.
fn write_front(out: &mut String, outcome: &TuneOutcome) -> fmt::Result {
    let metrics: Vec<usize> = (0..outcome.metrics.len()).collect();
    let front = front(outcome, &metrics);
    let confirmed = outcome.recommendation.as_ref().map(|found| found.text.as_str());
    let confirmed = outcome.tried.iter().position(|tried| confirmed == Some(&tried.text));
    let mut listed = front.clone();
    // Before it is cut: those beyond a limit are the ones to be left out.
    limits_first(outcome, &mut listed);
    listed.truncate(LISTED);
    // The confirmed one is listed even if a lucky trial of another beats it.
    listed.extend(confirmed.filter(|place| !listed.contains(place)));
    if listed.is_empty() {
        return Ok(());
    }
    let all = outcome.tried.len();
    writeln!(
        out,
        "\nOf {} the {} that no other beats in every metric (changes from the default of the same block, single trials: \
         the luckiest come first, those beyond a limit last; ✓ is confirmed, and listed even where another beats it):",
        count(all, "configuration"),
        front.len()
    )?;
    let names: Vec<&str> = outcome.metrics.iter().map(|shown| shown.metric.as_str()).collect();
    writeln!(out, "    {:>6}  {}  configuration", "trials", names.join("  "))?;
    for place in listed {
        let tried = &outcome.tried[place];
        let changes = (0..names.len()).map(|metric| {
            let text = change_text(outcome, metric, tried.changes[metric]);
            format!("{text:>width$}", width = names[metric].len())
        });
        let changes: Vec<String> = changes.collect();
        let tick = if confirmed == Some(place) { "✓" } else { " " };
        let text = shorten(&tried.text, CONFIGURATION);
        writeln!(out, "  {tick} {:>6}  {}  {text}", tried.trials, changes.join("  "))?;
    }
    Ok(())
}

/// What the server fails with, and how the first failure of each configuration read.
fn write_failures(out: &mut String, outcome: &TuneOutcome, most: usize) -> fmt::Result {
    if !outcome.failing.is_empty() {
        writeln!(out, "\nThe server fails with: {}", outcome.failing.join(", "))?;
    }
    let tried = outcome.tried.iter();
    let failed = tried.filter_map(|one| Some((one.text.as_str(), one.failure.as_deref()?)));
    let some = failed.clone().count();
    if some == 0 {
        return Ok(());
    }
    let all = count(outcome.tried.len(), "configuration");
    writeln!(out, "\nTrials failed under {some} of {all}:")?;
    for (text, failure) in failed.take(most) {
        // The first line has the error; behind it Ruby prints the backtrace.
        let failure = shorten(failure.lines().next().unwrap_or_default(), FAILURE);
        writeln!(out, "  {}: {failure}", shorten(text, CONFIGURATION))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use crate::tune_facts::tests::{recommended, report};
    use carat_analysis::Recommendation;

    #[test]
    fn a_search_without_a_recommendation_says_so_and_why() {
        let text = tune_text(&report(None), true);
        text.assert_contains([
            "Not recommended, because it is not smaller by what matters: trim=idle",
            "Nothing better than the default was confirmed (42 trials).",
            "-2.1 % (standard error 1.0)",
            "The server fails with: compact=auto",
            "compact=auto: crashed: D is on",
            "ksm: the server forks no workers",
            "Of 5 configurations the 2 that no other beats",
            "42 trials, 2.0 min",
        ]);
        assert!(!text.contains("carat exec"), "{text}");
    }

    #[test]
    fn a_configuration_beyond_a_limit_is_listed_last_however_much_it_saves() {
        let text = tune_text(&report(None), true);
        let rows = ["  trim=idle", "  arena_max=1"];
        let places = rows.map(|row| text.lines().position(|line| line.ends_with(row)).unwrap());
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn a_recommendation_comes_with_its_figures_and_how_to_run_it() {
        let text = tune_text(&report(Some(recommended())), false);
        text.assert_contains([
            "arena_max=2 puma=2x6 uses 31 % less memory",
            "smaller, −31 % (−33 to −29 %) (12 blocks)",
            "  env RACK_ENV=production WORKERS=2 carat exec arena_max=2 -- puma -C puma.rb\n",
        ]);
        assert!(text.lines().last().unwrap().starts_with("Or   "), "{text}");
        assert!(!text.contains("no other beats") && text.lines().count() < 20, "{text}");
        // What its own trials did not have in effect saves nothing.
        let notes = vec!["compact=boot NOT APPLIED: why".to_owned()];
        let text = tune_text(&report(Some(Recommendation { notes, ..recommended() })), false);
        text.assert_contains(["\n! compact=boot NOT APPLIED: why\n"]);
    }

    #[test]
    fn the_confirmed_configuration_is_listed_with_its_tick_also_where_another_beats_it() {
        for confirmed in ["trim=idle", "beaten"] {
            let found = Recommendation { text: confirmed.into(), ..recommended() };
            let text = tune_text(&report(Some(found)), true);
            let ticked = text.lines().filter(|line| line.starts_with("  ✓"));
            let ticked: Vec<&str> = ticked.collect();
            assert!(matches!(ticked[..], [row] if row.ends_with(confirmed)), "{text}");
            assert!(text.contains("the 2 that no other beats"), "{text}");
        }
        assert!(!tune_text(&report(None), true).contains("\n  ✓"));
    }
}
