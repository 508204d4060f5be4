//! Fewer points that look the same, and many series as one band.

use crate::facts::quantile;

/// At most about two points per column: its minimum and maximum in order, so that no peak is lost. Points must
/// ascend in x.
pub(crate) fn reduce(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    // Few enough points are drawn as they are.
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / columns as f64;
    let mut kept = Vec::with_capacity(2 * columns + 2);
    // By place, not by number: gaps in the series stay gaps.
    for group in points.chunk_by(|one, other| {
        ((one.0 - first.0) / width) as usize == ((other.0 - first.0) / width) as usize
    }) {
        let (low, high) = group.iter().fold((group[0], group[0]), |(low, high), &point| {
            (if point.1 < low.1 { point } else { low }, if point.1 > high.1 { point } else { high })
        });
        // In the order of time, or the line would go backwards.
        let (early, late) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.push(early);
        if late != early {
            kept.push(late);
        }
    }
    kept
}

/// Lower quartile, median and upper quartile of many series at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BandPoint {
    pub x: f64,
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// Quartiles of many series at that many evenly spaced places, as far as at least half of the series reach.
pub(crate) fn band(series: &[Vec<(f64, f64)>], places: usize) -> Vec<BandPoint> {
    let ends = series.iter().filter_map(|s| s.last()).map(|last| last.0);
    let last = ends.fold(f64::NEG_INFINITY, f64::max);
    let starts = series.iter().filter_map(|s| s.first()).map(|first| first.0);
    let first = starts.fold(f64::INFINITY, f64::min);
    // No series has a point: infinity is above minus infinity.
    if last < first {
        return Vec::new();
    }
    let step = (last - first) / (places.max(2) - 1) as f64;
    // Fewer than half would make the band jump where trials end.
    let needed = series.len().div_ceil(2).max(1);
    (0..places.max(2))
        .filter_map(|at| {
            let x = first + at as f64 * step;
            let values: Vec<f64> = series.iter().filter_map(|s| value_at(s, x)).collect();
            (values.len() >= needed).then(|| point_of(x, values))
        })
        .collect()
}

/// The quartiles of at least one value at a place.
pub(crate) fn point_of(x: f64, mut values: Vec<f64>) -> BandPoint {
    values.sort_by(f64::total_cmp);
    BandPoint {
        x,
        lower: quantile(&values, 0.25),
        median: quantile(&values, 0.5),
        upper: quantile(&values, 0.75),
    }
}

/// The line through the medians of a band.
pub(crate) fn medians(band: &[BandPoint]) -> Vec<(f64, f64)> {
    band.iter().map(|point| (point.x, point.median)).collect()
}

/// The value at `x`, interpolated; `None` outside the series.
fn value_at(series: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = series.partition_point(|point| point.0 < x);
    let right = series.get(after)?;
    // A value on a point needs no neighbour on its other side.
    if right.0 == x {
        return Some(right.1);
    }
    let left = series.get(after.checked_sub(1)?)?;
    Some(left.1 + (right.1 - left.1) * (x - left.0) / (right.0 - left.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_series_keeps_its_peak() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        points[7777].1 = 99.0;
        points[2222].1 = -5.0;
        let kept = reduce(&points, 100);
        assert!(kept.len() <= 202, "{}", kept.len());
        assert!(kept.contains(&(7777.0, 99.0)) && kept.contains(&(2222.0, -5.0)));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_band_ends_where_most_series_end() {
        let long = vec![(0.0, 1.0), (10.0, 1.0)];
        let short = vec![(0.0, 3.0), (5.0, 3.0)];
        let found = band(&[long, short.clone(), short], 11);
        assert_eq!(found.first().map(|p| (p.x, p.median)), Some((0.0, 3.0)));
        assert_eq!(found.last().map(|p| p.x), Some(5.0));
        assert!(band(&[], 10).is_empty());
    }
}
