//! A table of facts, made once: terminal, Markdown and page only lay it out.

use crate::mark::{Mark, word};
use crate::numbers;
use carat_model::{Estimate, Unit, Verdict};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FactTable {
    /// What it shows, for screen readers.
    pub label: String,
    pub columns: Vec<Column>,
    /// As many cells as columns each; the first names the row.
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub title: String,
    /// Numbers are aligned to the right.
    pub right: bool,
    pub place: ColumnPlace,
}

/// Where a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnPlace {
    Everywhere,
    /// On a page, which has room for what a reader seldom needs.
    Page,
    /// In a terminal that is wide enough; the first such column is left out first.
    WideTerminal,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cell {
    pub text: String,
    /// The number that the text writes.
    pub value: Option<f64>,
    /// Colours the text.
    pub mark: Option<Mark>,
}

impl FactTable {
    pub(crate) fn new(label: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { label: label.into(), columns, rows: Vec::new() }
    }

    /// The places of the columns that are shown where this holds.
    pub(crate) fn shown(&self, is_shown: impl Fn(ColumnPlace) -> bool) -> Vec<usize> {
        let places = self.columns.iter().enumerate();
        places.filter(|(_, column)| is_shown(column.place)).map(|(at, _)| at).collect()
    }
}

impl Column {
    pub(crate) fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), right: false, place: ColumnPlace::Everywhere }
    }

    pub(crate) fn number(title: impl Into<String>) -> Self {
        Self { right: true, ..Self::text(title) }
    }

    pub(crate) fn at(self, place: ColumnPlace) -> Self {
        Self { place, ..self }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A value in its unit; a dash if it is unknown.
    pub(crate) fn amount(unit: Unit, value: Option<f64>) -> Self {
        Self::shown(value, |value| unit.show(value))
    }

    /// A value and how it is written; a dash if it is unknown.
    pub(crate) fn shown(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        Self { text: value.map_or_else(|| "–".to_owned(), show), value, mark: None }
    }

    pub(crate) fn count(count: usize) -> Self {
        Self::text(count.to_string())
    }

    /// A difference with its interval; empty if it was not estimated.
    pub(crate) fn estimate(metric: &str, estimate: Option<&Estimate>) -> Self {
        let Some(found) = estimate else { return Self::default() };
        Self { text: numbers::estimate(metric, found), value: Some(found.ratio), mark: None }
    }

    pub(crate) fn verdict(mark: Mark, verdict: Verdict) -> Self {
        let text = format!("{} {}", mark.sign(), word(verdict));
        Self { text, value: None, mark: Some(mark) }
    }
}
