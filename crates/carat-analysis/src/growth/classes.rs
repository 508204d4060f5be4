//! Classes whose number of objects grows, from readings of a Ruby's memory at intervals.

use carat_model::{ClassGrowth, ProgressUnit, Recording};
use carat_stats::slope::slope;
use std::collections::BTreeMap;

/// Classes kept in a recording, those that grow by most bytes.
const KEPT: usize = 20;
/// Objects by which a class must have grown over the whole recording.
const SMALLEST: f64 = 50.0;

/// Objects of every class by progress: requests answered, or seconds.
pub type ClassSeries = BTreeMap<String, Vec<(f64, f64)>>;

/// The classes that grow beyond doubt: the lower limit of the slope is above zero. The largest growth in bytes first.
///
/// `bytes_each` has the mean bytes of an object of a class, with what it holds where that is known.
pub fn growing_classes(
    series: &ClassSeries,
    progress: ProgressUnit,
    bytes_each: &BTreeMap<String, f64>,
) -> Vec<ClassGrowth> {
    let mut found: Vec<ClassGrowth> = series
        .iter()
        .filter_map(|(class, points)| {
            // Beyond doubt only: hundreds of classes are looked at.
            let slope = slope(points).filter(|slope| slope.interval.0 > 0.0)?;
            let (first, last) = (points.first()?, points.last()?);
            // By the slope, not by the ends: a class may be read just after a burst.
            let grown = slope.rate * (last.0 - first.0);
            (grown >= SMALLEST).then(|| ClassGrowth {
                class: class.clone(),
                progress,
                objects: last.1 as u64,
                rate: slope.rate,
                interval: slope.interval,
                readings: u32::try_from(slope.points).unwrap_or(u32::MAX),
                bytes_each: bytes_each.get(class).copied(),
                kept_by: None,
            })
        })
        .collect();
    found.sort_by(|one, other| bytes_rate(other).total_cmp(&bytes_rate(one)));
    found.truncate(KEPT);
    found
}

/// The class of a recording that says most: of which it is known what keeps it, or else whose growth is known best, as strings and
/// arrays that belong to it vary more than it does.
pub fn grown_class(recording: &Recording) -> Option<&ClassGrowth> {
    let classes = recording.end.iter().flat_map(|end| &end.classes);
    let width = |class: &ClassGrowth| (class.interval.1 - class.interval.0) / class.rate;
    classes.min_by(|one, other| {
        let unknown = one.kept_by.is_none().cmp(&other.kept_by.is_none());
        unknown.then(width(one).total_cmp(&width(other)))
    })
}

/// How a class grows and what keeps it: `Post grows by 3.0 objects per request, kept by global variable $posts`.
pub fn class_in_brief(growth: &ClassGrowth) -> String {
    let kept_by = growth.kept_by.as_ref().map(|way| format!(", kept by {}", way.keeper()));
    format!(
        "{} grows by {} objects per {}{}",
        growth.class,
        class_rate(growth.rate),
        growth.progress.unit(),
        kept_by.unwrap_or_default()
    )
}

/// A rate of objects with two significant digits at least.
pub fn class_rate(rate: f64) -> String {
    match rate.abs() {
        many if many >= 100.0 => format!("{rate:.0}"),
        some if some >= 1.0 => format!("{rate:.1}"),
        few if few >= 0.01 => format!("{rate:.3}"),
        _ => format!("{rate:.1e}"),
    }
}

/// Bytes per unit of progress; a class of unknown size counts with its slots of 40 bytes at least.
fn bytes_rate(growth: &ClassGrowth) -> f64 {
    growth.rate * growth.bytes_each.unwrap_or(40.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: f64, noise: f64) -> Vec<(f64, f64)> {
        (1..30_u32)
            .map(|x| (f64::from(x), 1e4 + rate * f64::from(x) + noise * f64::from(x * 7919 % 13)))
            .collect()
    }

    #[test]
    fn only_classes_that_grow_beyond_doubt_are_named_and_the_largest_in_bytes_first() {
        let series = ClassSeries::from([
            ("Post".to_owned(), line(30.0, 1.0)),
            ("String".to_owned(), line(0.0, 500.0)),
            ("Blob".to_owned(), line(10.0, 0.0)),
            ("Rare".to_owned(), line(0.5, 0.0)),
        ]);
        let bytes = BTreeMap::from([("Blob".to_owned(), 4000.0), ("Post".to_owned(), 412.0)]);
        let found = growing_classes(&series, ProgressUnit::Requests, &bytes);
        let names: Vec<&str> = found.iter().map(|growth| growth.class.as_str()).collect();
        assert_eq!(names, ["Blob", "Post"]);
        assert!((found[1].rate - 30.0).abs() < 0.5, "{found:?}");
        assert_eq!((found[1].readings, found[1].bytes_each), (29, Some(412.0)));
    }

    #[test]
    fn few_readings_name_no_class() {
        let series = ClassSeries::from([("Post".to_owned(), line(30.0, 0.0)[..3].to_vec())]);
        assert!(growing_classes(&series, ProgressUnit::Seconds, &BTreeMap::new()).is_empty());
    }
}
