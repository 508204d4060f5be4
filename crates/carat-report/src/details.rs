//! The evidence below a verdict as sections of lines and tables, which terminal and Markdown lay out.

use crate::class_text;
use crate::facts;
use crate::interval_bar::interval_bar;
use crate::least_text;
use crate::moments::{self, phrase};
use crate::numbers;
use crate::part_differences::{
    LedgerLine, PartDifference, VariantParts, heading, moment_of_parts, part_differences,
};
use crate::route_figures::route_table;
use crate::step_figures::step_table;
use crate::table::{Cell, FactTable};
use crate::text::capital;
use crate::wording;
use carat_analysis::growth::{cause, found, innermost_growth, tolerances, what_decides};
use carat_model::{Conclusion, PartGrowth, Results, TrackedPart, VariantGrowth};

/// Facts that belong together.
#[derive(Debug)]
pub(crate) struct DetailSection {
    pub heading: String,
    pub lines: Vec<DetailLine>,
    pub tables: Vec<FactTable>,
}

#[derive(Debug)]
pub(crate) struct DetailLine {
    /// The variant that it is about, if it is about one.
    pub variant: Option<String>,
    /// Follows the name, with the character between.
    pub text: String,
}

impl DetailLine {
    fn of(variant: &str, text: String) -> Self {
        Self { variant: Some(variant.to_owned()), text }
    }

    fn plain(text: impl Into<String>) -> Self {
        Self { variant: None, text: text.into() }
    }
}

/// Every section that the results have something for.
pub(crate) fn sections(results: &Results) -> Vec<DetailSection> {
    // Only what decides: exploratory metrics are in the whole report.
    let compared = facts::compared_metrics(results).into_iter().map(|metric| {
        let role = if metric == results.info.primary { "" } else { ", a guard" };
        let heading = format!("{} ({metric}{role})", phrase(results, metric));
        DetailSection { heading, lines: Vec::new(), tables: vec![metric_table(results, metric)] }
    });
    let others: [fn(&Results) -> Option<DetailSection>; 7] =
        [parts, least, routes, moments, classes, steps, growth];
    compared.chain(others.iter().filter_map(|section| section(results))).collect()
}

/// The trials and the difference of every variant in one metric, then the differences to the controls.
fn metric_table(results: &Results, metric: &str) -> FactTable {
    let mut table = FactTable::new(capital(&phrase(results, metric)))
        .texts(["variant"])
        .numbers(["n", "median"])
        .wide_number("middle half", 0)
        .numbers(["difference"])
        .wide_picture(1)
        .texts([""]);
    let scale = scale(results, metric);
    let unit = facts::unit(metric);
    for variant in &results.info.variants {
        let summary = facts::variant_summary(results, &variant.name, metric);
        // Up to three trials the quartiles are the values themselves.
        let middle_half = summary.filter(|found| found.n > 3).map_or("–".to_owned(), |found| {
            format!("{} – {}", unit.show(found.lower), unit.show(found.upper))
        });
        let first = [
            Cell::text(&variant.name),
            Cell::count(summary.map_or(0, |found| found.n)),
            Cell::amount(unit, summary.map(|found| found.median)),
            Cell::text(middle_half),
        ];
        let judged = facts::conclusion(results, &variant.name, metric)
            .map_or_else(Default::default, |found| judged_cells(results, found, scale));
        table.rows.push(first.into_iter().chain(judged).collect());
    }
    for compared in facts::against_controls(results, metric) {
        let conclusion = &compared.conclusion;
        let name = format!("{} against {}", conclusion.variant, compared.control);
        let first = [Cell::text(name), Cell::count(conclusion.blocks)];
        let judged = judged_cells(results, conclusion, scale);
        let between = [Cell::default(), Cell::default()];
        table.rows.push(first.into_iter().chain(between).chain(judged).collect());
    }
    table
}

/// Difference, interval bar and verdict.
fn judged_cells(results: &Results, conclusion: &Conclusion, scale: f64) -> [Cell; 3] {
    let estimate = conclusion.estimate.as_ref();
    let bar = estimate.map_or_else(String::new, |found| interval_bar(found, scale));
    [
        Cell::estimate(&conclusion.metric, estimate),
        Cell::text(bar),
        Cell::verdict_of(results, conclusion),
    ]
}

/// The largest end of any interval of a metric: half the width of every bar.
fn scale(results: &Results, metric: &str) -> f64 {
    // One scale per metric, so that the bars of its rows can be compared.
    let with_controls = results.controls.iter().map(|compared| &compared.conclusion);
    let of_metric = results.conclusions.iter().chain(with_controls).filter(|c| c.metric == metric);
    of_metric
        .filter_map(|c| c.estimate)
        .flat_map(|e| [e.ratio_interval.0.abs(), e.ratio_interval.1.abs()])
        .fold(0.0, f64::max)
}

/// Which parts make every variant's difference in memory.
fn parts(results: &Results) -> Option<DetailSection> {
    let all = part_differences(results);
    if all.is_empty() {
        return None;
    }
    let mut table = FactTable::new(heading(results, &all))
        .texts(["variant", "part"])
        .numbers(["baseline → variant", "difference"]);
    all.iter().for_each(|one| push_parts(&mut table, one));
    let lines = all.iter().map(|one| DetailLine::of(&one.variant, format!(": {}", one.sentence())));
    let heading = format!("{}: {}", heading(results, &all), moment_of_parts(results));
    Some(DetailSection { heading, lines: lines.collect(), tables: vec![table] })
}

/// The parts that are large enough to matter, the sum of the others, and all memory.
fn push_parts(table: &mut FactTable, one: &VariantParts) {
    let largest = one.largest_difference();
    // Parts below three percent of the largest are noise beside it.
    let (shown, others) = one.differing_by(0.03 * largest);
    let others = (shown.len() < one.lines.len()).then(|| ("the others", String::new(), others));
    let row = |line: &PartDifference| {
        let change = match line.line {
            LedgerLine::OfMedians => String::new(),
            _ => numbers::bytes_change(line.baseline, line.variant),
        };
        (line.line.label(), change, line.difference())
    };
    let rows = shown.into_iter().map(row).chain(others).chain([row(&one.all)]);
    table.rows.extend(rows.map(|(part, change, difference)| {
        let bytes = numbers::signed_bytes(difference, largest);
        Vec::from([&one.variant, part, &change, &bytes].map(Cell::text))
    }));
}

/// Memory as a multiple of the least that the application could have; `None` where no server forked.
fn least(results: &Results) -> Option<DetailSection> {
    let heading = least_text::line(results)?;
    Some(DetailSection { heading, lines: Vec::new(), tables: Vec::new() })
}

/// Percentiles of each route or step of an HTTP load; `None` if it has only one.
fn routes(results: &Results) -> Option<DetailSection> {
    let table = route_table(results)?;
    let heading = "every route or step, medians over the trials".to_owned();
    Some(DetailSection { heading, lines: Vec::new(), tables: vec![table] })
}

/// The memory at each moment; `None` unless the experiment asks for moments.
fn moments(results: &Results) -> Option<DetailSection> {
    let shown = moments::of_figure(results, moments::figure(results));
    let heading = format!("memory at each moment ({})", moments::EXPLORATORY);
    let table = moments::table(results, &shown, "Memory at each moment");
    (!shown.is_empty()).then(|| DetailSection { heading, lines: Vec::new(), tables: vec![table] })
}

/// The objects by class; `None` without a census.
fn classes(results: &Results) -> Option<DetailSection> {
    let first = results.classes.first()?;
    let heading = format!("objects by class at the end ({})", class_text::EXPLORATORY);
    let tables = results.classes.iter().map(|compared| {
        let rows = class_text::ROWS;
        class_text::table(compared, class_text::heading(results, compared), rows)
    });
    // A single table has no title of its own.
    let single = (results.classes.len() == 1).then(|| class_text::heading(results, first));
    let lines = single.into_iter().chain([class_text::bytes_of(first).to_owned()]);
    let lines = lines.map(DetailLine::plain).collect();
    Some(DetailSection { heading, lines, tables: tables.collect() })
}

/// Round trips and memory over the steps of the load; `None` for a load without steps.
fn steps(results: &Results) -> Option<DetailSection> {
    let lines = results
        .curves
        .iter()
        .map(|curve| DetailLine::of(&curve.variant, format!(": {}", wording::curve(curve))));
    let heading =
        "time until every connection has a broadcast, by number of connections".to_owned();
    Some(DetailSection { heading, lines: lines.collect(), tables: vec![step_table(results)?] })
}

/// The growth of every variant over its load; `None` if no run was decided.
fn growth(results: &Results) -> Option<DetailSection> {
    let (decided, open): (Vec<&VariantGrowth>, Vec<&VariantGrowth>) =
        results.growth.iter().partition(|growth| is_decided(growth));
    // The tolerance is the same for all, so the first that is decided has it.
    let tolerances = tolerances(&decided.first()?.parts);
    let mut heading = "growth over the load, all trials of a variant together".to_owned();
    if !tolerances.is_empty() {
        heading = format!("{heading}; {tolerances}");
    }
    let decided = decided.into_iter().map(|growth| {
        let memory = memory(growth).map_or_else(String::new, found);
        let cause = cause(&growth.parts).map(|cause| format!("; {cause}")).unwrap_or_default();
        DetailLine::of(&growth.variant, format!(" {memory}{cause}"))
    });
    let lines = decided.chain(undecided(&open).map(DetailLine::plain)).collect();
    Some(DetailSection { heading, lines, tables: Vec::new() })
}

fn memory(growth: &VariantGrowth) -> Option<&PartGrowth> {
    growth.parts.iter().find(|part| part.part == TrackedPart::Memory)
}

fn is_decided(growth: &VariantGrowth) -> bool {
    memory(growth).is_some_and(|part| !part.is_undecided())
        || innermost_growth(&growth.parts).is_some()
}

/// The variants whose growth is undecided, all in one line.
fn undecided(open: &[&VariantGrowth]) -> Option<String> {
    let names: Vec<&str> = open.iter().map(|growth| growth.variant.as_str()).collect();
    let parts: Vec<&PartGrowth> = open.iter().filter_map(|growth| memory(growth)).collect();
    let what = what_decides(&parts).map(|what| format!("; {what}")).unwrap_or_default();
    (!open.is_empty()).then(|| format!("undecided: {}{what}", names.join(", ")))
}
