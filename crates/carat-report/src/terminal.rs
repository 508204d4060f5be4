//! Results in detail as text for a terminal: verdict sentences, then sections of lines and tables.

use crate::chart::reduce::band;
use crate::control_text::control_sentences;
use crate::details::{DetailSection, sections};
use crate::facts;
use crate::machine_text::machines_sentence;
use crate::mark::Mark;
use crate::memory_series::{is_resident, memory, memory_series};
use crate::numbers;
use crate::standing::in_order;
use crate::table::{Cell, Column, ColumnPlace, FactTable};
use crate::text::{columns, one_line, shorten};
use crate::verdict::warnings;
use crate::wording;
use carat_model::{Results, Unit};
use carat_redact::{Audience, redact_results};
use std::fmt::Write as _;

/// Columns at least; a narrower terminal wraps.
pub(crate) const MIN_WIDTH: usize = 60;
/// Columns of a name beside its figures; a longer one is above them.
pub(crate) const NAME: usize = 28;
/// Characters shown of a name: a limit for hostile files, which no real name reaches.
const LONGEST_NAME: usize = 300;
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

/// Every fact that the results have for a terminal, ending with a line feed.
pub fn terminal(results: &Results, style: Style) -> String {
    let results = &in_order(redact_results(results, style.audience));
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
    for section in sections(results) {
        push_section(&mut out, &section, style);
    }
    push_memory(&mut out, results);
    push_context(&mut out, results, style.width);
    for warning in warnings(results) {
        push_wrapped(&mut out, "! ", &one_line(&warning), style.width);
    }
    out
}

pub(crate) fn name(variant: &str) -> String {
    shorten(&one_line(variant), LONGEST_NAME)
}

fn push_section(out: &mut String, section: &DetailSection, style: Style) {
    out.push('\n');
    push_wrapped(out, "", &one_line(&section.heading), style.width);
    for line in &section.lines {
        let variant = line.variant.as_deref().map(name).unwrap_or_default();
        push_wrapped(out, "  ", &one_line(&format!("{variant}{}", line.text)), style.width);
    }
    for table in &section.tables {
        if section.tables.len() > 1 {
            push_wrapped(out, "  ", &one_line(&table.label), style.width);
        }
        push_table(out, table, style);
    }
}

/// The text of a cell. What carat made for a terminal stays as it is: its spaces have a meaning.
fn beside_text(column: &Column, cell: &Cell) -> String {
    match column.place {
        ColumnPlace::WideTerminal => cell.text.clone(),
        _ => name(&cell.text),
    }
}

fn is_above(column: &Column, text: &str) -> bool {
    !column.right && columns(text) > NAME
}

/// Columns as wide as their widest cell. A long name stands above its row. Columns for which there is no room are left out.
fn push_table(out: &mut String, table: &FactTable, style: Style) {
    let titles = table.columns.iter().map(|column| column.title.clone()).collect();
    let texts = table.rows.iter().map(|row| {
        table.columns.iter().zip(row).map(|(column, cell)| beside_text(column, cell)).collect()
    });
    let texts: Vec<Vec<String>> = std::iter::once(titles).chain(texts).collect();
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|at| {
            let cells = texts.iter().map(|row| &row[at]);
            let beside = cells.filter(|text| !is_above(&table.columns[at], text));
            beside.map(|text| columns(text)).max().unwrap_or(0)
        })
        .collect();
    let mut shown = table.shown(|place| place != ColumnPlace::Page);
    // Columns for wide terminals go first; the others are the answer.
    while shown.iter().map(|at| widths[*at] + 2).sum::<usize>() > style.width {
        let mut places = shown.iter().map(|at| table.columns[*at].place);
        let Some(first) = places.position(|place| place == ColumnPlace::WideTerminal) else {
            break;
        };
        shown.remove(first);
    }
    for (number, texts) in texts.iter().enumerate() {
        let mut line = String::new();
        for &at in &shown {
            let text = &texts[at];
            if is_above(&table.columns[at], text) {
                let _ = writeln!(out, "  {text}");
            }
            let beside = if is_above(&table.columns[at], text) { "" } else { text };
            let gap = " ".repeat(widths[at] - columns(beside));
            // The first row holds the titles.
            let mark = number.checked_sub(1).and_then(|row| table.rows[row][at].mark);
            let text = mark.map_or_else(|| beside.to_owned(), |mark| style.paint(mark, beside));
            let _ = match table.columns[at].right {
                true => write!(line, "  {gap}{text}"),
                false => write!(line, "  {text}{gap}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
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
    // Nothing was sampled, or only zeros: no scale.
    if highest <= 0.0 {
        return;
    }
    let short = medians.iter().map(|(name, _)| columns(name)).filter(|columns| *columns <= NAME);
    let widest = short.max().unwrap_or(0);
    let _ = writeln!(out, "\nmemory over time, from 0 to {}", Unit::Bytes.show(highest));
    for (mut name, values) in medians {
        if columns(&name) > NAME {
            let _ = writeln!(out, "  {}", std::mem::take(&mut name));
        }
        let gap = " ".repeat(widest.saturating_sub(columns(&name)));
        let _ = writeln!(out, "  {name}{gap}  {}", sparkline(&values, highest));
    }
}

fn sparkline(values: &[f64], highest: f64) -> String {
    values.iter().map(|value| block(value / highest)).collect()
}

fn block(share: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // Rounded up: what is above zero has at least the lowest block.
    BLOCKS[((share.clamp(0.0, 1.0) * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

fn push_context(out: &mut String, results: &Results, width: usize) {
    let blocks = facts::blocks(results, facts::is_scored);
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
    // Further lines are indented by two, as wide as the usual start.
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
}
