//! Tables and wrapped lines in the columns of a terminal.

use crate::mark::Mark;
use crate::table::{Cell, Column, ColumnKind, ColumnPlace, FactTable};
use crate::text::{columns, fill, one_line, shorten};
use carat_redact::Audience;

/// Columns at least; a narrower terminal wraps.
pub(crate) const MIN_WIDTH: usize = 60;
/// Columns of a name beside its figures; a longer one is above them.
pub(crate) const NAME: usize = 28;
/// Characters shown of a name: a limit for hostile files, which no real name reaches.
const LONGEST_NAME: usize = 300;

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

/// How a table lies in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableShape {
    pub indent: usize,
    /// Columns of a text beside its figures; a longer one stands above its row.
    pub name: usize,
}

/// A table of variants, whose names can be long.
pub(crate) const VARIANTS: TableShape = TableShape { indent: 2, name: NAME };
/// A table below a heading.
pub(crate) const INDENTED: TableShape = TableShape { indent: 2, name: usize::MAX };
/// A table at the left.
pub(crate) const LEFT: TableShape = TableShape { indent: 0, name: usize::MAX };

pub(crate) fn name(variant: &str) -> String {
    shorten(&one_line(variant), LONGEST_NAME)
}

fn beside_text(column: &Column, cell: &Cell) -> String {
    match column.kind {
        ColumnKind::Picture => cell.text.clone(),
        _ => name(&cell.text),
    }
}

/// A table in the columns of a terminal.
pub(crate) struct LaidTable {
    /// The places of the columns that there is room for.
    pub shown: Vec<usize>,
    /// The widths of all columns.
    widths: Vec<usize>,
    /// The texts of all columns: the titles, then the rows.
    pub texts: Vec<Vec<String>>,
}

impl LaidTable {
    /// Columns as wide as their widest text, two columns apart. Those for wide terminals are left out first; the others are
    /// the answer.
    pub(crate) fn new(table: &FactTable, width: usize, shape: TableShape) -> Self {
        let titles = table.columns.iter().map(|column| column.title.clone()).collect();
        let texts = table.rows.iter().map(|row| {
            table.columns.iter().zip(row).map(|(column, cell)| beside_text(column, cell)).collect()
        });
        let texts: Vec<Vec<String>> = std::iter::once(titles).chain(texts).collect();
        let widths = table.columns.iter().enumerate().map(|(at, column)| {
            let cells = texts.iter().map(|row| row[at].as_str());
            let beside = cells.filter(|text| !is_above(column, text, shape));
            beside.map(columns).max().unwrap_or(0)
        });
        let widths: Vec<usize> = widths.collect();
        let mut shown = table.shown(|place| place != ColumnPlace::Page);
        // The last column has no gap behind it.
        let most = width.saturating_add(2);
        while shown.iter().map(|at| widths[*at] + 2).sum::<usize>() + shape.indent > most {
            let ranks = shown.iter().filter_map(|at| table.columns[*at].place.rank());
            let Some(least) = ranks.min() else { break };
            shown.retain(|at| table.columns[*at].place.rank() != Some(least));
        }
        Self { shown, widths, texts }
    }
}

fn is_above(column: &Column, text: &str, shape: TableShape) -> bool {
    !column.right() && columns(text) > shape.name
}

/// A table as lines, the titles first.
pub(crate) fn table_text(table: &FactTable, style: Style, shape: TableShape) -> String {
    let LaidTable { shown, widths, texts } = LaidTable::new(table, style.width, shape);
    let (mut out, indent) = (String::new(), " ".repeat(shape.indent));
    for (number, texts) in texts.iter().enumerate() {
        let mut cells = Vec::new();
        for &at in &shown {
            let (column, text) = (&table.columns[at], texts[at].as_str());
            if is_above(column, text, shape) {
                out += &format!("{indent}{text}\n");
            }
            let beside = if is_above(column, text, shape) { "" } else { text };
            let gap = fill(beside, widths[at]);
            // The first row holds the titles.
            let mark = number.checked_sub(1).and_then(|row| table.rows[row][at].mark);
            let text = mark.map_or_else(|| beside.to_owned(), |mark| style.paint(mark, beside));
            cells.push(if column.right() { gap + &text } else { text + &gap });
        }
        out += format!("{indent}{}", cells.join("  ")).trim_end();
        out.push('\n');
    }
    out
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
