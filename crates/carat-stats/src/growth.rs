//! Classifies a growing series: flat, levelling off, linear, stepwise, or undecided.
//!
//! Fragmentation grows like the logarithm of the work done, a leak like the work itself. Over one
//! doubling of the work the two look alike; over three they do not. Therefore a series is judged from
//! an eighth of its length on, against *work* (requests) rather than time. The amount may be anything:
//! bytes of the process, live slots, malloc live, malloc free.

use crate::summary::median;
use crate::trend::{Binned, Trend, bin_of};

/// Numbers of bins to try, finest first; the first that leaves no gap is used.
const BINS: [usize; 5] = [64, 48, 32, 24, 16];
/// Growth over the last half below this share of the level does not count.
const FLAT: f64 = 0.005;
/// A leak's rate over the last doubling is at least this share of the rate over the one before: √x
/// gives 0.71, a logarithm 0.5.
const STEADY: f64 = 0.7;
/// The lower limit of a leak's rate is at least this share of the rate. Free memory of malloc creeps up for
/// tens of thousands of requests; over so short a run its rate may exceed the tolerance, but it is hardly known.
const KNOWN_TO: f64 = 0.5;
/// Below this share growth is slowing.
const SLOWING: f64 = 0.6;

/// The class of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrowthClass {
    /// The last half grew by less than matters.
    Flat,
    /// It grows more and more slowly.
    LevellingOff,
    /// It grows by a constant amount per request, above the tolerance.
    Linear,
    /// One jump, and no other growth that matters.
    Stepwise,
    /// The series is too short or too noisy.
    Undecided,
}

/// The classification of a series; rates are in its own unit per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    pub class: GrowthClass,
    /// Requests over which it was observed.
    pub requests: f64,
    /// Amount per request, beside a logarithmic part; `None` where the series is too short to fit.
    pub rate: Option<f64>,
    /// Lower and upper limit of the rate, each with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Upper limit (5 % error) of the linear rate over the second half, without extrapolation.
    pub at_most: Option<f64>,
    /// Size of the dominant jump.
    pub step: Option<f64>,
    /// Whether it oscillates around its trend, as memory does that is returned to the kernel.
    pub oscillating: bool,
    /// Where undecided: total requests that would probably decide.
    pub needed: Option<f64>,
}

/// Classifies `series`: pairs of the requests served so far and the amount at that moment, in order.
///
/// A rate below `tolerance` (in the unit of the amount, per request) does not matter. Sources and
/// simulated error rates are in `docs/explanation/method.md`.
pub fn classify(series: &[(f64, f64)], tolerance: f64) -> Growth {
    // The logarithmic shape has no value at zero work, where samples of the boot lie.
    let finite = series.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
    let series: Vec<(f64, f64)> = finite.filter(|&(x, _)| x > 0.0).collect();
    let requests = series.last().map_or(0.0, |last| last.0);
    let fitted = BINS.into_iter().find_map(|bins| FittedSeries::new(&series, bins, tolerance));
    let Some(fitted) = fitted else {
        return Growth {
            class: GrowthClass::Undecided,
            requests,
            rate: None,
            interval: None,
            at_most: None,
            step: None,
            oscillating: false,
            // Nothing is known of its course, so twice as long is a guess and not a bound.
            needed: (requests > 0.0).then_some(2.0 * requests),
        };
    };
    let jump = fitted.dominant_jump();
    let without_jump = jump.and_then(|_| fitted.without_jump());
    // A single step is no leak: the rate that is judged is the one beside it.
    let judged = without_jump.as_ref().unwrap_or(&fitted);
    let class = judged.class(jump.is_some());
    Growth {
        class,
        requests,
        rate: Some(judged.trend.rate),
        interval: Some(judged.trend.limits),
        at_most: Some(judged.trend.late_high),
        step: jump,
        oscillating: fitted.oscillates(),
        needed: (class == GrowthClass::Undecided).then(|| judged.needed(requests)),
    }
}

/// A series with its bins and its trend.
struct FittedSeries {
    series: Vec<(f64, f64)>,
    bins: Binned,
    trend: Trend,
    tolerance: f64,
}

impl FittedSeries {
    fn new(series: &[(f64, f64)], bins: usize, tolerance: f64) -> Option<Self> {
        let bins = Binned::new(series, bins)?;
        let trend = bins.trend()?;
        Some(Self { series: series.to_vec(), bins, trend, tolerance })
    }

    fn class(&self, jumped: bool) -> GrowthClass {
        if self.leaks() {
            return GrowthClass::Linear;
        }
        if self.trend.late_high < self.tolerance {
            return match self.late_growth() {
                _ if jumped && self.stays_level() => GrowthClass::Stepwise,
                _ if jumped => GrowthClass::LevellingOff,
                Some(growth) if growth < FLAT => GrowthClass::Flat,
                _ => GrowthClass::LevellingOff,
            };
        }
        // Slower growth alone is no end: the ceiling must also leave no room for a leak.
        let slowing = self.bins.doublings().is_some_and(|(early, late)| late < SLOWING * early);
        if slowing && self.trend.ceiling < self.tolerance {
            return GrowthClass::LevellingOff;
        }
        GrowthClass::Undecided
    }

    /// Whether the rate is well known and exceeds the tolerance by every measure, also without the largest jump.
    fn leaks(&self) -> bool {
        // A leak goes on as it began. This is what a logarithm and √x fail.
        let steady = self.bins.doublings().is_some_and(|(early, late)| late >= STEADY * early);
        let known = self.trend.limits.0 >= KNOWN_TO * self.trend.rate;
        known
            && self.trend.limits.0 > self.tolerance
            && self.trend.late > self.tolerance
            && steady
            // A rate that rests on one jump is that jump, which need not come again.
            && self.without_jump().is_some_and(|rest| rest.trend.limits.0 > self.tolerance)
    }

    /// The largest rise between neighbouring bins, and the bin before it.
    fn largest_rise(&self) -> Option<(usize, f64)> {
        let settled = self.bins.end() / 8.0;
        let rises = self.bins.y.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
        rises.filter(|&(i, _)| self.bins.x[i + 1] >= settled).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn without_jump(&self) -> Option<Self> {
        let (before, rise) = self.largest_rise()?;
        let (end, bins) = (self.series.last()?.0, self.bins.cut);
        // Bins are numbered from the start of the series, the fitted ones from the first kept.
        let before = before + self.bins.skipped;
        let lowered: Vec<(f64, f64)> = self
            .series
            .iter()
            .map(|&(x, y)| (x, if bin_of(x, end, bins) > before { y - rise } else { y }))
            .collect();
        Self::new(&lowered, bins, self.tolerance)
    }

    /// Whether it rises by no more than does not count from an eighth of its length on, and not only over the last half.
    fn stays_level(&self) -> bool {
        let settled = self.bins.since(self.bins.end() / 8.0).y;
        // Four bins each, as in the last half.
        let (first, last) = (settled.first_chunk::<4>(), settled.last_chunk::<4>());
        let ends = first.and_then(|bins| median(bins)).zip(last.and_then(|bins| median(bins)));
        ends.is_some_and(|(first, last)| last - first < FLAT * last)
    }

    /// The largest jump, if it is most of the rise, and if the level stays higher.
    fn dominant_jump(&self) -> Option<f64> {
        let (before, jump) = self.largest_rise()?;
        let (lower, upper) = self.bins.y.split_at(before + 1);
        if median(upper)? - median(lower)? < 0.5 * jump {
            return None;
        }
        let settled = self.bins.since(self.bins.end() / 8.0);
        let (first, last) = (*settled.y.first()?, *settled.y.last()?);
        let moves: Vec<f64> = settled.y.windows(2).map(|p| (p[1] - p[0]).abs()).collect();
        // Half of the rise alone would call the largest of many equal slabs a jump.
        (jump > 0.5 * (last - first) && jump > 6.0 * median(&moves)? && jump > FLAT * last)
            .then_some(jump)
    }

    /// Growth over the last half as a share of the level.
    fn late_growth(&self) -> Option<f64> {
        let y = &self.bins.y;
        let half = self.bins.x.iter().take_while(|&&x| x < self.bins.end() / 2.0).count();
        // Four bins around the middle and the last four: one bin may be the peak of a sawtooth.
        let start = median(y.get(half.checked_sub(2)?..half + 2)?)?;
        Some((median(&y[y.len() - 4..])? - start) / y.last()?)
    }

    /// Falls of more than a third of the rises, and a swing of more than 1.5 % of the level.
    fn oscillates(&self) -> bool {
        let settled = self.bins.end() / 8.0;
        let late: Vec<(f64, f64)> =
            self.series.iter().copied().filter(|&(x, _)| x >= settled).collect();
        let moves: Vec<f64> = late.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        let up: f64 = moves.iter().filter(|&&m| m > 0.0).sum();
        let down: f64 = -moves.iter().filter(|&&m| m < 0.0).sum::<f64>();
        // Residuals from the binned course, so that growth itself is no swing.
        let mut residuals: Vec<f64> = late.iter().map(|&(x, y)| y - self.level_at(x)).collect();
        residuals.sort_unstable_by(f64::total_cmp);
        let swing = quantile(&residuals, 0.95)
            .zip(quantile(&residuals, 0.05))
            .map_or(0.0, |(high, low)| high - low);
        let level = self.series.iter().map(|s| s.1).sum::<f64>() / self.series.len() as f64;
        down > 0.3 * up && swing > 0.015 * level
    }

    /// The binned series at `x`, linear in between.
    fn level_at(&self, x: f64) -> f64 {
        let (xs, ys) = (&self.bins.x, &self.bins.y);
        let after = xs.partition_point(|&bin| bin < x).clamp(1, xs.len() - 1);
        let share = ((x - xs[after - 1]) / (xs[after] - xs[after - 1])).clamp(0.0, 1.0);
        ys[after - 1] + share * (ys[after] - ys[after - 1])
    }

    /// Total requests at which the limits should exclude the tolerance: between twice and eight times
    /// those so far.
    fn needed(&self, requests: f64) -> f64 {
        // The error falls with a power of x between -1/2 and -3/2; -1 is assumed.
        let distance = (self.trend.rate - self.tolerance).abs();
        let width = 2.0 * 1.7 * self.trend.error;
        requests * (width / distance).clamp(2.0, 8.0)
    }
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get((share * sorted.len() as f64) as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{SeededRng, Soak, SoakShape};

    fn classes(soak: Soak, runs: u32, tolerance: f64) -> Vec<GrowthClass> {
        let mut rng = SeededRng::new(51);
        (0..runs).map(|_| classify(&soak.run(&mut rng), tolerance).class).collect()
    }

    fn share(classes: &[GrowthClass], wanted: &[GrowthClass]) -> f64 {
        classes.iter().filter(|class| wanted.contains(class)).count() as f64 / classes.len() as f64
    }

    const HARMLESS: [GrowthClass; 3] =
        [GrowthClass::Flat, GrowthClass::LevellingOff, GrowthClass::Stepwise];

    #[test]
    fn a_leak_of_16_bytes_is_found_at_300_000_requests() {
        for shape in [SoakShape::Flat, SoakShape::Logarithm] {
            let classes = classes(Soak::new(shape, 16.0, 300e3), 300, 4.0);
            let found = share(&classes, &[GrowthClass::Linear]);
            assert!(found >= 0.90, "{shape:?}: found in {found}");
            assert!(share(&classes, &HARMLESS) <= 0.01, "{shape:?}");
        }
    }

    #[test]
    fn a_series_without_a_leak_is_not_called_linear() {
        for shape in [
            SoakShape::Flat,
            SoakShape::Step,
            SoakShape::Logarithm,
            SoakShape::SteepLogarithm,
            SoakShape::Saturating,
            SoakShape::Sawtooth,
        ] {
            for requests in [100e3, 300e3] {
                let classes = classes(Soak::new(shape, 0.0, requests), 150, 4.0);
                let false_leaks = share(&classes, &[GrowthClass::Linear]);
                assert!(false_leaks <= 0.02, "{shape:?} at {requests}: {false_leaks}");
            }
        }
    }

    #[test]
    fn a_warm_up_can_look_linear_below_20_000_requests_and_not_above() {
        let shapes = [
            SoakShape::Flat,
            SoakShape::Logarithm,
            SoakShape::SteepLogarithm,
            SoakShape::Saturating,
            SoakShape::Sawtooth,
        ];
        for (noise, shape) in [10e3, 150e3].into_iter().flat_map(|n| shapes.map(|s| (n, s))) {
            let false_leaks = |requests| {
                let soak = Soak { noise, ..Soak::new(shape, 0.0, requests) };
                share(&classes(soak, 150, 4.0), &[GrowthClass::Linear])
            };
            assert!(false_leaks(3e3) > 0.15, "{shape:?}, noise {noise}");
            let later = [20e3, 30e3, 50e3].map(false_leaks);
            assert!(later.iter().all(|share| *share <= 0.02), "{shape:?}, {noise}: {later:?}");
        }
    }

    #[test]
    fn garbage_looks_linear_until_it_was_collected_several_times() {
        let false_leaks = |requests| {
            let soak = Soak { noise: 20e3, ..Soak::new(SoakShape::Garbage, 0.0, requests) };
            share(&classes(soak, 150, 4.0), &[GrowthClass::Linear])
        };
        assert!(false_leaks(50e3) > 0.5);
        // Three, four and eight collections of 70,000 requests in the judged part.
        let later = [250e3, 330e3, 650e3].map(false_leaks);
        assert!(later.iter().all(|share| *share <= 0.02), "{later:?}");
    }

    #[test]
    fn forty_samples_give_no_more_false_leaks_than_many() {
        let mut rng = SeededRng::new(54);
        for shape in [
            SoakShape::Flat,
            SoakShape::Step,
            SoakShape::Logarithm,
            SoakShape::Saturating,
            SoakShape::Sawtooth,
        ] {
            let mut few = |leak: f64| {
                let run = Soak::new(shape, leak, 300e3).run(&mut rng);
                let kept = 40.0 / run.len() as f64;
                run.into_iter().filter(|_| rng.uniform() < kept).collect::<Vec<_>>()
            };
            let mut classes = |leak: f64| -> Vec<GrowthClass> {
                (0..200).map(|_| classify(&few(leak), 4.0).class).collect()
            };
            let false_leaks = share(&classes(0.0), &[GrowthClass::Linear]);
            assert!(false_leaks <= 0.02, "{shape:?}: {false_leaks}");
            let cleared = share(&classes(16.0), &HARMLESS);
            assert!(cleared <= 0.01, "{shape:?}: {cleared}");
        }
    }

    #[test]
    fn what_is_called_linear_has_a_rate_known_to_within_a_half() {
        let mut rng = SeededRng::new(55);
        let mut linear = |leak, requests| {
            let soak = Soak::new(SoakShape::Logarithm, leak, requests);
            let found: Vec<Growth> = (0..200).map(|_| classify(&soak.run(&mut rng), 4.0)).collect();
            found.into_iter().filter(|g| g.class == GrowthClass::Linear).collect::<Vec<_>>()
        };
        for (leak, requests, least) in [(32.0, 100e3, 10), (160.0, 50e3, 100), (16.0, 300e3, 150)] {
            let found = linear(leak, requests);
            assert!(found.len() >= least, "{leak} B at {requests}: {}", found.len());
            for growth in found {
                let (rate, low) = (growth.rate.unwrap(), growth.interval.unwrap().0);
                assert!(low >= 0.5 * rate, "{leak} B at {requests}: {growth:?}");
            }
        }
    }

    #[test]
    fn a_leak_hidden_in_a_warm_up_is_never_called_harmless() {
        for requests in [50e3, 100e3, 200e3, 300e3] {
            let classes = classes(Soak::new(SoakShape::Saturating, 16.0, requests), 100, 4.0);
            assert!(share(&classes, &HARMLESS) <= 0.02, "{requests}");
        }
    }

    #[test]
    fn series_without_noise_are_classified_exactly() {
        let series = |amount: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (1..=200).map(|i| (f64::from(i) * 1000.0, amount(f64::from(i) * 1000.0))).collect()
        };
        for (amount, class) in [
            ((|_| 70e6) as fn(f64) -> f64, GrowthClass::Flat),
            (|x| 70e6 + 16.0 * x, GrowthClass::Linear),
            (|x| if x > 90e3 { 73e6 } else { 70e6 }, GrowthClass::Stepwise),
            (|x| 70e6 + 10e6 * (1.0 - (-x / 20e3).exp()), GrowthClass::Flat),
            (|x| 70e6 + 200e3 * (x / 2000.0).ln_1p(), GrowthClass::Flat),
        ] {
            assert_eq!(classify(&series(amount), 4.0).class, class, "{amount:?}");
        }
        let leak = classify(&series(|x| 70e6 + 16.0 * x), 4.0);
        assert!((leak.rate.unwrap() - 16.0).abs() < 1e-3, "{leak:?}");
    }

    #[test]
    fn a_step_is_one_only_if_the_level_stays_and_nothing_else_grows() {
        // After the step it rises by two thirds as much again, and stands still over the last half.
        let rising = (1..=200).map(|i| {
            let after = f64::from(i.clamp(50, 90) - 50) / 40.0 * 1e6;
            (f64::from(i) * 1e3, if i > 40 { 71.5e6 + after } else { 70e6 })
        });
        let rising = classify(&rising.collect::<Vec<_>>(), 4.0);
        assert_eq!((rising.class, rising.step), (GrowthClass::LevellingOff, Some(1.5e6)));
        // One that is undone, as memory that is returned.
        let undone = [19560; 5].into_iter().chain([19810, 20130, 20130]).chain([19300; 17]);
        let series = |values: Vec<i32>| -> Vec<(f64, f64)> {
            (2..).zip(values).map(|(second, kb)| (f64::from(second), f64::from(kb) * 1e3)).collect()
        };
        let undone = classify(&series(undone.collect()), 45.0);
        assert_eq!((undone.class, undone.step), (GrowthClass::Flat, None));
    }

    #[test]
    fn a_series_may_begin_late_but_must_have_no_gap() {
        let whole: Vec<(f64, f64)> =
            (1..=300).map(|i| (f64::from(i) * 1e3, 70e6 + 16e3 * f64::from(i))).collect();
        assert_eq!(classify(&whole[35..], 4.0).class, GrowthClass::Linear);
        assert_eq!(classify(&whole[80..], 4.0).rate, None);
        let hole: Vec<(f64, f64)> = [&whole[..120], &whole[180..]].concat();
        assert_eq!(classify(&hole, 4.0).rate, None);
        let mut stepped = whole[30..].to_vec();
        stepped.iter_mut().for_each(|(x, y)| *y = if *x > 150e3 { 73e6 } else { 70e6 });
        assert_eq!(classify(&stepped, 4.0).class, GrowthClass::Stepwise);
    }

    #[test]
    fn a_leak_of_objects_is_found_in_slots_where_memory_only_jumps() {
        // One slot of 40 bytes per 2 requests; the heap grows by 4 MB whenever it is full.
        let mut rng = SeededRng::new(52);
        let slots: Vec<(f64, f64)> = (1..=300)
            .map(|i| {
                let x = f64::from(i) * 500.0;
                (x, 400e3 + 0.5 * x + 2000.0 * rng.uniform())
            })
            .collect();
        let memory: Vec<(f64, f64)> =
            slots.iter().map(|&(x, live)| (x, 60e6 + (live * 40.0 / 4e6).ceil() * 4e6)).collect();
        let found = classify(&slots, 0.1);
        assert_eq!(found.class, GrowthClass::Linear);
        let (low, high) = found.interval.unwrap();
        assert!(low < 0.5 && 0.5 < high, "{found:?}");
        assert_ne!(classify(&memory, 4.0).class, GrowthClass::Linear);
    }

    #[test]
    fn a_short_series_is_undecided_and_says_how_long_it_should_be() {
        let short: Vec<(f64, f64)> = (1..=10).map(|i| (f64::from(i), 1.0)).collect();
        let growth = classify(&short, 4.0);
        assert_eq!((growth.class, growth.needed), (GrowthClass::Undecided, Some(20.0)));
        assert_eq!(classify(&[], 4.0).needed, None);
        let leak = Soak::new(SoakShape::Logarithm, 16.0, 60e3).run(&mut SeededRng::new(53));
        let growth = classify(&leak, 4.0);
        assert_eq!(growth.class, GrowthClass::Undecided);
        assert!(growth.needed.is_some_and(|n| (120e3..=480e3).contains(&n)), "{growth:?}");
    }
}
