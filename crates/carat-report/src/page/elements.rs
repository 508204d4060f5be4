//! Small pieces of markup that several sections use.

use crate::chart::variant_class;
use crate::mark::Mark;
use crate::table::{Cell, Column, ColumnKind, ColumnPlace, FactTable};
use crate::text::one_line;
use crate::wording::Sentence;
use maud::{Markup, html as markup};

/// A table that scrolls sideways on a narrow screen.
pub(super) fn scrollable(label: &str, table: &Markup) -> Markup {
    markup! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// The class of the cells of a column.
fn class(column: &Column) -> Option<&'static str> {
    match column.kind {
        ColumnKind::Number | ColumnKind::Name => None,
        ColumnKind::Text | ColumnKind::Picture => Some("l"),
        ColumnKind::LongText => Some("w"),
    }
}

/// Every column of a table; the first cell of a row is its heading.
pub(super) fn table(table: &FactTable) -> Markup {
    let shown = table.shown(|place| !matches!(place, ColumnPlace::WideTerminal(_)));
    let markup = markup! {
        table id=[table.id] data-metric=[table.metric.as_deref()] {
            thead { tr { @for &at in &shown {
                th class=[class(&table.columns[at])] scope="col" { (table.columns[at].title) }
            } } }
            tbody { @for (place, row) in table.rows.iter().enumerate() {
                // A script shows and hides the variants of a metric.
                @let variant = table.metric.as_ref().map(|_| &row[0].text);
                tr class=[variant.map(|_| format!("v{}", variant_class(place)))] data-variant=[variant] {
                    @for &at in &shown {
                        @if at == 0 { th scope="row" { (content(&row[at])) } }
                        @else { td class=[class(&table.columns[at])] data-v=[row[at].value] { (content(&row[at])) } }
                    }
                }
            } }
        }
    };
    scrollable(&table.label, &markup)
}

fn content(cell: &Cell) -> Markup {
    let text = one_line(&cell.text);
    match cell.mark {
        Some(mark) => markup! { span class=(mark_class(mark)) { (text) } },
        None if cell.is_code => markup! { code { (text) } },
        None => markup! { (text) },
    }
}

/// A table that is closed at first.
pub(super) fn number_table(shown: &FactTable) -> Markup {
    markup! { details { summary { "Numbers" } (table(shown)) } }
}

/// What may follow a number as its unit.
const UNITS: [&str; 13] =
    ["%", "points", "B", "kB", "MB", "GB", "µs", "ms", "s", "min", "h", "×", "blocks"];

/// The text with spaces at which no line ends between a number and its unit, or before a tick.
pub(super) fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (place, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')']);
        let after_number = out.ends_with(|c: char| c.is_ascii_digit());
        match unit == "✓" || (after_number && UNITS.contains(&unit)) {
            _ if place == 0 => {}
            true => out.push('\u{a0}'),
            false => out.push(' '),
        }
        out.push_str(word);
    }
    out
}

/// A verdict sentence with its sign; text in parentheses is in a softer colour.
pub(super) fn verdict_sentence(sentence: &Sentence) -> Markup {
    let class = mark_class(sentence.mark);
    let rest = unbroken(&sentence.rest);
    markup! {
        span class={ "sign " (class) } aria-hidden="true" { (sentence.mark.sign()) }
        strong { (sentence.variant) } " "
        @for (in_parentheses, part) in parts(&rest) {
            @if in_parentheses { span.aside { (part) } } @else { (part) }
        }
    }
}

/// A text that somebody wrote: what stands between two backticks is code.
pub(super) fn prose(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd number of pieces has every backtick closed.
    let is_closed = pieces.len() % 2 == 1;
    markup! {
        @if is_closed {
            @for (place, piece) in pieces.iter().enumerate() {
                @if place % 2 == 1 { code { (piece) } } @else { (piece) }
            }
        } @else { (text) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_ends_between_a_number_and_its_unit() {
        assert_eq!(
            unbroken("uses +2.6 % (18 to 24 MB, 3 blocks) in 4 s. 5 % ✓ a % b"),
            "uses +2.6\u{a0}% (18 to 24\u{a0}MB, 3\u{a0}blocks) in 4\u{a0}s. 5\u{a0}%\u{a0}✓ a % b"
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        for (text, html) in [
            ("a `b <c>` d", "a <code>b &lt;c&gt;</code> d"),
            ("a ` b", "a ` b"),
            ("plain", "plain"),
        ] {
            assert_eq!(prose(text).into_string(), html);
        }
    }
}
