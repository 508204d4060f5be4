//! A table of facts, made once: terminal, Markdown and page only lay it out.

use crate::mark::{Mark, word};
use crate::numbers::{self, guard_limit};
use carat_model::{Bytes, Conclusion, Estimate, Results, Unit, Verdict};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FactTable {
    /// What it shows, for screen readers.
    pub label: String,
    /// Its id on a page.
    pub id: Option<&'static str>,
    /// The metric whose rows are the variants in the order of the results.
    pub metric: Option<String>,
    pub columns: Vec<Column>,
    /// As many cells as columns each; the first names the row.
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub title: String,
    pub kind: ColumnKind,
    pub place: ColumnPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Aligned to the right.
    Number,
    /// Aligned to the left.
    Text,
    /// Aligned to the left, and on a page in several lines.
    LongText,
    /// Characters that make a picture, whose spaces have a meaning.
    Picture,
    /// The first column, which a page aligns to the left by its place.
    Name,
}

/// Where a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnPlace {
    Everywhere,
    /// On a page, which has room for what a reader seldom needs.
    Page,
    /// In a terminal that is wide enough; of several the lowest number is left out first.
    WideTerminal(u8),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cell {
    pub text: String,
    /// The number that the text writes.
    pub value: Option<f64>,
    /// Colours the text.
    pub mark: Option<Mark>,
    /// Whether the text is a name in a program.
    pub is_code: bool,
}

impl FactTable {
    /// A table without columns.
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), id: None, metric: None, columns: Vec::new(), rows: Vec::new() }
    }

    pub(crate) fn id(self, id: &'static str) -> Self {
        Self { id: Some(id), ..self }
    }

    pub(crate) fn of_metric(self, metric: &str) -> Self {
        Self { metric: Some(metric.to_owned()), ..self }
    }

    fn columns<T: Into<String>>(
        mut self,
        titles: impl IntoIterator<Item = T>,
        (kind, place): (ColumnKind, ColumnPlace),
    ) -> Self {
        let columns = titles.into_iter().map(|title| Column { title: title.into(), kind, place });
        self.columns.extend(columns);
        self
    }

    /// Adds the column that names the rows.
    pub(crate) fn name(self, title: impl Into<String>) -> Self {
        self.columns([title], (ColumnKind::Name, ColumnPlace::Everywhere))
    }

    /// Adds columns of text.
    pub(crate) fn texts<T: Into<String>>(self, titles: impl IntoIterator<Item = T>) -> Self {
        self.columns(titles, (ColumnKind::Text, ColumnPlace::Everywhere))
    }

    /// Adds columns of text that a page writes in several lines.
    pub(crate) fn long_texts<T: Into<String>>(self, titles: impl IntoIterator<Item = T>) -> Self {
        self.columns(titles, (ColumnKind::LongText, ColumnPlace::Everywhere))
    }

    /// Adds columns of numbers.
    pub(crate) fn numbers<T: Into<String>>(self, titles: impl IntoIterator<Item = T>) -> Self {
        self.columns(titles, (ColumnKind::Number, ColumnPlace::Everywhere))
    }

    /// Adds columns of numbers that only a page shows.
    pub(crate) fn page_numbers<T: Into<String>>(self, titles: impl IntoIterator<Item = T>) -> Self {
        self.columns(titles, (ColumnKind::Number, ColumnPlace::Page))
    }

    /// Adds columns of text that only a page shows.
    pub(crate) fn page_texts<T: Into<String>>(self, titles: impl IntoIterator<Item = T>) -> Self {
        self.columns(titles, (ColumnKind::Text, ColumnPlace::Page))
    }

    /// Adds a column of numbers that only a wide terminal shows; of several the lowest `rank` is left out first.
    pub(crate) fn wide_number(self, title: &str, rank: u8) -> Self {
        self.columns([title], (ColumnKind::Number, ColumnPlace::WideTerminal(rank)))
    }

    /// Adds a column that a wide terminal shows as a picture: its spaces have a meaning.
    pub(crate) fn wide_picture(self, rank: u8) -> Self {
        self.columns([""], (ColumnKind::Picture, ColumnPlace::WideTerminal(rank)))
    }

    pub(crate) fn rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        Self { rows: rows.into_iter().collect(), ..self }
    }

    /// The places of the columns that are shown where this holds.
    pub(crate) fn shown(&self, is_shown: impl Fn(ColumnPlace) -> bool) -> Vec<usize> {
        let places = self.columns.iter().enumerate();
        places.filter(|(_, column)| is_shown(column.place)).map(|(at, _)| at).collect()
    }
}

impl ColumnPlace {
    /// When a column for wide terminals is left out, the lowest first; `None` for others.
    pub(crate) fn rank(self) -> Option<u8> {
        match self {
            Self::WideTerminal(rank) => Some(rank),
            _ => None,
        }
    }
}

impl Column {
    /// Whether a text aligns it to the right.
    pub(crate) fn right(&self) -> bool {
        self.kind == ColumnKind::Number
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self { is_code: true, ..Self::text(text) }
    }

    /// The cells of a row: its name, then the others.
    pub(crate) fn row(name: impl Into<String>, cells: impl IntoIterator<Item = Self>) -> Vec<Self> {
        std::iter::once(Self::text(name)).chain(cells).collect()
    }

    /// A value in its unit; a dash if it is unknown.
    pub(crate) fn amount(unit: Unit, value: impl Into<Option<f64>>) -> Self {
        Self::shown(value, |value| unit.show(value))
    }

    /// An amount of memory; a dash if it is unknown.
    pub(crate) fn bytes(bytes: impl Into<Option<Bytes>>) -> Self {
        Self::amount(Unit::Bytes, bytes.into().map(|bytes| bytes.0 as f64))
    }

    /// A value and how it is written; a dash if it is unknown.
    pub(crate) fn shown(value: impl Into<Option<f64>>, show: impl Fn(f64) -> String) -> Self {
        let value = value.into();
        let text = value.map_or_else(|| "–".to_owned(), show);
        Self { value, ..Self::text(text) }
    }

    pub(crate) fn count(count: impl ToString) -> Self {
        Self::text(count.to_string())
    }

    /// A difference with its interval; empty if it was not estimated.
    pub(crate) fn estimate(metric: &str, estimate: Option<&Estimate>) -> Self {
        let Some(found) = estimate else { return Self::default() };
        Self { value: Some(found.ratio), ..Self::text(numbers::estimate(metric, found)) }
    }

    /// A difference with its interval; a dash if it was not estimated.
    pub(crate) fn known_estimate(metric: &str, estimate: Option<Estimate>) -> Self {
        match estimate {
            Some(found) => Self::estimate(metric, Some(&found)),
            None => Self::text("–"),
        }
    }

    /// The verdict of a conclusion; that on the primary metric of a variant beyond a guard has the mark of that.
    pub(crate) fn verdict_of(results: &Results, conclusion: &Conclusion) -> Self {
        Self::judged(Mark::of_conclusion(results, conclusion), conclusion)
    }

    /// The verdict of a conclusion with this mark, or whether its limit is kept.
    pub(crate) fn judged(mark: Mark, conclusion: &Conclusion) -> Self {
        // Whether a limit is kept can be proven where a difference is not.
        match (guard_limit(conclusion), conclusion.guard_passed, conclusion.verdict) {
            (Some(limit), Some(kept), Verdict::Undecided) => {
                let mark = if kept { Mark::Equal } else { Mark::BreaksGuard };
                let text = if kept { "✓ within" } else { "✗ beyond" };
                Self { mark: Some(mark), ..Self::text(format!("{text} {limit}")) }
            }
            _ => Self::verdict(mark, conclusion.verdict),
        }
    }

    pub(crate) fn verdict(mark: Mark, verdict: Verdict) -> Self {
        let text = format!("{} {}", mark.sign(), word(verdict));
        Self { mark: Some(mark), ..Self::text(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{estimate, guard, results};

    #[test]
    fn a_guard_whose_limit_is_proven_to_be_kept_is_not_undecided() {
        for (passed, text) in
            [(Some(true), "✓ within +10 %"), (Some(false), "✗ beyond +10 %"), (None, "? undecided")]
        {
            let found = (Verdict::Undecided, estimate(-0.02, 0.0, 0.02));
            let guard = guard("latency.p95", 0.1, passed, found);
            let results = results(&["a", "b"], Vec::new());
            assert_eq!(Cell::verdict_of(&results, &guard).text, text);
        }
    }
}
