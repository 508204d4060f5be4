//! Results in detail as text for a terminal: verdict sentences, a table per metric with interval bars, and warnings.

use crate::chart::reduce::band;
use crate::class_text;
use crate::control_text::control_sentences;
use crate::facts;
use crate::least_text;
use crate::machine_text::machines_sentence;
use crate::memory_series::{is_resident, memory, memory_series};
use crate::moments::{self, phrase};
use crate::numbers;
use crate::part_differences::{heading, moment_of_parts, part_differences};
use crate::redact::{Audience, prepare};
use crate::standing::in_order;
use crate::text::{capital, columns, one_line, shorten};
use crate::variant_growth_text::growth_lines;
use crate::verdict::{Mark, warnings};
use crate::wording;
use carat_model::{Conclusion, Estimate, Results, Unit, Variant};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Columns at least; a narrower terminal wraps.
pub(crate) const MIN_WIDTH: usize = 60;
/// Columns of a name beside its figures; a longer one is above them.
pub(crate) const NAME: usize = 28;
/// Characters shown of a name: a limit for hostile files, which no real name reaches.
const LONGEST_NAME: usize = 300;
/// Columns of the name of a class.
const CLASS: usize = 36;
/// Columns of a sparkline.
const SPARKS: usize = 40;

/// Properties of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to write escape sequences for colours.
    pub colour: bool,
    /// Columns; fewer than 60 are taken as 60.
    pub width: usize,
    /// For whom the text is.
    pub audience: Audience,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100, audience: Audience::Own }
    }
}

/// The results as text for a terminal, ending with a line feed.
pub fn terminal(results: &Results, style: Style) -> String {
    let results = &in_order(prepare(results, style.audience));
    let style = Style { width: style.width.max(MIN_WIDTH), ..style };
    let mut out = String::new();
    if let Some(cause) = facts::cause_of_no_result(results) {
        push_wrapped(&mut out, "! ", &cause, style.width);
    }
    for sentence in wording::sentences(results).into_iter().chain(control_sentences(results)) {
        let sign = style.paint(sentence.mark, sentence.mark.sign());
        push_wrapped(&mut out, &format!("{sign} "), &one_line(&sentence.whole()), style.width);
    }
    if results.info.variants.len() < 2 {
        out.push_str("One variant only: nothing to compare it with.\n");
    }
    for metric in facts::metrics(results) {
        if facts::is_compared(results, &metric) {
            push_metric(&mut out, results, &metric, style);
        }
    }
    push_parts(&mut out, results, style.width);
    push_least(&mut out, results, style.width);
    push_memory(&mut out, results);
    push_moments(&mut out, results, style.width);
    push_classes(&mut out, results, style.width);
    push_steps(&mut out, results, style.width);
    push_growth(&mut out, results, style.width);
    push_context(&mut out, results, style.width);
    for warning in warnings(results) {
        push_wrapped(&mut out, "! ", &one_line(&warning), style.width);
    }
    out
}

pub(crate) fn name(variant: &str) -> String {
    shorten(&one_line(variant), LONGEST_NAME)
}

/// The name beside its figures, or above them if it is long: the line above, and what is beside.
fn above_and_beside(name: String) -> (Option<String>, String) {
    if columns(&name) > NAME { (Some(name), String::new()) } else { (None, name) }
}

/// The columns of a metric's table.
const COLUMNS: usize = 7;
/// Columns that are aligned to the right.
const NUMBERS: std::ops::RangeInclusive<usize> = 1..=4;
const MIDDLE_HALF: usize = 3;
const DIFFERENCE: usize = 4;
const BAR: usize = 5;
const VERDICT: usize = 6;

struct TableRow {
    cells: [String; COLUMNS],
    /// Colours the last cell.
    mark: Option<Mark>,
}

impl TableRow {
    /// Whether only the first cell has text, which may then be wider than its column.
    fn is_heading(&self) -> bool {
        self.cells[1..].iter().all(String::is_empty)
    }
}

/// The table of a metric, with a row per variant.
fn push_metric(out: &mut String, results: &Results, metric: &str, style: Style) {
    let role = if metric == results.info.primary { "" } else { ", a guard" };
    let _ = writeln!(out, "\n{} ({metric}{role})", capital(&phrase(results, metric)));
    let titles = ["variant", "n", "median", "middle half", "difference", "", ""];
    let mut rows = vec![TableRow { cells: titles.map(String::from), mark: None }];
    let scale = bar_scale(results, metric);
    for variant in &results.info.variants {
        rows.extend(with_name(&variant.name, "", metric_row(results, metric, variant, scale)));
    }
    rows.extend(control_rows(results, metric, scale));
    push_table(out, &rows, style);
}

/// A heading, then for each variant with controls a row with its name and one per control.
fn control_rows(results: &Results, metric: &str, scale: f64) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let mut last = "";
    for compared in facts::against_controls(results, metric) {
        let conclusion = &compared.conclusion;
        if rows.is_empty() {
            rows.push(text_row("against its control".to_owned()));
        }
        if conclusion.variant != last {
            rows.push(text_row(format!("{} against", name(&conclusion.variant))));
            last = &conclusion.variant;
        }
        let mut row = text_row(String::new());
        row.cells[1] = conclusion.blocks.to_string();
        let mark = Mark::of_conclusion(results, conclusion);
        let [difference, bar, verdict] = judged_cells(conclusion, mark, scale);
        (row.cells[DIFFERENCE], row.cells[BAR], row.cells[VERDICT]) = (difference, bar, verdict);
        row.mark = Some(mark);
        rows.extend(with_name(&compared.control, "  ", row));
    }
    rows
}

/// The row with its name in the first cell, or with a row above it that has the name.
fn with_name(variant: &str, indent: &str, mut row: TableRow) -> Vec<TableRow> {
    let (above, beside) = above_and_beside(name(variant));
    row.cells[0] = format!("{indent}{beside}");
    let above = above.map(|name| text_row(format!("{indent}{name}")));
    above.into_iter().chain([row]).collect()
}

fn text_row(text: String) -> TableRow {
    let mut cells = [const { String::new() }; COLUMNS];
    cells[0] = text;
    TableRow { cells, mark: None }
}

/// Difference, interval bar and verdict.
fn judged_cells(conclusion: &Conclusion, mark: Mark, scale: f64) -> [String; 3] {
    let metric = conclusion.metric.as_str();
    let estimate = conclusion.estimate.as_ref();
    [
        estimate.map_or_else(String::new, |found| numbers::estimate(metric, found)),
        estimate.map_or_else(String::new, |found| bar(found, scale)),
        format!("{} {}", mark.sign(), wording::word(conclusion.verdict)),
    ]
}

fn metric_row(results: &Results, metric: &str, variant: &Variant, scale: f64) -> TableRow {
    let unit = facts::unit(metric);
    let summary = facts::variant_summary(results, &variant.name, metric);
    let conclusion = facts::conclusion(results, &variant.name, metric);
    let judged = conclusion.map(|found| (found, Mark::of_conclusion(results, found)));
    let [difference, bar, verdict] =
        judged.map_or_else(Default::default, |(found, mark)| judged_cells(found, mark, scale));
    let cells = [
        String::new(),
        summary.map_or(0, |s| s.n).to_string(),
        summary.map_or_else(|| "–".into(), |s| unit.show(s.median)),
        match &summary {
            Some(s) if s.n > 3 => format!("{} – {}", unit.show(s.lower), unit.show(s.upper)),
            _ => "–".into(),
        },
        difference,
        bar,
        verdict,
    ];
    TableRow { cells, mark: judged.map(|(_, mark)| mark) }
}

/// Columns as wide as their widest cell. If they do not fit, the middle half is left out, then the interval bar.
fn push_table(out: &mut String, rows: &[TableRow], style: Style) {
    let mut widths = [0; COLUMNS];
    for row in rows.iter().filter(|row| !row.is_heading()) {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = columns(cell).max(*width);
        }
    }
    let all = 2 + widths.iter().sum::<usize>();
    let skipped: &[usize] = if all + 2 * (COLUMNS - 1) <= style.width {
        &[]
    } else if all - widths[MIDDLE_HALF] + 2 * (COLUMNS - 2) <= style.width {
        &[MIDDLE_HALF]
    } else {
        &[MIDDLE_HALF, BAR]
    };
    for row in rows {
        let mut line = String::from(" ");
        for (column, cell) in row.cells.iter().enumerate() {
            if skipped.contains(&column) {
                continue;
            }
            let gap = " ".repeat(widths[column].saturating_sub(columns(cell)));
            let painted = match row.mark.filter(|_| column == VERDICT) {
                Some(mark) => style.paint(mark, cell),
                None => cell.clone(),
            };
            let _ = match NUMBERS.contains(&column) {
                true => write!(line, " {gap}{painted} "),
                false => write!(line, " {painted}{gap} "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// The largest end of any interval of a metric: half the width of every bar.
fn bar_scale(results: &Results, metric: &str) -> f64 {
    let with_controls = results.controls.iter().map(|compared| &compared.conclusion);
    results
        .conclusions
        .iter()
        .chain(with_controls)
        .filter(|c| c.metric == metric)
        .filter_map(|c| c.estimate)
        .flat_map(|e| [e.ratio_interval.0.abs(), e.ratio_interval.1.abs()])
        .fold(0.0, f64::max)
}

/// Half the columns of an interval bar.
const HALF: f64 = 10.0;

/// An interval around zero in 21 columns: `   ├─●─┤  │          `.
fn bar(estimate: &Estimate, scale: f64) -> String {
    let (low, high) = estimate.ratio_interval;
    let [low, high, middle] = [low, high, estimate.ratio].map(|ratio| bar_column(ratio, scale));
    (0..=2 * HALF as usize)
        .map(|column| match column {
            at if at == middle => '●',
            at if at == low => '├',
            at if at == high => '┤',
            at if at > low && at < high => '─',
            10 => '│',
            _ => ' ',
        })
        .collect()
}

fn bar_column(ratio: f64, scale: f64) -> usize {
    let share = if scale > 0.0 { (ratio / scale).clamp(-1.0, 1.0) } else { 0.0 };
    (HALF + share * HALF).round() as usize
}

/// The median memory over time as a sparkline per variant, all on one scale from zero.
fn push_memory(out: &mut String, results: &Results) {
    let figure = memory(is_resident(results));
    let variants = results.info.variants.iter();
    let medians: Vec<(String, Vec<f64>)> = variants
        .map(|variant| {
            let points = band(&memory_series(results, &variant.name, figure), SPARKS);
            (name(&variant.name), points.iter().map(|point| point.median).collect())
        })
        .collect();
    let highest = medians.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        return;
    }
    let short = medians.iter().map(|(name, _)| columns(name)).filter(|columns| *columns <= NAME);
    let widest = short.max().unwrap_or(0);
    let _ = writeln!(out, "\nmemory over time, from 0 to {}", Unit::Bytes.show(highest));
    for (name, values) in medians {
        let (above, beside) = above_and_beside(name);
        if let Some(name) = above {
            let _ = writeln!(out, "  {name}");
        }
        let gap = " ".repeat(widest.saturating_sub(columns(&beside)));
        let _ = writeln!(out, "  {beside}{gap}  {}", sparkline(&values, highest));
    }
}

/// Which parts make every variant's difference in memory, two lines each.
fn push_parts(out: &mut String, results: &Results, width: usize) {
    let all = part_differences(results);
    if all.is_empty() {
        return;
    }
    out.push('\n');
    let title = format!("{}: {}", heading(&all).to_lowercase(), moment_of_parts(results));
    push_wrapped(out, "", &title, width);
    for one in &all {
        let text = format!("{}: {}", name(&one.variant), one.sentence());
        push_wrapped(out, "  ", &text, width);
        let largest = one.largest_difference();
        let (lines, others) = one.differing_by(0.03 * largest);
        let hidden = lines.len() < one.lines.len();
        let rest = hidden.then(|| ("the others".to_owned(), others));
        let lines = lines.into_iter().map(|line| (line.line.name(), line.difference()));
        let lines = lines.chain(rest).chain([("all memory".to_owned(), one.all.difference())]);
        let parts =
            lines.map(|(name, bytes)| format!("{name} {}", numbers::signed_bytes(bytes, largest)));
        push_wrapped(out, "  ", &parts.collect::<Vec<_>>().join(" · "), width);
    }
}

/// Memory as a multiple of the least that the application could have; nothing where no server forked.
fn push_least(out: &mut String, results: &Results, width: usize) {
    if let Some(line) = least_text::line(results) {
        out.push('\n');
        push_wrapped(out, "", &line, width);
    }
}

/// The objects by class, a table per variant; nothing without a census.
fn push_classes(out: &mut String, results: &Results, width: usize) {
    for (number, compared) in results.classes.iter().enumerate() {
        out.push('\n');
        if number == 0 {
            let title = format!("objects by class at the end ({})", class_text::EXPLORATORY);
            push_wrapped(out, "", &title, width);
        }
        push_wrapped(out, "  ", &one_line(&class_text::heading(results, compared)), width);
        let mut rows = vec![class_text::TITLES.map(str::to_owned)];
        rows.extend(class_text::rows(compared));
        for row in &mut rows {
            row[0] = shorten(&one_line(&row[0]), CLASS);
        }
        let widths: [usize; 5] =
            std::array::from_fn(|at| rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0));
        for row in &rows {
            let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
                let gap = " ".repeat(width - columns(cell));
                if at == 0 { format!("{cell}{gap}") } else { format!("{gap}{cell}") }
            });
            let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  "));
        }
        push_wrapped(out, "  ", class_text::bytes_of(compared), width);
    }
}

/// The memory at each moment, a line per moment and variant.
fn push_moments(out: &mut String, results: &Results, width: usize) {
    let shown = moments::shown(results);
    if shown.is_empty() {
        return;
    }
    out.push('\n');
    push_wrapped(out, "", &format!("memory at each moment ({})", moments::EXPLORATORY), width);
    let mut last = None;
    let titles = ["moment", "variant", "n", "median", "difference"].map(str::to_owned);
    let rows = shown.iter().map(|one| {
        let repeated = last.replace(one.moment) == Some(one.moment);
        [
            if repeated { String::new() } else { moments::name(results, one.moment) },
            name(&one.variant),
            one.trials.to_string(),
            Unit::Bytes.show(one.median),
            moments::difference(one.estimate.as_ref()),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(titles).chain(rows).collect();
    let widths: [usize; 5] = std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| columns(&row[at]));
        cells.filter(|columns| at != 1 || *columns <= NAME).max().unwrap_or(0)
    });
    for mut row in rows {
        if let (Some(long), _) = above_and_beside(row[1].clone()) {
            let gap = " ".repeat(widths[0] - columns(&row[0]));
            let _ = writeln!(out, "  {}{gap}  {long}", row[0]);
            (row[0], row[1]) = (String::new(), String::new());
        }
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let gap = " ".repeat(widths[at] - columns(cell));
            if (2..=3).contains(&at) { format!("{gap}{cell}") } else { format!("{cell}{gap}") }
        });
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// The duration of broadcasts over the steps of the load, a line per variant.
fn push_steps(out: &mut String, results: &Results, width: usize) {
    if results.curves.is_empty() {
        return;
    }
    out.push_str("\ntime until every connection has a broadcast, by number of connections\n");
    for variant in &results.info.variants {
        let curves = results.curves.iter().filter(|curve| curve.variant == variant.name);
        let curves: Vec<String> = curves.map(wording::curve).collect();
        if !curves.is_empty() {
            let text = format!("{}: {}", name(&variant.name), curves.join("; "));
            push_wrapped(out, "  ", &text, width);
        }
    }
}

/// The growth of every variant's memory over its load, a line each; nothing if no run was decided.
fn push_growth(out: &mut String, results: &Results, width: usize) {
    let Some(growth) = growth_lines(results) else { return };
    let _ = writeln!(out, "\n{}", growth.title);
    for (variant, line) in &growth.lines {
        push_wrapped(out, "  ", &format!("{} {line}", name(variant)), width);
    }
    if let Some(line) = &growth.undecided {
        push_wrapped(out, "  ", &one_line(line), width);
    }
}

fn sparkline(values: &[f64], highest: f64) -> String {
    values.iter().map(|value| block(value / highest)).collect()
}

fn block(share: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BLOCKS[((share.clamp(0.0, 1.0) * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

fn push_context(out: &mut String, results: &Results, width: usize) {
    let blocks: BTreeSet<u32> =
        results.trials.iter().filter(|trial| trial.block > 0).map(|trial| trial.block).collect();
    let _ = write!(
        out,
        "\n{} of at most {}, order drawn with seed {}",
        blocks.len(),
        numbers::count(results.info.max_blocks as usize, "block"),
        results.info.seed
    );
    if let Some(level) = numbers::primary_level(results) {
        let _ = write!(out, ", intervals at {level}");
    }
    let _ = writeln!(out, ".\n{}", numbers::UNITS);
    if let Some(machines) = machines_sentence(results) {
        push_wrapped(out, "", &one_line(&machines), width);
    }
}

pub(crate) fn push_wrapped(out: &mut String, start: &str, text: &str, width: usize) {
    out.push_str(start);
    let mut used = 2;
    for (at, word) in text.split(' ').enumerate() {
        let length = columns(word);
        if at > 0 && used + 1 + length > width {
            out.push_str("\n  ");
            used = 2;
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

impl Style {
    pub(crate) fn paint(self, mark: Mark, text: &str) -> String {
        let code = match mark {
            _ if !self.colour => return text.to_owned(),
            Mark::Less => "32",
            Mark::More | Mark::BreaksGuard => "31",
            Mark::Equal => "36",
            Mark::Open => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_highest_at_the_highest_memory() {
        assert_eq!(sparkline(&[0.0, 25.0, 50.0, 100.0], 100.0), "▁▂▄█");
    }

    #[test]
    fn an_interval_bar_marks_zero() {
        for (low, ratio, high, scale, text) in [
            (-0.24, -0.21, -0.18, 0.24, "├●─┤      │          "),
            (-0.1, 0.05, 0.1, 0.2, "     ├───────●─┤     "),
        ] {
            let estimate = Estimate {
                ratio,
                ratio_interval: (low, high),
                difference: ratio,
                difference_interval: (low, high),
                confidence: 0.95,
            };
            assert_eq!(bar(&estimate, scale), text);
        }
    }
}
