//! Linear and logarithmic scales from values to places, with round ticks.

/// Maps a range of values to a range of places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisScale {
    values: (f64, f64),
    places: (f64, f64),
    is_logarithmic: bool,
}

impl AxisScale {
    /// A linear scale; an empty range of values is widened.
    pub(crate) fn linear(values: (f64, f64), places: (f64, f64)) -> Self {
        Self { values: widened(values), places, is_logarithmic: false }
    }

    /// A logarithmic scale; a lower end at or below 0 is taken as a thousandth of the upper end.
    pub(crate) fn logarithmic(values: (f64, f64), places: (f64, f64)) -> Self {
        // A logarithm needs values above zero, whatever the file has.
        let high = if values.1 > 0.0 { values.1 } else { 1.0 };
        let low = if values.0 > 0.0 { values.0 } else { high / 1000.0 };
        // A single value gets a range around it.
        let (low, high) = if low < high { (low, high) } else { (low / 2.0, low * 2.0) };
        Self { values: (low, high), places, is_logarithmic: true }
    }

    /// The place of a value, which may be outside the range.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        let share = match self.is_logarithmic {
            false => (value - low) / (high - low),
            // Far below the range is far enough: the logarithm of zero has no place.
            true => (value.max(low / 1e3) / low).ln() / (high / low).ln(),
        };
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// The place of a value, clamped to the range.
    pub(crate) fn clamped(&self, value: f64) -> f64 {
        let (low, high) = (self.places.0.min(self.places.1), self.places.0.max(self.places.1));
        self.at(value).clamp(low, high)
    }

    /// The ends of the values.
    pub(crate) fn values(&self) -> (f64, f64) {
        self.values
    }

    /// The ends of the values and of the places, as the page's script expects them.
    pub(crate) fn ends(&self) -> [f64; 4] {
        [self.values.0, self.values.1, self.places.0, self.places.1]
    }

    /// [`ticks`](Self::ticks) with their texts, which follow from a value and the distance between two.
    pub(crate) fn named_ticks(
        &self,
        wanted: usize,
        text: impl Fn(f64, f64) -> String,
    ) -> Vec<(f64, String)> {
        let ticks = self.ticks(wanted);
        let distance = match ticks[..] {
            [first, second, ..] => second - first,
            _ => 0.0,
        };
        ticks.into_iter().map(|tick| (tick, text(tick, distance))).collect()
    }

    /// About `wanted` round values within the range.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        let ticks = if self.is_logarithmic { logarithmic_ticks } else { linear_ticks };
        ticks(self.values, wanted)
    }
}

/// The range of finite values with a margin of that share on both sides.
pub(crate) fn range(values: impl IntoIterator<Item = f64>, margin: f64) -> Option<(f64, f64)> {
    let (low, high) = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return None;
    }
    let pad = (high - low) * margin;
    Some(widened((low - pad, high + pad)))
}

fn widened((low, high): (f64, f64)) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    // A percent of the value, so that its neighbourhood is readable.
    let pad = if low == 0.0 { 1.0 } else { low.abs() * 0.01 };
    (low - pad, high + pad)
}

/// The distance between ticks: 1, 2 or 5 times a power of ten.
fn step(span: f64, wanted: usize) -> f64 {
    let rough = span / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let lead = rough / power;
    // Rounded by ratio, so that each step serves about as many spans.
    let nice = match lead {
        l if l < 1.5 => 1.0,
        l if l < 3.0 => 2.0,
        l if l < 7.0 => 5.0,
        _ => 10.0,
    };
    nice * power
}

fn linear_ticks((low, high): (f64, f64), wanted: usize) -> Vec<f64> {
    let step = step(high - low, wanted);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    // A bound for hostile numbers, whose span may be any.
    (first..=last.min(first + 100)).map(|at| at as f64 * step).collect()
}

fn logarithmic_ticks((low, high): (f64, f64), wanted: usize) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = |leads: &[f64]| -> Vec<f64> {
        let ticks = powers.clone().map(|power| 10f64.powi(power));
        let ticks = ticks.flat_map(|power| leads.iter().map(move |lead| lead * power));
        // Also the ticks exactly at the ends, which rounding may put outside.
        ticks.filter(|tick| (low * 0.9999..=high * 1.0001).contains(tick)).collect()
    };
    // Fewer leads until the ticks fit: a long axis has only powers of ten.
    let mut several = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]].into_iter().map(&ticks);
    several.find(|ticks| ticks.len() <= wanted + 1).unwrap_or_else(|| ticks(&[1.0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        for (values, wanted, ticks) in [
            ((0.0, 100.0), 5, vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
            ((70.2, 71.4), 4, vec![70.5, 71.0]),
            ((-0.03, 0.012), 4, vec![-0.03, -0.02, -0.01, 0.0, 0.01]),
        ] {
            let found = AxisScale::linear(values, (0.0, 1.0)).ticks(wanted);
            assert_eq!(found.len(), ticks.len(), "{values:?}: {found:?}");
            for (one, other) in found.iter().zip(&ticks) {
                assert!((one - other).abs() < 1e-9, "{values:?}: {found:?}");
            }
        }
    }

    #[test]
    fn a_scale_of_one_value_puts_it_in_the_middle() {
        let scale = AxisScale::linear((5.0, 5.0), (0.0, 100.0));
        assert!((scale.at(5.0) - 50.0).abs() < 1e-9);
        assert!(AxisScale::logarithmic((0.0, 0.0), (0.0, 1.0)).at(0.0).is_finite());
    }
}
