//! Objects by class at the end of the trials: the words and rows that the terminal and Markdown have of them.

use crate::facts;
use crate::numbers::{grouped, or_question_mark, signed, signed_integer};
use crate::table::{Cell, FactTable};
use carat_model::{ClassComparison, ClassMedians, ReadTrials, Results, Unit};

/// What every format says of the figures.
pub(crate) const EXPLORATORY: &str =
    "medians over the trials; exploratory: the differences have no interval, and none is a verdict";
/// The name of the row with all objects.
const ALL: &str = "all classes";
/// Classes in the terminal and in Markdown.
pub(crate) const ROWS: usize = 10;

/// The two variants, and how many of their trials could be read.
pub(crate) fn heading(results: &Results, compared: &ClassComparison) -> String {
    let of = |ReadTrials { read, counted }: ReadTrials| format!("{read} of {counted} trials read");
    let [own, of_baseline] = [compared.trials, compared.baseline_trials].map(of);
    let (variant, baseline) = (&compared.variant, facts::baseline(results));
    format!("{variant} ({own}) against {baseline} ({of_baseline})")
}

pub(crate) const fn bytes_of(compared: &ClassComparison) -> &'static str {
    match compared.with_malloc {
        true => "bytes are those of slots and of what the objects hold in malloc",
        false => "bytes are those of slots",
    }
}

/// The row of all objects, then that many classes that differ most. An unknown value is a question mark.
pub(crate) fn table(compared: &ClassComparison, label: String, most: usize) -> FactTable {
    let classes = compared.classes.iter().take(most);
    let classes = classes.map(|class| (class.class.as_str(), &class.medians));
    let all = std::iter::once((ALL, &compared.all));
    FactTable::new(label)
        .texts(["class"])
        .numbers(["baseline", "variant", "difference", "bytes"])
        .rows(all.chain(classes).map(|(name, medians)| row(name, medians)))
}

fn row(name: &str, medians: &ClassMedians) -> Vec<Cell> {
    vec![
        Cell::text(name),
        objects(medians.baseline_objects),
        objects(medians.objects),
        known(medians.objects_difference(), change),
        known(medians.bytes_difference(), |bytes| signed(Unit::Bytes, bytes)),
    ]
}

fn objects(median: Option<f64>) -> Cell {
    known(median, |median| grouped(median.round() as u64))
}

fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
    let text = or_question_mark(value.map(show));
    Cell { value, ..Cell::text(text) }
}

/// A difference of objects with its sign.
fn change(difference: f64) -> String {
    signed_integer(difference.round() as i128, grouped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ClassDifference;

    fn medians(objects: Option<f64>, baseline: f64) -> ClassMedians {
        ClassMedians {
            baseline_objects: Some(baseline),
            objects,
            baseline_bytes: Some(baseline * 40.0),
            bytes: objects.map(|objects| objects * 40.0),
        }
    }

    fn class(name: &str, objects: Option<f64>, baseline: f64) -> ClassDifference {
        ClassDifference { class: name.into(), medians: medians(objects, baseline) }
    }

    fn compared() -> ClassComparison {
        let some = (0..12).map(|n| class(&format!("Class{n}"), Some(1.0), 2.0));
        ClassComparison {
            variant: "trim".into(),
            baseline_trials: ReadTrials { counted: 10, read: 9 },
            trials: ReadTrials { counted: 10, read: 10 },
            with_malloc: true,
            all: medians(Some(90_000.4), 120_000.0),
            classes: [class("String", None, 1500.0)].into_iter().chain(some).collect(),
        }
    }

    #[test]
    fn all_objects_come_first_and_what_is_unknown_is_never_zero() {
        let table = table(&compared(), String::new(), ROWS);
        let rows = table.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
        let rows: Vec<Vec<String>> = rows.collect();
        assert_eq!(rows.len(), 11);
        assert_eq!(rows[0], ["all classes", "120,000", "90,000", "−30,000", "−1.20 MB"]);
        assert_eq!(rows[1], ["String", "1,500", "?", "?", "?"]);
        assert_eq!(rows[2], ["Class0", "2", "1", "−1", "−40 B"]);
    }

    #[test]
    fn a_difference_has_a_sign_unless_it_is_none() {
        assert_eq!([0.4, -0.4, 2.0, -1234.0].map(change), ["0", "0", "+2", "−1,234"]);
    }
}
