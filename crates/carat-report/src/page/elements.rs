//! Small pieces of markup that several sections use.

use crate::mark::{Mark, word};
use crate::numbers;
use crate::table::{Column, ColumnPlace, FactTable};
use crate::text::one_line;
use crate::wording::Sentence;
use carat_model::{Estimate, Unit, Verdict};
use maud::{Markup, html as markup};

/// A table that scrolls sideways on a narrow screen.
pub(super) fn scrollable(label: &str, table: &Markup) -> Markup {
    markup! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// The class of a column whose texts are aligned to the left.
fn left(column: &Column) -> Option<&'static str> {
    (!column.right).then_some("l")
}

/// Every column of a table; the first cell of a row is its heading.
pub(super) fn table(table: &FactTable) -> Markup {
    let shown = table.shown(|place| place != ColumnPlace::WideTerminal);
    let markup = markup! {
        table {
            thead { tr { @for &at in &shown { th class=[left(&table.columns[at])] scope="col" { (table.columns[at].title) } } } }
            tbody { @for row in &table.rows { tr {
                @for &at in &shown {
                    @let cell = &row[at];
                    @if at == 0 { th scope="row" { (one_line(&cell.text)) } }
                    @else {
                        td class=[left(&table.columns[at])] data-v=[cell.value] {
                            @if let Some(mark) = cell.mark { span class=(mark_class(mark)) { (cell.text) } }
                            @else { (one_line(&cell.text)) }
                        }
                    }
                }
            } } }
        }
    };
    scrollable(&table.label, &markup)
}

/// A cell with a value and its unit, or a dash if the value is unknown.
pub(super) fn value_cell(unit: Unit, value: Option<f64>) -> Markup {
    match value {
        Some(number) => markup! { td data-v=(number) { (unit.show(number)) } },
        None => unknown_cell(),
    }
}

/// A cell with an estimate and its interval, or a dash.
pub(super) fn estimate_cell(metric: &str, estimate: Option<Estimate>) -> Markup {
    match estimate {
        Some(found) => {
            markup! { td data-v=(found.ratio) { (numbers::estimate(metric, &found)) } }
        }
        None => unknown_cell(),
    }
}

/// A cell with a dash.
pub(super) fn unknown_cell() -> Markup {
    markup! { td { "–" } }
}

/// A cell with a verdict; empty if there is none.
pub(super) fn verdict_cell(verdict: Option<Verdict>) -> Markup {
    markup! {
        td.l { @if let Some(verdict) = verdict {
            @let mark = Mark::of_verdict(verdict);
            span class=(mark_class(mark)) { (mark.sign()) " " (word(verdict)) }
        } }
    }
}

/// A verdict sentence with its sign; text in parentheses is in a softer colour.
pub(super) fn verdict_sentence(sentence: &Sentence) -> Markup {
    let class = mark_class(sentence.mark);
    markup! {
        span class={ "sign " (class) } aria-hidden="true" { (sentence.mark.sign()) }
        strong { (sentence.variant) } " "
        @for (in_parentheses, part) in parts(&sentence.rest) {
            @if in_parentheses { span.aside { (part) } } @else { (part) }
        }
    }
}

/// The class that colours a mark.
pub(super) fn mark_class(mark: Mark) -> &'static str {
    match mark {
        Mark::Less => "good",
        Mark::More | Mark::BreaksGuard => "bad",
        Mark::Equal => "even",
        Mark::Open => "open",
    }
}

/// The text in parts, each with whether it is in parentheses, which are part of it.
fn parts(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((open, length)) =
        // An open parenthesis without an end is ordinary text.
        rest.find('(').and_then(|open| Some((open, rest[open..].find(')')? + 1)))
    {
        parts.push((false, &rest[..open]));
        parts.push((true, &rest[open..open + length]));
        rest = &rest[open + length..];
    }
    parts.push((false, rest));
    parts
}

/// Letters, digits and hyphens of a name, for an id.
pub(super) fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
