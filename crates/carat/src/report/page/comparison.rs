//! Several results files on one page: the same question on other days, machines or Rubies.

use crate::core::{Results, Role};
use crate::report::chart::Caption;
use crate::report::chart::forest::{ForestRow, forest, reach};
use crate::report::facts;
use crate::report::numbers;
use crate::report::page::figures::class;
use crate::report::page::frame::{PageOptions, document, footer};
use crate::report::page::gallery::Gallery;
use crate::report::page::sections::{said, tone};
use crate::report::redact::prepare;
use crate::report::text::{self, one_line, shorten};
use crate::report::wording;
use maud::{Markup, html as markup};
use std::collections::{BTreeMap, BTreeSet};

/// Files that are shown.
const FILES: usize = 40;

struct File {
    label: String,
    results: Results,
}

/// One page for several results, in the order given: one file, no request.
pub fn comparison_html(all: &[Results], options: &PageOptions) -> String {
    let files: Vec<File> = all
        .iter()
        .take(FILES)
        .enumerate()
        .map(|(at, results)| {
            let results = prepare(results, options.audience);
            File { label: label(at, &results), results }
        })
        .collect();
    let title = format!("{} experiments side by side", all.len());
    let mut gallery = Gallery::default();
    let body = markup! {
        header.top { span { "Carat comparison of " b { (all.len()) " results files" } } }
        main {
            h1 { (title) }
            @if all.len() > FILES { ul.warn { li { "Only the first " (FILES) " files are shown." } } }
            @for file in &files { (verdicts(file)) }
            (differences(&files, &mut gallery))
            (values(&files))
            (machines(&files))
        }
        (footer(options))
        (gallery.data(&[]))
    };
    document(&title, &body).into_string()
}

/// Number, name and day: what tells files apart.
fn label(at: usize, results: &Results) -> String {
    let day = results
        .trials
        .first()
        .map_or_else(|| "no trial".into(), |trial| text::day(trial.started_ms));
    format!("{} · {} · {day}", at + 1, shorten(&one_line(&results.header.name), 40))
}

fn verdicts(file: &File) -> Markup {
    markup! {
        h3 { (file.label) }
        ul.also { @for sentence in wording::sentences(&file.results) { li { (said(&sentence)) } } }
    }
}

/// Metrics that any of the files asks about: primaries and guards.
fn metrics(files: &[File]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let of = |file: &File| {
        let guards =
            file.results.conclusions.iter().filter(|c| matches!(c.role, Role::Guard { .. }));
        let guards = guards.map(|c| c.metric.clone()).collect::<BTreeSet<_>>();
        std::iter::once(file.results.header.primary.clone()).chain(guards).collect::<Vec<_>>()
    };
    for name in files.iter().flat_map(of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(8);
    names
}

fn differences(files: &[File], gallery: &mut Gallery) -> Markup {
    let panels: Vec<(String, Vec<ForestRow>)> = metrics(files)
        .into_iter()
        .map(|metric| {
            let rows = files.iter().flat_map(|file| {
                let metric = metric.clone();
                file.results.header.variants.iter().enumerate().skip(1).filter_map(
                    move |(place, variant)| {
                        let estimate =
                            facts::conclusion(&file.results, &variant.name, &metric)?.estimate?;
                        let number = file.label.split(' ').next().unwrap_or_default();
                        let label = format!("{number} · {}", one_line(&variant.name));
                        Some(ForestRow {
                            label,
                            metric: metric.clone(),
                            class: class(place),
                            estimate,
                        })
                    },
                )
            });
            (metric.clone(), rows.take(60).collect())
        })
        .collect();
    markup! {
        section {
            h2 { "Differences to each file's own baseline" }
            figure {
                figcaption { "A row is one variant of one file, by the file's number. Intervals that do not overlap ask for a reason: another machine, another Ruby, another day." }
                div.grid2 { @for (at, (metric, rows)) in panels.iter().enumerate() { (panel(at, metric, rows, gallery)) } }
            }
        }
    }
}

fn panel(at: usize, metric: &str, rows: &[ForestRow], gallery: &mut Gallery) -> Markup {
    let says: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}", row.label, numbers::estimate(metric, &row.estimate)))
        .collect();
    let (id, title) = (format!("files-{at}"), format!("{metric} in every file"));
    let picture = forest(
        rows,
        reach(rows.iter()),
        &Caption { id: &id, title: &title, says: &says.join("; ") },
    );
    markup! { @if let Some(picture) = picture { div.panel { h3 { (metric) } (gallery.show(picture)) } } }
}

fn values(files: &[File]) -> Markup {
    markup! {
        section {
            h2 { "Numbers" }
            div.scroll tabindex="0" role="region" aria-label="Numbers of every file" {
                table #files {
                    thead { tr {
                        th scope="col" { "file" } th.l scope="col" { "variant" } th.l scope="col" { "metric" } th scope="col" { "trials" }
                        th scope="col" { "median" } th scope="col" { "difference" } th.l scope="col" { "verdict" }
                    } }
                    tbody { @for file in files { @for metric in metrics(files) { (rows(file, &metric)) } } }
                }
            }
        }
    }
}

fn rows(file: &File, metric: &str) -> Markup {
    let unit = facts::unit(metric);
    markup! {
        @for variant in file.results.header.variants.iter().take(20) {
            @let found = facts::conclusion(&file.results, &variant.name, metric);
            @if let Some(spread) = facts::variant_spread(&file.results, &variant.name, metric) {
                tr {
                    th scope="row" { (file.label) } td.l { (variant.name) } td.l { code { (metric) } } td { (spread.n) }
                    td data-v=(spread.median) { (unit.show(spread.median)) }
                    @match found.and_then(|c| c.estimate) {
                        Some(e) => td data-v=(e.ratio) { (numbers::estimate(metric, &e)) },
                        None => td { "–" },
                    }
                    td.l { @if let Some(c) = found { span class=(tone(c.verdict)) { (wording::sign(c.verdict)) " " (wording::word(c.verdict)) } } }
                }
            }
        }
    }
}

/// Facts in which the files differ, and how many they share.
fn machines(files: &[File]) -> Markup {
    let mut facts: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    let keys: BTreeSet<&str> =
        files.iter().flat_map(|f| f.results.header.machine.keys().map(String::as_str)).collect();
    for key in keys {
        facts.insert(
            key,
            files.iter().map(|f| f.results.header.machine.get(key).map(String::as_str)).collect(),
        );
    }
    let differing: Vec<&str> =
        facts.iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| *key).take(60).collect();
    markup! {
        section {
            h2 { "What else differs" }
            @if differing.is_empty() { p { "Nothing that was recorded: machine and software are the same in all files." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="What else differs" {
                    table {
                        thead { tr { th scope="col" { "fact" } @for file in files { th.w scope="col" { (file.label) } } } }
                        tbody { @for key in differing { tr {
                            th scope="row" { (key) }
                            @for file in files { td.w { (file.results.header.machine.get(key).map_or("–", String::as_str)) } }
                        } } }
                    }
                }
            }
            p.soft { (facts.len() - facts.values().filter(|values| values.len() > 1).count()) " facts are the same." }
        }
    }
}
