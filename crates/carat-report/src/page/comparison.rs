//! Several results files on one page: the same question on other days, machines or Rubies.

use crate::chart::forest::{ForestAxis, ForestRow, forest, reach};
use crate::chart::variant_class;
use crate::control_text::control_sentences;
use crate::facts;
use crate::lists::distinct;
use crate::machine::machine_facts;
use crate::numbers::or_dash;
use crate::page::{Gallery, PageOptions, page, table, verdict_sentence};
use crate::standing::in_order;
use crate::table::{Cell, FactTable};
use crate::text::{day, one_line, shorten};
use crate::wording::sentences;
use carat_model::{MachineFacts, Results, Variant};
use carat_redact::redact_results;
use maud::{Markup, html as markup};
use std::collections::BTreeSet;

/// Files shown at most.
const FILES: usize = 40;
/// Metrics shown at most.
const METRICS: usize = 8;
/// Rows of a forest plot at most.
const FOREST_ROWS: usize = 60;
/// Variants of a file in the table of numbers at most.
const VARIANTS: usize = 20;
/// Facts listed at most.
const FACTS: usize = 60;

struct ComparedFile {
    number: usize,
    label: String,
    results: Results,
    machine: MachineFacts,
}

/// One page for several results, in the order given: one file that makes no request.
pub fn comparison_html(all: &[Results], options: &PageOptions) -> String {
    // Numbered from 1: labels are what a reader refers to.
    let files: Vec<ComparedFile> = all
        .iter()
        .zip(1..=FILES)
        .map(|(results, number)| {
            ComparedFile::new(number, in_order(redact_results(results, options.audience)))
        })
        .collect();
    let title = format!("{} experiments side by side", all.len());
    let mut gallery = Gallery::default();
    let about = markup! { "Carat comparison of " b { (all.len()) " results files" } };
    let contents = markup! {
        h1 { (title) }
        @if all.len() > FILES { ul.warn { li { "Only the first " (FILES) " files are shown." } } }
        @for file in &files { (file.verdicts()) }
        (differences(&files, &mut gallery))
        (values(&files))
        (machines(&files))
    };
    page(&title, (&about, &contents), (gallery, &[]), options)
}

impl ComparedFile {
    fn new(number: usize, results: Results) -> Self {
        // The first trial dates the file; experiments can last days.
        let first = results.trials.first();
        let day = first.map_or_else(|| "no trial".into(), |trial| day(trial.started_ms));
        let name = shorten(&one_line(&results.info.name), 40);
        let (label, machine) = (format!("{number} · {name} · {day}"), machine_facts(&results));
        Self { number, label, results, machine }
    }

    fn verdicts(&self) -> Markup {
        markup! {
            h3 { (self.label) }
            ul.also {
                @for sentence in [sentences(&self.results), control_sentences(&self.results)].concat() {
                    li { (verdict_sentence(&sentence)) }
                }
            }
        }
    }

    fn forest_rows(&self, metric: &str) -> Vec<ForestRow> {
        let variants = self.results.info.variants.iter().enumerate().skip(1);
        let rows = variants.filter_map(|(place, variant)| {
            let found = facts::conclusion(&self.results, &variant.name, metric)?;
            let label = format!("{} · {}", self.number, one_line(&variant.name));
            ForestRow::new(label, variant_class(place), found)
        });
        rows.collect()
    }

    fn fact(&self, key: &str) -> Option<&str> {
        self.machine.get(key).map(String::as_str)
    }
}

/// The metrics that any of the files asks about.
fn metrics(files: &[ComparedFile]) -> Vec<&str> {
    let mut names = distinct(files.iter().flat_map(|file| facts::compared_metrics(&file.results)));
    names.truncate(METRICS);
    names
}

fn differences(files: &[ComparedFile], gallery: &mut Gallery) -> Markup {
    markup! {
        section {
            h2 { "Differences to each file's own baseline" }
            figure {
                figcaption { "A row is one variant of one file, named by the file's number. Look for the reason if intervals do not overlap: another machine, another Ruby, another day." }
                div.grid2 { @for (at, metric) in metrics(files).into_iter().enumerate() { (panel(at, metric, files, gallery)) } }
            }
        }
    }
}

fn panel(at: usize, metric: &str, files: &[ComparedFile], gallery: &mut Gallery) -> Markup {
    let rows = files.iter().flat_map(|file| file.forest_rows(metric));
    let rows: Vec<ForestRow> = rows.take(FOREST_ROWS).collect();
    let axis = ForestAxis { reach: reach(rows.iter()), reference: "baseline", margin: None };
    let title = format!("{metric} in every file");
    gallery.panel(metric, forest(&rows, axis, format!("files-{at}"), title))
}

fn values(files: &[ComparedFile]) -> Markup {
    let metrics = metrics(files);
    let rows =
        files.iter().flat_map(|file| metrics.iter().flat_map(move |metric| rows(file, metric)));
    let shown = FactTable::new("Numbers of every file")
        .id("files")
        .name("file")
        .texts(["variant", "metric"])
        .numbers(["trials", "median", "difference"])
        .texts(["verdict"])
        .rows(rows);
    markup! { section { h2 { "Numbers" } (table(&shown)) } }
}

fn rows(file: &ComparedFile, metric: &str) -> Vec<Vec<Cell>> {
    let variants = file.results.info.variants.iter().take(VARIANTS);
    let row = |variant: &Variant| {
        let summary = facts::variant_summary(&file.results, &variant.name, metric)?;
        let found = facts::conclusion(&file.results, &variant.name, metric);
        Some(vec![
            Cell::text(&file.label),
            Cell::text(&variant.name),
            Cell::code(metric),
            Cell::count(summary.n),
            Cell::amount(facts::unit(metric), summary.median),
            Cell::known_estimate(metric, found.and_then(|one| one.estimate)),
            found.map_or_else(Cell::default, |one| Cell::verdict_of(&file.results, one)),
        ])
    };
    variants.filter_map(row).collect()
}

/// The facts about the machines that differ between the files, and how many do not.
fn machines(files: &[ComparedFile]) -> Markup {
    let keys: BTreeSet<&str> =
        files.iter().flat_map(|f| f.machine.keys().map(String::as_str)).collect();
    // A fact that is missing in one file differs too.
    let (differing, same): (Vec<&str>, Vec<&str>) = keys.into_iter().partition(|key| {
        files.iter().map(|file| file.fact(key)).collect::<BTreeSet<_>>().len() > 1
    });
    let rows = differing
        .iter()
        .take(FACTS)
        .map(|key| Cell::row(*key, files.iter().map(|file| Cell::text(or_dash(file.fact(key))))));
    let shown = FactTable::new("What else differs").name("fact");
    let shown = shown.long_texts(files.iter().map(|file| &file.label)).rows(rows);
    markup! {
        section {
            h2 { "What else differs" }
            @if differing.is_empty() { p { "Nothing that was recorded: machine and software are the same in all files." } }
            @else { (table(&shown)) }
            p.soft { (same.len()) " facts are the same." }
        }
    }
}
