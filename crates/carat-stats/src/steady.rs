//! Whether a short series of precise readings grows steadily, asked anew after every reading.
//!
//! What a full collection would leave of a Ruby, read from outside, has neither garbage nor fragmentation in it, so a dozen
//! readings can show what memory hides for thousands of requests. What remains to be excluded is growth that ends: a warm-up,
//! a cache that fills, a logarithm, a square root. All of them slow down. So the test asks for a lower limit of the late rate
//! as a share of the early one, and for how much would have to follow if the series levelled off exponentially all the same.
//!
//! The limits are for a test that is repeated after every reading: the error of each is small enough for all together, which
//! `bin/bench stats` shows by simulation. Until a test of all looks at once is known that is exact for correlated noise, the
//! quantile is calibrated, not derived.

use crate::least_squares::Fit;
use crate::normal::t_upper_quantile;
use crate::summary::median;

/// Readings before which nothing is said.
pub const LEAST_READINGS: usize = 10;
/// One-sided error of each look at the ratio of the rates.
const LOOK_ERROR: f64 = 0.002;
/// One-sided error of each limit of a rate, and the factor of its standard error; as in `trend`.
const RATE_ERROR: f64 = 0.05;
const INFLATION: f64 = 2.0;
/// The late rate is at least this share of the early one. From the start, √x has 0.61 and a logarithm less.
const STEADY: f64 = 0.75;
/// The lower limit of the rate is at least this share of the rate.
const KNOWN_TO: f64 = 0.5;
/// What would have to follow if it levelled off is at least this share of the level.
const TO_COME: f64 = 0.25;
/// Standard errors by which the ratio of the rates may be below 1. Where it is lower, growth that ends fits better.
const BELOW: f64 = 0.7;
/// A ratio of the rates above which nothing is said to level off.
const CONSTANT: f64 = 0.999;
/// A part of the readings that may be left out as the warm-up, if the rest is long enough. Leaving out more would make √x look steady.
const WARM_UP: f64 = 0.25;
/// Growth over the series below this share of the level does not count.
const FLAT: f64 = 0.005;
/// Standard errors by which the growth exceeds that of a random walk with the same moves.
const WALK: f64 = 4.0;
/// Median absolute deviations from the neighbours at which a reading does not count: it missed a part of the heap.
const OUTLIER: f64 = 8.0;
/// Noise that every series may have, as a share of its level: what is exact otherwise is not torn where it moves.
const LEAST_NOISE: f64 = 0.0005;
/// At most one reading in this number may be left out.
const KEPT_OF: usize = 5;

/// What a series of readings shows so far. Rates are in its unit per unit of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyGrowth {
    pub class: SteadyClass,
    /// Readings that count.
    pub readings: usize,
    /// Mean rate.
    pub rate: f64,
    /// Lower and upper limit of the mean rate, each with 5 % error.
    pub interval: (f64, f64),
    /// The rates a quarter after the start and a quarter before the end.
    pub course: (f64, f64),
    /// Upper limit (5 % error) of the late rate.
    pub late_high: f64,
    /// The least growth that would have to follow if it levelled off exponentially; `None` if nothing that levels off fits.
    pub to_come: Option<f64>,
}

/// The class of a series of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyClass {
    /// It grows at a constant rate, beyond doubt.
    Steady,
    /// It grows more slowly than it did, beyond doubt.
    Slowing,
    /// It does not grow by more than matters.
    Flat,
    /// Neither is known yet.
    Open,
}

/// Judges pairs of work done and amount, in order; `None` with too few. Growth below `tolerance` per unit of work does not matter.
pub fn steady_growth(series: &[(f64, f64)], tolerance: f64) -> Option<SteadyGrowth> {
    let series = without_outliers(series)?;
    let whole = judge(&series, tolerance)?;
    // A verdict of the whole series rests on more readings than one without the warm-up.
    if whole.class == SteadyClass::Steady {
        return Some(whole);
    }
    let settled = settled(&series).and_then(|rest| judge(rest, tolerance));
    Some(settled.filter(|rest| rest.class == SteadyClass::Steady).unwrap_or(whole))
}

/// The readings after the warm-up, if there are enough.
fn settled(series: &[(f64, f64)]) -> Option<&[(f64, f64)]> {
    // A quarter of the work, not of the readings: their distance may vary.
    let (first, last) = (series.first()?.0, series.last()?.0);
    let from = series.partition_point(|point| point.0 < first + WARM_UP * (last - first));
    Some(&series[from..]).filter(|rest| rest.len() >= LEAST_READINGS)
}

fn judge(series: &[(f64, f64)], tolerance: f64) -> Option<SteadyGrowth> {
    let curve = Curve::fit(series)?;
    // The parabola's errors hold for one look; a single run needs twice as much (see `trend`).
    let level = median(&series.iter().map(|point| point.1).collect::<Vec<f64>>())?.abs();
    let quantile = INFLATION * t_upper_quantile(RATE_ERROR, curve.freedom);
    let half = quantile * curve.rate_error;
    let (early, late) = (curve.rate_at(0.25), curve.rate_at(0.75));
    let late_half = quantile * curve.error_at(0.75);
    let mut found = SteadyGrowth {
        class: SteadyClass::Open,
        readings: series.len(),
        rate: curve.rate,
        interval: (curve.rate - half, curve.rate + half),
        course: (early, late),
        late_high: late + late_half,
        to_come: curve.to_come(),
    };
    // The growth that was seen must matter too, not only the rate of it.
    let grown = curve.rate * curve.length;
    let follows = found.to_come.is_none_or(|least| least >= TO_COME * level);
    let grows = grown >= FLAT * level && found.interval.0 > tolerance;
    let known = found.interval.0 >= KNOWN_TO * curve.rate && walk_score(series) >= WALK;
    found.class = if grows && known && follows && curve.is_steady() {
        SteadyClass::Steady
    } else if found.late_high < tolerance || found.interval.1 * curve.length < FLAT * level {
        SteadyClass::Flat
    } else if grows && curve.is_ratio_below(1.0) {
        SteadyClass::Slowing
    } else {
        SteadyClass::Open
    };
    Some(found)
}

/// The readings that count; `None` where too few or too many are left out. A reading of a Ruby that runs can miss a part.
fn without_outliers(series: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let mut rising: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in series.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
        // Two readings at one position would make a slope infinite.
        if rising.last().is_none_or(|last| x > last.0) {
            rising.push((x, y));
        }
    }
    if rising.len() < LEAST_READINGS {
        return None;
    }
    let apart: Vec<f64> = (0..rising.len()).map(|i| distance(&rising, i)).collect();
    let level = median(&rising.iter().map(|point| point.1.abs()).collect::<Vec<f64>>())?;
    // Exact series, such as counts that never move, have no noise by which to measure.
    let usual = median(&apart)?.max(LEAST_NOISE * level);
    let counts = apart.iter().map(|&apart| apart <= OUTLIER * usual);
    let kept: Vec<(f64, f64)> =
        rising.iter().zip(counts).filter(|(_, counts)| *counts).map(|(point, _)| *point).collect();
    let left_out = rising.len() - kept.len();
    // Many left out are not torn readings but a series that this test does not understand.
    (left_out * KEPT_OF <= rising.len() && kept.len() >= LEAST_READINGS).then_some(kept)
}

/// How far a reading is from the straight line through the medians around it: its three neighbours on each side.
fn distance(series: &[(f64, f64)], i: usize) -> f64 {
    // At both ends the seven nearest, so that the first and the last reading are judged too.
    let from = i.saturating_sub(3).min(series.len() - 7);
    let near: Vec<(f64, f64)> =
        (from..from + 7).filter(|&other| other != i).map(|other| series[other]).collect();
    let slopes: Vec<f64> = near
        .iter()
        .enumerate()
        .flat_map(|(at, a)| near[at + 1..].iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)))
        .collect();
    let slope = median(&slopes).unwrap_or(0.0);
    // Medians on both steps: another torn reading nearby must not move the line.
    let levels: Vec<f64> = near.iter().map(|(x, y)| y + slope * (series[i].0 - x)).collect();
    (series[i].1 - median(&levels).unwrap_or(series[i].1)).abs()
}

/// Growth in standard errors of a random walk whose steps have the variance of the series'.
fn walk_score(series: &[(f64, f64)]) -> f64 {
    let [first, .., last] = series else { return 0.0 };
    let (length, grown) = (last.0 - first.0, last.1 - first.1);
    let rate = grown / length;
    let moves = series.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1));
    let sum: f64 = moves.map(|(dx, dy)| (dy - rate * dx).powi(2) / dx).sum();
    // The mean rate is estimated from the same moves, which costs one more degree of freedom.
    let variance = sum / (series.len() - 2) as f64;
    grown / (variance * length).sqrt().max(f64::EPSILON)
}

/// A parabola through the readings: its mean rate and how the rate changes, which do not correlate.
struct Curve {
    /// Work from the first reading to the last.
    length: f64,
    rate: f64,
    rate_error: f64,
    /// Change of the rate over half the series, and its error; the rate at place u is `rate + bend·(2u − middle)`.
    bend: f64,
    bend_error: f64,
    middle: f64,
    freedom: f64,
    /// Quantile for the limits of a ratio.
    quantile: f64,
}

impl Curve {
    fn fit(series: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (series.first()?.0, series.last()?.0);
        let length = last - first;
        let u: Vec<f64> = series.iter().map(|(x, _)| (x - first) / length).collect();
        let n = u.len() as f64;
        let mean = u.iter().sum::<f64>() / n;
        let squares = u.iter().map(|u| u * u).sum::<f64>() / n;
        let linear: Vec<f64> = u.iter().map(|u| u - mean).collect();
        let spread: f64 = linear.iter().map(|d| d * d).sum();
        let middle = u.iter().zip(&linear).map(|(u, d)| u * u * d).sum::<f64>() / spread;
        // Orthogonal to line and level, so that the errors of rate and bend do not correlate.
        let curved = u.iter().zip(&linear).map(|(u, d)| u * u - squares - middle * d).collect();
        let y: Vec<f64> = series.iter().map(|point| point.1).collect();
        let fit = Fit::new(&[vec![1.0; u.len()], linear, curved], &y)?;
        let inflation = correlation_factor(&fit.residuals);
        Some(Self {
            length,
            rate: fit.coefficients[1] / length,
            rate_error: inflation * fit.error(1) / length,
            bend: fit.coefficients[2] / length,
            bend_error: inflation * fit.error(2) / length,
            middle,
            freedom: fit.freedom(),
            quantile: t_upper_quantile(LOOK_ERROR, fit.freedom()),
        })
    }

    fn rate_at(&self, u: f64) -> f64 {
        self.rate + self.bend * (2.0 * u - self.middle)
    }

    fn error_at(&self, u: f64) -> f64 {
        self.rate_error.hypot(self.bend_error * (2.0 * u - self.middle))
    }

    /// By how many standard errors the late rate exceeds this share of the early one.
    fn score(&self, share: f64) -> f64 {
        // late − share·early as a combination of rate and bend: a difference has a normal error.
        let factor = (1.5 - self.middle) - share * (0.5 - self.middle);
        let excess = self.rate * (1.0 - share) + self.bend * factor;
        let error = (self.rate_error * (1.0 - share)).hypot(self.bend_error * factor);
        excess / error.max(f64::MIN_POSITIVE)
    }

    fn is_ratio_above(&self, share: f64) -> bool {
        // A share of a rate that may be negative has no meaning.
        self.rate_at(0.25) > 0.0 && self.score(share) > self.quantile
    }

    fn is_steady(&self) -> bool {
        self.is_ratio_above(STEADY) && self.score(1.0) > -BELOW
    }

    fn is_ratio_below(&self, share: f64) -> bool {
        self.score(share) < -self.quantile
    }

    /// The least that would follow an exponential that levels off and fits: its rate falls from a quarter to three quarters
    /// of the series by the lower limit of the ratio.
    fn to_come(&self) -> Option<f64> {
        let (mut low, mut high) = (0.0, CONSTANT);
        // Constant growth beyond doubt: no exponential that ends fits.
        if self.is_ratio_above(high) {
            return None;
        }
        for _ in 0..40 {
            let share = 0.5 * (low + high);
            if self.is_ratio_above(share) {
                low = share;
            } else {
                high = share;
            }
        }
        // exp(−half the length / constant) = ratio, solved for the time constant.
        let constant = 0.5 * self.length / -low.max(1e-9).ln();
        // An exponential still goes its rate times its constant; noise must not make it negative.
        Some(self.rate_at(1.0).clamp(0.0, self.rate.max(0.0)) * constant)
    }
}

/// By which factor serial correlation makes standard errors larger, with the first autocorrelation corrected for the bias that a parabola leaves.
fn correlation_factor(residuals: &[f64]) -> f64 {
    let together: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    // A perfect fit leaves no residuals to divide by.
    let alone: f64 = residuals.iter().map(|e| e * e).sum();
    let raw = together / alone.max(f64::MIN_POSITIVE);
    // 0.9 keeps the factor finite; beyond it the series is too short for any answer.
    let corrected = (raw + (3.0 + 6.0 * raw.max(0.0)) / residuals.len() as f64).clamp(0.0, 0.9);
    ((1.0 + corrected) / (1.0 - corrected)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{KeptShape, SeededRng, SimulatedReadings};

    /// The share of 40 runs that were called steady at any look within so much work.
    fn called(simulated: SimulatedReadings, work: f64) -> f64 {
        let mut rng = SeededRng::new(61);
        let number = (work / simulated.apart) as usize;
        let is_called = |series: &[(f64, f64)]| {
            (LEAST_READINGS..=series.len()).any(|n| {
                steady_growth(&series[..n], 0.1).is_some_and(|one| one.class == SteadyClass::Steady)
            })
        };
        (0..40).filter(|_| is_called(&simulated.run(number, &mut rng))).count() as f64 / 40.0
    }

    #[test]
    fn growth_that_ends_is_not_called_steady_however_often_one_looks() {
        for shape in [
            KeptShape::Flat,
            KeptShape::Saturating { size: 3e3, length: 500.0 },
            KeptShape::Saturating { size: 6e3, length: 5e3 },
            KeptShape::Saturating { size: 30e3, length: 2e3 },
            KeptShape::Logarithm { size: 1e3, length: 200.0 },
            KeptShape::Root { size: 100.0 },
            KeptShape::Stairs { size: 1e3, length: 1e3 },
            KeptShape::Walk { size: 500.0, length: 1e3 },
        ] {
            for noise in [18.0, 200.0] {
                let small = SimulatedReadings::small(shape, 0.0, 125.0);
                let share = called(SimulatedReadings { noise, ..small }, 10e3);
                assert!(share <= 0.05, "{shape:?}, noise {noise}: {share}");
            }
        }
    }

    #[test]
    fn an_object_kept_by_each_request_is_found_within_3_000_requests_of_a_small_app() {
        let leak = SimulatedReadings::small(KeptShape::Flat, 1.0, 125.0);
        assert!(called(leak, 3e3) >= 0.9);
        let warm = KeptShape::Saturating { size: 3e3, length: 500.0 };
        let after_a_warm_up = SimulatedReadings::small(warm, 1.0, 125.0);
        assert!(called(after_a_warm_up, 12e3) >= 0.8);
    }

    #[test]
    fn series_without_noise_are_classified_exactly() {
        let of = |amount: fn(f64) -> f64| {
            let series: Vec<(f64, f64)> =
                (1..=40).map(|i| f64::from(i) * 100.0).map(|x| (x, amount(x))).collect();
            steady_growth(&series, 0.1).unwrap()
        };
        let leak = of(|x| 36e3 + 2.0 * x);
        assert_eq!((leak.class, leak.readings, leak.to_come), (SteadyClass::Steady, 40, None));
        assert!((leak.rate - 2.0).abs() < 1e-6, "{leak:?}");
        let cache = of(|x| 36e3 + 15e3 * (1.0 - (-x / 15e3).exp()));
        assert_eq!(cache.class, SteadyClass::Slowing, "{cache:?}");
        let left = 15e3 * (-4e3_f64 / 15e3).exp();
        assert!((cache.to_come.unwrap() / left - 1.0).abs() < 0.1, "{cache:?}, {left} are left");
        assert_eq!(of(|x| 36e3 + 50.0 * x.sqrt()).class, SteadyClass::Slowing);
        assert_eq!(of(|_| 36e3).class, SteadyClass::Flat);
        let small: Vec<(f64, f64)> =
            (1..=40).map(|i| f64::from(i) * 100.0).map(|x| (x, 36e3 + 2.0 * x)).collect();
        assert_eq!(
            steady_growth(&small, 3.0).unwrap().class,
            SteadyClass::Flat,
            "it does not matter"
        );
        assert_eq!(of(|x| 36e3 - x).class, SteadyClass::Flat, "it falls");
    }

    /// Products of neighbours 103, squares 280; (0.36786 + (3 + 6·0.36786)/60) = 0.45464.
    #[test]
    fn errors_are_larger_by_the_factor_of_the_first_autocorrelation() {
        let residuals = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0].repeat(10);
        let factor = correlation_factor(&residuals);
        assert!((factor - 1.633_194).abs() < 1e-5, "{factor}");
    }

    #[test]
    fn a_reading_that_missed_a_part_does_not_count_and_few_readings_say_nothing() {
        let mut series: Vec<(f64, f64)> = (1..=20).map(f64::from).map(|x| (x, 1e3 + x)).collect();
        for (i, point) in series.iter_mut().enumerate() {
            point.1 += 0.01 * f64::from(u32::try_from(i * 7919 % 13).unwrap());
        }
        series[4].1 = 600.0;
        let found = steady_growth(&series, 0.1).unwrap();
        assert_eq!((found.class, found.readings), (SteadyClass::Steady, 19), "{found:?}");
        series.iter_mut().step_by(3).for_each(|point| point.1 = 500.0);
        let torn = steady_growth(&series, 0.1);
        assert!(torn.is_none_or(|one| one.class != SteadyClass::Steady), "seven of twenty");
        assert_eq!(steady_growth(&series[..7], 0.1), None);
        assert_eq!(steady_growth(&[(1.0, 1.0); 20], 0.1), None, "no work was done");
        assert_eq!(steady_growth(&[(f64::NAN, 1.0); 20], 0.1), None);
    }
}
