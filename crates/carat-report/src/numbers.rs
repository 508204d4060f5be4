//! How numbers are written. The terminal, the page, Markdown and the command line all format numbers here.
//!
//! Values with a unit print themselves ([`Bytes`], [`Unit::show`]); this module adds shares, estimates with their
//! intervals, counts, durations, and the numbers of an axis.

use crate::facts;
use carat_model::{
    Better, Bytes, Conclusion, Estimate, Results, Role, Unit, counted, metric, with_minus,
};
pub use carat_model::{count, grouped};
use std::fmt::Display;
use std::time::Duration;

/// A share in percent: `12.3 %`.
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", share * 100.0)
}

/// The share of `total` that `bytes` are, in percent.
pub fn percent_of(bytes: f64, total: Bytes, decimals: usize) -> String {
    format!("{:.decimals$} %", 100.0 * bytes / total.0.max(1) as f64)
}

/// A margin or a limit as it was given, without trailing zeros: `0.25 %`.
pub fn limit(share: f64) -> String {
    // A limit of 0.07 is not exact in binary, and must print as it was given.
    let rounded = (share * 1e6).round() / 1e4;
    format!("{rounded} %")
}

/// The limit of a guard with the sign of a worsening: `+10 %`; `None` for what is no guard.
pub(crate) fn guard_limit(conclusion: &Conclusion) -> Option<String> {
    let Role::Guard { limit: share } = conclusion.role else { return None };
    let known = metric::find(&conclusion.metric);
    let sign = if known.is_some_and(|one| one.better == Better::Higher) { "−" } else { "+" };
    Some(format!("{sign}{}", limit(share)))
}

/// The value, or a question mark if it is unknown.
pub fn or_question_mark(value: Option<impl Display>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// The value, or a dash if it is unknown, as tables of a page have it.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

/// A count with commas between thousands and with its noun: `1 object`, `3,000 objects`.
pub fn grouped_count(number: u64, noun: &str) -> String {
    format!("{} {}", grouped(number), counted(&number, noun))
}

/// How many there are beyond the first `most`, with their noun; `None` if there are no more.
pub(crate) fn beyond(all: usize, most: usize, noun: &str) -> Option<String> {
    let more = all.saturating_sub(most) as u64;
    (more > 0).then(|| grouped_count(more, noun))
}

/// A difference with its sign and unit.
pub fn signed(unit: Unit, difference: f64) -> String {
    let size = unit.show(difference.abs());
    if difference < 0.0 { format!("−{size}") } else { format!("+{size}") }
}

/// A difference of whole numbers with its sign; nothing has none.
pub(crate) fn signed_integer(difference: i128, show: impl Fn(u64) -> String) -> String {
    // Wider than 64 bits only in a hostile file.
    let size = u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX);
    let sign = match difference {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", show(size))
}

/// Two amounts of bytes in the unit of the larger: `42.8 → 6.0 MB`, `3.02 → 2.31 MB`.
pub fn bytes_change(from: f64, to: f64) -> String {
    let scale = BytesScale::of(from.abs().max(to.abs()));
    format!("{} → {} {}", scale.number(from), scale.number(to), scale.axis.name)
}

/// An amount of bytes: `40.2 MB`.
pub fn short_bytes(bytes: f64) -> String {
    let scale = BytesScale::of(bytes.abs());
    format!("{} {}", scale.number(bytes), scale.axis.name)
}

/// A difference of bytes with its sign, in the unit of an amount of that size: `−36.8 MB`.
pub fn signed_bytes(difference: f64, size: f64) -> String {
    let scale = BytesScale::of(size.abs().max(difference.abs()));
    format!("{} {}", with_sign(difference, scale.number(difference.abs())), scale.axis.name)
}

/// A size with the sign of the difference. Rounded to zero it has none: `+0.0` would claim a direction.
fn with_sign(difference: f64, size: String) -> String {
    let is_zero = !size.contains(|c: char| matches!(c, '1'..='9'));
    if difference > 0.0 && !is_zero { format!("+{size}") } else { with_minus(difference, size) }
}

/// How amounts of bytes of one size are written in a sentence: one unit, three digits at least.
struct BytesScale {
    axis: AxisUnit,
    decimals: usize,
}

impl BytesScale {
    fn of(size: f64) -> Self {
        let axis = AxisUnit::of(Unit::Bytes, size);
        let decimals = match axis.divisor {
            // Bytes have no fractions.
            one if one <= 1.0 => 0,
            // Three digits at least: 9.87 MB, but 98.7 MB.
            _ if size < 10.0 * axis.divisor => 2,
            _ => 1,
        };
        Self { axis, decimals }
    }

    fn number(&self, bytes: f64) -> String {
        number(bytes / self.axis.divisor, self.decimals)
    }
}

/// Said once in every text and page with amounts of memory.
pub const UNITS: &str = "MB are 10⁶ bytes; ps shows KiB (1,024 bytes), so 100 MB are 97,656 there.";

/// Milliseconds as seconds.
pub fn seconds(at_ms: u64) -> f64 {
    at_ms as f64 / 1e3
}

/// A duration with about two digits, whatever its size.
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => Unit::Seconds.show(short),
        few if few < 10.0 => format!("{few:.1} s"),
        some if some < 120.0 => format!("{some:.0} s"),
        few if few < 600.0 => format!("{:.1} min", few / 60.0),
        some if some < 7200.0 => format!("{:.0} min", some / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

/// The time left, as coarse as a waiting user needs it.
pub fn time_left(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5400 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// How the values of an estimate are written: in percent of the baseline, or in the unit of the metric.
struct EstimateStyle<'a> {
    metric: &'a str,
    /// Decimals of the percentages; `None` for the unit of the metric.
    decimals: Option<usize>,
}

impl<'a> EstimateStyle<'a> {
    /// With the decimals that the width of the interval justifies.
    fn of(metric: &'a str, estimate: &Estimate) -> Self {
        // The interval says how well the number is known; more digits would be invented.
        let width = (estimate.ratio_interval.1 - estimate.ratio_interval.0) * 100.0;
        let decimals = match width.abs() {
            wide if wide >= 3.0 => 0,
            wide if wide >= 0.3 => 1,
            _ => 2,
        };
        Self { metric, decimals: (!estimate.in_own_unit).then_some(decimals) }
    }

    /// A value without its sign.
    fn size(&self, value: f64) -> String {
        match (self.decimals, facts::unit(self.metric)) {
            (Some(decimals), _) => format!("{:.decimals$}", (value * 100.0).abs()),
            // A typical count lies between whole numbers.
            (None, Unit::Count) if value.fract() != 0.0 => format!("{:.1}", value.abs()),
            (None, unit) => unit.show(value.abs()),
        }
    }

    fn signed(&self, value: f64) -> String {
        with_sign(value, self.size(value))
    }

    /// What follows the last value. A difference between shares is in percentage points, any other in percent of the baseline.
    fn unit(&self) -> &'static str {
        match (self.decimals, facts::unit(self.metric)) {
            (None, _) => "",
            (Some(_), Unit::Fraction) => " points",
            (Some(_), _) => " %",
        }
    }
}

/// An estimate with its interval: `−21 % (−24 to −18 %)`.
pub fn estimate(metric: &str, estimate: &Estimate) -> String {
    format!("{} ({})", change(metric, estimate), interval(metric, estimate))
}

/// An estimate without its interval: `−21 %`.
pub fn change(metric: &str, estimate: &Estimate) -> String {
    let style = EstimateStyle::of(metric, estimate);
    style.signed(estimate.ratio) + style.unit()
}

/// An estimate and its interval without the unit, which the estimate has: `−21 %` and `−24 to −18`.
pub(crate) fn change_and_interval(metric: &str, estimate: &Estimate) -> (String, String) {
    let style = EstimateStyle::of(metric, estimate);
    let (low, high) = estimate.ratio_interval;
    (change(metric, estimate), format!("{} to {}", style.signed(low), style.signed(high)))
}

/// A difference of one block, or a median of such: `−2.1 %`.
pub fn single_change(metric: &str, ratio: f64) -> String {
    block_difference(metric, ratio, false)
}

/// The same; in the unit of the metric where its baseline has zeros, of which nothing is a percentage: `+2`.
pub(crate) fn block_difference(metric: &str, difference: f64, in_own_unit: bool) -> String {
    let style = EstimateStyle { metric, decimals: (!in_own_unit).then_some(1) };
    style.signed(difference) + style.unit()
}

/// The interval alone: `−24 to −18 %`.
pub fn interval(metric: &str, estimate: &Estimate) -> String {
    change_and_interval(metric, estimate).1 + EstimateStyle::of(metric, estimate).unit()
}

/// The size of an estimate without its sign: `21 %`.
pub fn magnitude(metric: &str, estimate: &Estimate) -> String {
    let style = EstimateStyle::of(metric, estimate);
    style.size(estimate.ratio) + style.unit()
}

/// The interval of a magnitude: `18 to 24 %`; with signs if it includes zero.
pub fn magnitude_interval(metric: &str, estimate: &Estimate) -> String {
    // Without signs an interval around zero would look like one beside it.
    if includes_zero(estimate) {
        return interval(metric, estimate);
    }
    let style = EstimateStyle::of(metric, estimate);
    let (low, high) = estimate.ratio_interval;
    // A magnitude runs from near zero to far from it, whichever sign it has.
    let (near, far) = if high < 0.0 { (high, low) } else { (low, high) };
    format!("{} to {}{}", style.size(near), style.size(far), style.unit())
}

/// Whether an estimate's interval includes zero.
pub fn includes_zero(estimate: &Estimate) -> bool {
    estimate.ratio_interval.0 <= 0.0 && estimate.ratio_interval.1 >= 0.0
}

/// The confidence of the intervals of the primary metric, controls included: one level, or the lowest and the highest.
pub fn primary_level(results: &Results) -> Option<String> {
    let with_controls = results.controls.iter().map(|compared| &compared.conclusion);
    let all = results.conclusions.iter().chain(with_controls);
    let primaries = all.filter(|conclusion| conclusion.role == Role::Primary);
    let levels = primaries.filter_map(|conclusion| Some(conclusion.estimate?.confidence));
    let mut levels: Vec<f64> = levels.collect();
    levels.sort_by(f64::total_cmp);
    let (lowest, highest) = (percent(*levels.first()?, 0), percent(*levels.last()?, 0));
    if lowest == highest { Some(lowest) } else { Some(format!("{lowest} to {highest}")) }
}

/// How the numbers of an axis are written: divided, with one unit for the whole axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisUnit {
    /// Values are divided by this.
    pub divisor: f64,
    /// The name printed at the axis.
    pub name: &'static str,
}

impl AxisUnit {
    /// Numbers as they are, without a unit.
    pub const NONE: Self = Self { divisor: 1.0, name: "" };

    /// The unit that suits the largest value of an axis.
    pub fn of(unit: Unit, largest: f64) -> Self {
        let largest = largest.abs();
        let (divisor, name) = match unit {
            Unit::Bytes if largest >= 1e10 => (1e9, "GB"),
            Unit::Bytes if largest >= 1e6 => (1e6, "MB"),
            Unit::Bytes if largest >= 1e4 => (1e3, "kB"),
            Unit::Bytes => (1.0, "bytes"),
            Unit::Seconds if largest < 1e-3 => (1e-6, "µs"),
            Unit::Seconds if largest < 1.0 => (1e-3, "ms"),
            Unit::Seconds => (1.0, "s"),
            Unit::PerSecond => (1.0, "per second"),
            Unit::Fraction => (0.01, "%"),
            Unit::Ratio => (1.0, "×"),
            Unit::Count => (1.0, ""),
        };
        Self { divisor, name }
    }

    /// For the page's script: the divisor and the name.
    pub fn unit_json(&self) -> serde_json::Value {
        serde_json::json!([self.divisor, self.name])
    }

    /// The number at a tick, with the decimals that the distance between ticks requires.
    pub fn tick(&self, value: f64, distance: f64) -> String {
        let distance = (distance / self.divisor).abs();
        let decimals = if distance > 0.0 { tick_decimals(distance, 6.0) } else { 2 };
        number(value / self.divisor, decimals)
    }
}

/// The number at a tick of an axis of differences in percent, with its sign.
pub fn percent_tick(share: f64, distance: f64) -> String {
    let distance = distance * 100.0;
    let decimals = if distance > 0.0 { tick_decimals(distance, 3.0) } else { 1 };
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", number(share * 100.0, decimals))
}

fn tick_decimals(distance: f64, most: f64) -> usize {
    // As many decimals as the step between two ticks has.
    (-distance.log10().floor()).clamp(0.0, most) as usize
}

/// A number for a tick of a logarithmic axis: as many decimals as its first digit needs.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1.0 || v == 0.0 => 0,
        v => (-v.log10().floor()).min(6.0) as usize,
    };
    number(value, decimals)
}

/// A number with that many decimals and narrow spaces between thousands.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        // Four digits are readable without a gap.
        if at > 0 && (whole.len() - at) % 3 == 0 && whole.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    with_minus(value, out + rest)
}

/// A value with six significant digits, for the page's script: short and precise enough to display.
pub fn rounded(value: f64) -> serde_json::Number {
    // Six digits are finer than a pixel, and shorter by half.
    let short: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    // Whole numbers without `.0`; above 10¹⁵ they are no longer exact.
    if short.fract() == 0.0 && short.abs() < 1e15 {
        return serde_json::Number::from(short as i64);
    }
    serde_json::Number::from_f64(short).unwrap_or_else(|| serde_json::Number::from(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_estimate_has_as_many_digits_as_its_interval_justifies() {
        for (metric, (low, ratio, high), text) in [
            ("memory.pss.final", (-0.24, -0.212, -0.18), "−21 % (−24 to −18 %)"),
            ("memory.pss.final", (-0.0096, -0.008, -0.0064), "−0.8 % (−1.0 to −0.6 %)"),
            ("latency.p95", (-0.02, 0.0, 0.02), "0 % (−2 to +2 %)"),
            ("errors", (0.01, 0.02, 0.05), "+2 points (+1 to +5 points)"),
        ] {
            assert_eq!(estimate(metric, &testing::estimate(low, ratio, high)), text);
        }
    }

    #[test]
    fn a_difference_to_a_baseline_with_zeros_is_in_the_unit_of_the_metric_and_no_percentage() {
        for (id, (low, typical, high), whole, size) in [
            ("gc.count", (1.0, 2.0, 3.0), "+2 (+1 to +3)", "2 (1 to 3)"),
            ("gc.count", (-3.0, -1.5, -1.0), "−1.5 (−3 to −1)", "1.5 (1 to 3)"),
            ("gc.count", (0.0, 0.0, 1.0), "0 (0 to +1)", "0 (0 to +1)"),
            (
                "gc.time",
                (0.001, 0.002, 1.5),
                "+2.00 ms (+1.00 ms to +1.50 s)",
                "2.00 ms (1.00 ms to 1.50 s)",
            ),
        ] {
            let found = Estimate {
                in_own_unit: true,
                difference: typical,
                difference_interval: (low, high),
                ..testing::estimate(low, typical, high)
            };
            assert_eq!(estimate(id, &found), whole);
            let (amount, interval) = (magnitude(id, &found), magnitude_interval(id, &found));
            assert_eq!(format!("{amount} ({interval})"), size);
        }
    }

    #[test]
    fn a_change_of_bytes_has_one_unit() {
        for (from, to, text) in [
            (42.8e6, 6.0e6, "42.8 → 6.0 MB"),
            (3.02e6, 2.31e6, "3.02 → 2.31 MB"),
            (0.0, 12_000.0, "0.0 → 12.0 kB"),
            (-2e6, 2.5e6, "−2.00 → 2.50 MB"),
            (0.0, 640.0, "0 → 640 bytes"),
        ] {
            assert_eq!(bytes_change(from, to), text);
        }
        for (difference, size, text) in [
            (-36.84e6, 42.8e6, "−36.8 MB"),
            (12e3, 42.8e6, "0.0 MB"),
            (12e3, 0.0, "+12.0 kB"),
            (0.0, 0.0, "0 bytes"),
        ] {
            assert_eq!(signed_bytes(difference, size), text);
        }
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (50, "50"), (3000, "3,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_limit_is_written_as_it_was_given() {
        assert_eq!(limit(0.0025), "0.25 %");
        assert_eq!(limit(0.05), "5 %");
    }

    #[test]
    fn an_axis_has_one_unit_and_the_digits_its_ticks_need() {
        let axis = AxisUnit::of(Unit::Bytes, 71e6);
        assert_eq!((axis.name, axis.tick(70.5e6, 0.5e6).as_str()), ("MB", "70.5"));
        assert_eq!(number(-12_345.6, 0), "−12\u{202f}346");
        assert_eq!(number(-0.04, 1), "0.0");
    }

    #[test]
    fn the_time_left_is_coarse() {
        for (seconds, text) in [(5, "5 s"), (89, "89 s"), (150, "3 min"), (7200, "2.0 h")] {
            assert_eq!(time_left(Duration::from_secs(seconds)), text);
        }
    }
}
