//! The page of a search for the best settings: the recommendation, every configuration tried, and what settings are worth.

use crate::chart::Caption;
use crate::chart::scatter::{Scatter, ScatterDot};
use crate::figures::in_words;
use crate::mark::Mark;
use crate::numbers::{count, duration, limit};
use crate::page::{Gallery, PageOptions, page, table, verdict_sentence};
use crate::table::{Cell, FactTable};
use crate::text::{one_line, shorten};
use crate::tune_facts::{by_goal, change_text, commands, front, headline, worse};
use carat_analysis::{Hint, TuneOutcome};
use carat_model::{Conclusion, Verdict};
use carat_redact::{SearchReport, redact_search};
use maud::{Markup, html as markup};

/// Configurations in the table and in a picture at most, the best first.
const CONFIGURATIONS: usize = 200;
/// Settings in a table at most.
const SETTINGS: usize = 80;
/// Characters of a configuration, and of a failure.
const TEXT: usize = 300;

/// The page of a search: one file that makes no request.
pub fn tune_html(report: &SearchReport, options: &PageOptions) -> String {
    // First, because all that follows quotes settings, and failures of the server.
    let report = redact_search(report, options.audience);
    let outcome = &report.outcome;
    let sentence = headline(outcome);
    let mut gallery = Gallery::default();
    let about = markup! { "Carat search " b { (report.name) } };
    let contents = markup! {
        h1 { (verdict_sentence(&sentence)) }
        (attempts(outcome))
        (start(&report))
        (key_facts(&report))
        (confirmation(outcome))
        (configurations(outcome, &mut gallery))
        (ablation(outcome))
        (effects(outcome))
        (not_tried(outcome))
        (failures(outcome))
    };
    page(&sentence.whole(), (&about, &contents), (gallery, &[]), options)
}

fn attempts(outcome: &TuneOutcome) -> Markup {
    markup! {
        @if !outcome.attempts.is_empty() {
            ul.also {
                @for attempt in &outcome.attempts {
                    li { "Not recommended, because " (attempt.why) ": " strong { (attempt.text) } }
                }
            }
        }
    }
}

/// The lines that start the server with the recommended settings, and that write a configuration.
fn start(report: &SearchReport) -> Markup {
    let found = report.outcome.recommendation.as_ref();
    let lines = found.map(|found| commands(report, found));
    let noted = found.map_or(&[][..], |found| &found.notes);
    markup! {
        @if !noted.is_empty() {
            ul.also { @for note in noted { li { "In its trials: " (note) } } }
        }
        @if let Some(lines) = lines {
            pre tabindex="0" { (lines.join("\n")) }
            @if lines.len() > 1 {
                p.soft { "The second line prints the environment for another way to start: " code { "shell" } ", " code { "dockerfile" }
                    ", " code { "systemd" } ", " code { "procfile" } " or " code { "kamal" } "." }
            }
        }
    }
}

fn key_facts(report: &SearchReport) -> Markup {
    let outcome = &report.outcome;
    // The first metric is the goal, by the order of the outcome.
    let goal = outcome.metrics.first().map(|shown| shown.metric.as_str());
    markup! {
        dl.facts {
            @if let Some(goal) = goal { div { dt { "least" } dd { code { (goal) } } } }
            @for shown in &outcome.metrics {
                @if let Some(most) = shown.guard {
                    div { dt { "guard" } dd { code { (shown.metric) } " at most " (limit(most)) " worse" } }
                }
            }
            div { dt { "configurations tried" } dd { (outcome.tried.len()) } }
            div { dt { "trials" } dd { (outcome.trials) " in " (duration(outcome.seconds)) } }
            div { dt { "seed" } dd { (report.seed) } }
        }
    }
}

/// A part of the page with a table; empty without rows.
fn part(id: &str, title: &str, about: &str, shown: &FactTable) -> Markup {
    markup! {
        @if !shown.rows.is_empty() {
            section id=(id) { h2 { (title) } p.soft { (about) } (table(shown)) }
        }
    }
}

/// Difference, blocks and verdict.
fn judged(one: &Conclusion) -> [Cell; 3] {
    let difference = Cell::known_estimate(&one.metric, one.estimate);
    [difference, Cell::count(one.blocks), Cell::judged(Mark::of_verdict(one.verdict), one)]
}

/// What the confirmations showed: the only figures that are evidence.
fn confirmation(outcome: &TuneOutcome) -> Markup {
    let recommended = outcome.recommendation.iter().map(|found| (&found.text, &found.conclusions));
    // Failed confirmations too: leaving them out would show only the lucky one.
    let failed = outcome.attempts.iter().map(|attempt| (&attempt.text, &attempt.conclusions));
    let rows = recommended.chain(failed).flat_map(|(text, all)| {
        all.iter().map(|one| {
            let figures = judged(one).into_iter().chain([Cell::text(in_words(one))]);
            let cells = [Cell::code(&one.metric)].into_iter().chain(figures);
            Cell::row(shorten(text, TEXT), cells)
        })
    });
    let shown = FactTable::new("Confirmations")
        .name("configuration")
        .texts(["metric"])
        .numbers(["difference to the default", "blocks"])
        .texts(["verdict"])
        .long_texts(["in words"])
        .rows(rows);
    let about = "Fresh blocks of the default and one configuration. Only these figures are evidence; everything below is \
                 read from the search.";
    part("confirmation", "Confirmation", about, &shown)
}

/// A picture per metric beside the goal, and the table of every configuration.
fn configurations(outcome: &TuneOutcome, gallery: &mut Gallery) -> Markup {
    if outcome.tried.is_empty() {
        return markup! {};
    }
    markup! {
        section #configurations {
            h2 { "Every configuration" }
            figure {
                figcaption {
                    "A dot is a configuration of the search: its median change from the default of the same block, mostly of a single trial, so the best \
                    dots are lucky ones. The dashed line joins the configurations that no other beats in both metrics. The tick is the confirmed \
                    configuration, with the intervals of its fresh blocks."
                }
                // From the second metric on, because each picture has the goal on its other axis.
                div.grid2 { @for metric in 1..outcome.metrics.len() { (panel(outcome, metric, gallery)) } }
            }
            details open { summary { "Numbers" } (configuration_table(outcome)) }
        }
    }
}

fn panel(outcome: &TuneOutcome, metric: usize, gallery: &mut Gallery) -> Markup {
    let names = (outcome.metrics[0].metric.as_str(), outcome.metrics[metric].metric.as_str());
    let known: Vec<(usize, (f64, f64))> = by_goal(outcome)
        .into_iter()
        .filter_map(|place| {
            let changes = &outcome.tried[place].changes;
            Some((place, ((*changes.first()?)?, (*changes.get(metric)?)?)))
        })
        // After the unknown ones are left out, so that the picture has as many dots as it can.
        .take(CONFIGURATIONS)
        .collect();
    let recommended = outcome.recommendation.iter().flat_map(|found| &found.conclusions);
    let confirmed = |metric: &str| recommended.clone().find(|one| one.metric == metric)?.estimate;
    // Of these two metrics alone: in the plane that is drawn others may be beaten.
    let best = front(outcome, &[0, metric]);
    // A place in the outcome becomes one in the picture, which has fewer.
    let front = best.iter().filter_map(|place| known.iter().position(|(known, _)| known == place));
    let dot = |&(place, at)| ScatterDot { at, text: hover(outcome, place, metric) };
    let scatter = Scatter {
        metrics: names,
        front: front.collect(),
        dots: known.iter().map(dot).collect(),
        confirmed: confirmed(names.0).zip(confirmed(names.1)),
        limit: outcome.metrics[metric].guard.map(|most| worse(outcome, metric) * most),
    };
    let title = format!("{} against {}", names.0, names.1);
    // It is read aloud by screen readers, to whom a long list is no help.
    let first: Vec<String> =
        best.iter().take(8).map(|&place| hover(outcome, place, metric)).collect();
    let all = count(outcome.tried.len(), "configuration");
    let description = format!("{all}; those that no other beats in both: {}", first.join("; "));
    let caption = Caption::new(format!("front-{metric}"), &title, description);
    gallery.panel(&title, scatter.draw(caption))
}

fn hover(outcome: &TuneOutcome, place: usize, metric: usize) -> String {
    let tried = &outcome.tried[place];
    let [goal, other] =
        [0, metric].map(|metric| change_text(outcome, metric, tried.changes[metric]));
    let text = shorten(&one_line(&tried.text), TEXT);
    format!("{text}: {goal}, {other}, {}", count(tried.succeeded, "trial"))
}

fn configuration_table(outcome: &TuneOutcome) -> Markup {
    let metrics: Vec<usize> = (0..outcome.metrics.len()).collect();
    let best = front(outcome, &metrics);
    let recommended = outcome.recommendation.as_ref().map(|found| found.text.as_str());
    let rows = by_goal(outcome).into_iter().take(CONFIGURATIONS).map(|place| {
        let tried = &outcome.tried[place];
        let changes = tried.changes.iter().enumerate().map(|(metric, change)| {
            Cell::shown(*change, |change| change_text(outcome, metric, Some(change)))
        });
        let remark = match best.contains(&place) {
            // Before the front: a lucky trial of another may beat the one that was confirmed.
            _ if recommended == Some(&tried.text) => "✓ confirmed",
            true => "no other beats it",
            false => "",
        };
        let cells = [Cell::count(tried.trials)].into_iter().chain(changes);
        let cells = cells.chain([Cell::text(remark)]);
        Cell::row(shorten(&tried.text, TEXT), cells)
    });
    let shown = FactTable::new("Every configuration")
        .name("configuration")
        .numbers(["trials"])
        .numbers(outcome.metrics.iter().map(|shown| &shown.metric))
        .texts(["remark"])
        .rows(rows);
    markup! {
        (table(&shown))
        @if outcome.tried.len() > CONFIGURATIONS { p.soft { "The best " (CONFIGURATIONS) " of " (outcome.tried.len()) "." } }
    }
}

fn ablation(outcome: &TuneOutcome) -> Markup {
    let rows = outcome.ablation.iter().map(|one| {
        let [difference, blocks, verdict] = judged(&one.conclusion);
        // Undecided, which few blocks are, says nothing here.
        let is_open = one.conclusion.verdict == Verdict::Undecided;
        let verdict = if is_open { Cell::default() } else { verdict };
        Cell::row(&one.setting, [difference, blocks, verdict])
    });
    let shown = FactTable::new("The configuration without each of its settings").name("without");
    let shown = shown.numbers(["difference to the whole", "blocks"]).texts(["verdict"]).rows(rows);
    let about = "The recommended configuration against itself without each of its settings, in fresh blocks. Hints: only \
                 the whole was confirmed.";
    part("ablation", "Which setting does the work", about, &shown)
}

fn effects(outcome: &TuneOutcome) -> Markup {
    markup! {
        @if !outcome.hints.is_empty() || !outcome.effects.is_empty() {
            section #effects {
                h2 { "What settings seem to be worth" }
                p.soft { "Predictions of the model from all trials of the search, with one standard error. Hints, not evidence." }
                div.grid2 {
                    (hints("In the configuration that was chosen", &outcome.hints))
                    (hints("Alone, compared with the default", &outcome.effects))
                }
            }
        }
    }
}

fn hints(title: &str, hints: &[Hint]) -> Markup {
    let rows = hints.iter().take(SETTINGS).map(|hint| {
        let change = Cell::shown(hint.change, |change| format!("{:+.1}", 100.0 * change));
        let error = Cell::text(format!("{:.1}", 100.0 * hint.standard_error));
        Cell::row(shorten(&hint.setting, TEXT), [change, error])
    });
    let shown = FactTable::new(title).name("setting");
    let shown = shown.numbers(["change, %", "standard error"]).rows(rows);
    markup! { @if !hints.is_empty() { div.panel { h3 { (title) } (table(&shown)) } } }
}

fn not_tried(outcome: &TuneOutcome) -> Markup {
    markup! {
        @if !outcome.left_out.is_empty() {
            section #not-tried {
                h2 { "Not tried" }
                ul.also { @for (name, why) in &outcome.left_out { li { code { (name) } ": " (why) } } }
            }
        }
    }
}

fn failures(outcome: &TuneOutcome) -> Markup {
    let failed = outcome.tried.iter().filter_map(|tried| Some((tried, tried.failure.as_ref()?)));
    let rows = failed.take(CONFIGURATIONS).map(|(tried, failure)| {
        let times = format!("{} of {}", tried.trials - tried.succeeded, tried.trials);
        let cells = [Cell::text(times), Cell::text(shorten(failure, TEXT))];
        Cell::row(shorten(&tried.text, TEXT), cells)
    });
    let shown = FactTable::new("Failed trials").name("configuration").numbers(["failed"]);
    let shown = shown.long_texts(["the first time"]).rows(rows);
    markup! {
        @if !shown.rows.is_empty() {
            section #failures {
                h2 { "Failed trials" }
                @if !outcome.failing.is_empty() { p { "The server fails with " strong { (outcome.failing.join(", ")) } "." } }
                (table(&shown))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, AssertContains as _};
    use crate::tune_facts::tests::{recommended, report};

    #[test]
    fn the_page_has_the_recommendation_the_pictures_and_what_failed() {
        let page = tune_html(&report(Some(recommended())), &PageOptions::default());
        page.assert_contains([
            "uses 31 % less memory",
            "env RACK_ENV=production WORKERS=2 carat exec arena_max=2 -- puma -C puma.rb",
            "id=\"front-1\"",
            "no other beats it",
            "the server forks no workers",
            "crashed: D is on",
            "Hints, not evidence",
        ]);
    }

    #[test]
    fn a_limit_that_is_proven_to_be_kept_is_no_open_question() {
        let mut found = recommended();
        let open = (Verdict::Undecided, testing::estimate(-0.05, 0.0, 0.04));
        found.conclusions.push(testing::guard("latency.p95", 0.05, Some(true), open));
        let page = tune_html(&report(Some(found)), &PageOptions::default());
        assert!(page.contains("✓ within") && !page.contains("? undecided"), "{page}");
    }

    #[test]
    fn a_search_that_recommends_nothing_has_a_page_too() {
        let page = tune_html(&report(None), &PageOptions::default());
        assert!(page.contains("Nothing better than the default"), "{page}");
        assert!(!page.contains("carat exec"));
    }
}
