//! What a growing series is: flat, levelling off, linear, stepwise, or not yet told.
//!
//! Fragmentation grows like the logarithm of the work done, a leak like the work itself. Over one
//! doubling of the work the two look alike; over three they do not, so the series is judged from an
//! eighth of its length on, against *work* (requests), never against time. Generic over what is
//! counted: bytes of the process, live slots, malloc live, malloc free.

use crate::budget::median;
use crate::trend::{Binned, Trend, bin_of};

/// Bins tried, finest first; the first that leaves none empty is taken.
const BINS: [usize; 5] = [64, 48, 32, 24, 16];
/// Growth over the last half below this share of the level is none.
const FLAT: f64 = 0.005;
/// A leak's rate over the last doubling is at least this share of the one before: √x gives 0.71, a
/// logarithm 0.5.
const STEADY: f64 = 0.7;
/// Below this share growth is slowing.
const SLOWING: f64 = 0.6;

/// The kinds of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrowthClass {
    /// The last half grew by nothing that matters.
    Flat,
    /// It grows, but ever more slowly.
    LevellingOff,
    /// It grows by the same amount per request, above the tolerance.
    Linear,
    /// One jump, and nothing else that matters.
    Stepwise,
    /// The series is too short or too noisy to say.
    Undecided,
}

/// What a series of growth is found to be; rates are in its own unit per request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// The kind.
    pub kind: GrowthClass,
    /// Requests it was seen over.
    pub requests: f64,
    /// Amount per request, beside a logarithmic part; `None` of a series too short to fit.
    pub rate: Option<f64>,
    /// Lower and upper limit of the rate, each with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Upper limit (5 % error) of the plain rate over the second half, where nothing is
    /// extrapolated.
    pub at_most: Option<f64>,
    /// Rates over the second quarter and over the second half: equal for a leak, halved for a
    /// logarithm.
    pub doublings: Option<(f64, f64)>,
    /// Size of the one dominant jump.
    pub step: Option<f64>,
    /// Whether it saws up and down around its trend, as memory that is given back does.
    pub oscillating: bool,
    /// Where undecided: requests in all that would probably decide.
    pub needed: Option<f64>,
}

/// Classifies `series`, pairs of requests served so far and the amount held then, in order.
///
/// A rate below `tolerance` (the unit of the amount, per request) does not matter. Sources and
/// simulated error rates are in `docs/method.md`.
pub fn classify(series: &[(f64, f64)], tolerance: f64) -> Growth {
    let finite = series.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
    let series: Vec<(f64, f64)> = finite.filter(|&(x, _)| x > 0.0).collect();
    let requests = series.last().map_or(0.0, |last| last.0);
    let seen = BINS.into_iter().find_map(|bins| FittedSeries::new(&series, bins, tolerance));
    let Some(seen) = seen else {
        return Growth {
            kind: GrowthClass::Undecided,
            requests,
            rate: None,
            interval: None,
            at_most: None,
            doublings: None,
            step: None,
            oscillating: false,
            needed: (requests > 0.0).then_some(2.0 * requests),
        };
    };
    let jump = seen.dominant_jump();
    let calm = jump.and_then(|_| seen.without_jump());
    let judged = calm.as_ref().unwrap_or(&seen);
    let kind = judged.kind(jump.is_some());
    Growth {
        kind,
        requests,
        rate: Some(judged.trend.rate),
        interval: Some(judged.trend.limits),
        at_most: Some(judged.trend.late_high),
        doublings: judged.bins.doublings(),
        step: jump,
        oscillating: seen.oscillates(),
        needed: (kind == GrowthClass::Undecided).then(|| judged.needed(requests)),
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

    fn kind(&self, jumped: bool) -> GrowthClass {
        if self.leaks() {
            return GrowthClass::Linear;
        }
        if self.trend.late_high < self.tolerance {
            return match self.late_growth() {
                _ if jumped => GrowthClass::Stepwise,
                Some(growth) if growth < FLAT => GrowthClass::Flat,
                _ => GrowthClass::LevellingOff,
            };
        }
        let slowing = self.bins.doublings().is_some_and(|(early, late)| late < SLOWING * early);
        if slowing && self.trend.ceiling < self.tolerance {
            return GrowthClass::LevellingOff;
        }
        GrowthClass::Undecided
    }

    /// Whether the rate is above the tolerance by every measure, also without the largest jump.
    fn leaks(&self) -> bool {
        let steady = self.bins.doublings().is_some_and(|(early, late)| late >= STEADY * early);
        self.trend.limits.0 > self.tolerance
            && self.trend.late > self.tolerance
            && steady
            && self.without_jump().is_some_and(|calm| calm.trend.limits.0 > self.tolerance)
    }

    /// The bin before the largest rise between neighbours, and that rise.
    fn largest_rise(&self) -> Option<(usize, f64)> {
        let settled = self.bins.end() / 8.0;
        let rises = self.bins.y.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
        rises.filter(|&(i, _)| self.bins.x[i + 1] >= settled).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn without_jump(&self) -> Option<Self> {
        let (before, rise) = self.largest_rise()?;
        let (end, bins) = (self.series.last()?.0, self.bins.cut);
        let before = before + self.bins.skipped;
        let lowered: Vec<(f64, f64)> = self
            .series
            .iter()
            .map(|&(x, y)| (x, if bin_of(x, end, bins) > before { y - rise } else { y }))
            .collect();
        Self::new(&lowered, bins, self.tolerance)
    }

    /// The largest jump where it is most of all there is.
    fn dominant_jump(&self) -> Option<f64> {
        let (_, jump) = self.largest_rise()?;
        let settled = self.bins.since(self.bins.end() / 8.0);
        let (first, last) = (*settled.y.first()?, *settled.y.last()?);
        let moves: Vec<f64> = settled.y.windows(2).map(|p| (p[1] - p[0]).abs()).collect();
        (jump > 0.5 * (last - first) && jump > 6.0 * median(&moves)? && jump > FLAT * last)
            .then_some(jump)
    }

    /// Growth over the last half as a share of the level.
    fn late_growth(&self) -> Option<f64> {
        let y = &self.bins.y;
        let half = self.bins.x.iter().take_while(|&&x| x < self.bins.end() / 2.0).count();
        let start = median(y.get(half.checked_sub(2)?..half + 2)?)?;
        Some((median(&y[y.len() - 4..])? - start) / y.last()?)
    }

    /// Falls of more than a third of the rises, and a swing of more than 1.5 % of the level.
    fn oscillates(&self) -> bool {
        let settled = self.bins.end() / 8.0;
        let late: Vec<(f64, f64)> =
            self.series.iter().copied().filter(|&(x, _)| x >= settled).collect();
        let moves = || late.windows(2).map(|pair| pair[1].1 - pair[0].1);
        let up: f64 = moves().filter(|&m| m > 0.0).sum();
        let down: f64 = -moves().filter(|&m| m < 0.0).sum::<f64>();
        let mut beside: Vec<f64> = late.iter().map(|&(x, y)| y - self.level_at(x)).collect();
        beside.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| beside.get((share * beside.len() as f64) as usize).copied();
        let swing = at(0.95).zip(at(0.05)).map_or(0.0, |(high, low)| high - low);
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

    /// Requests in all at which the limits should leave the tolerance, between twice and eight
    /// times.
    fn needed(&self, requests: f64) -> f64 {
        // The error falls with x to a power between -1/2 and -3/2; -1 is assumed.
        let distance = (self.trend.rate - self.tolerance).abs();
        let width = 2.0 * 1.7 * self.trend.error;
        requests * (width / distance).clamp(2.0, 8.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{SeededRng, Soak, SoakShape};

    fn kinds(soak: Soak, runs: u32, tolerance: f64) -> Vec<GrowthClass> {
        let mut rng = SeededRng::new(51);
        (0..runs).map(|_| classify(&soak.run(&mut rng), tolerance).kind).collect()
    }

    fn share(kinds: &[GrowthClass], wanted: &[GrowthClass]) -> f64 {
        kinds.iter().filter(|kind| wanted.contains(kind)).count() as f64 / kinds.len() as f64
    }

    const HARMLESS: [GrowthClass; 3] =
        [GrowthClass::Flat, GrowthClass::LevellingOff, GrowthClass::Stepwise];

    #[test]
    fn a_leak_of_16_bytes_is_found_at_300_000_requests() {
        for shape in [SoakShape::Flat, SoakShape::Logarithm] {
            let kinds = kinds(Soak::new(shape, 16.0, 300e3), 300, 4.0);
            let found = share(&kinds, &[GrowthClass::Linear]);
            assert!(found >= 0.90, "{shape:?}: found in {found}");
            assert!(share(&kinds, &HARMLESS) <= 0.01, "{shape:?}");
        }
    }

    #[test]
    fn what_does_not_leak_is_not_accused() {
        for shape in [
            SoakShape::Flat,
            SoakShape::Step,
            SoakShape::Logarithm,
            SoakShape::SteepLogarithm,
            SoakShape::Saturating,
            SoakShape::Saw,
        ] {
            for requests in [100e3, 300e3] {
                let kinds = kinds(Soak::new(shape, 0.0, requests), 150, 4.0);
                let accused = share(&kinds, &[GrowthClass::Linear]);
                assert!(accused <= 0.02, "{shape:?} at {requests}: {accused}");
            }
        }
    }

    #[test]
    fn a_few_dozen_samples_accuse_no_more_than_many_do() {
        let mut rng = SeededRng::new(54);
        for shape in [
            SoakShape::Flat,
            SoakShape::Step,
            SoakShape::Logarithm,
            SoakShape::Saturating,
            SoakShape::Saw,
        ] {
            let mut few = |leak: f64| {
                let run = Soak::new(shape, leak, 300e3).run(&mut rng);
                let kept = 40.0 / run.len() as f64;
                run.into_iter().filter(|_| rng.even() < kept).collect::<Vec<_>>()
            };
            let mut kinds = |leak: f64| -> Vec<GrowthClass> {
                (0..200).map(|_| classify(&few(leak), 4.0).kind).collect()
            };
            let accused = share(&kinds(0.0), &[GrowthClass::Linear]);
            assert!(accused <= 0.02, "{shape:?}: {accused}");
            let cleared = share(&kinds(16.0), &HARMLESS);
            assert!(cleared <= 0.01, "{shape:?}: {cleared}");
        }
    }

    #[test]
    fn a_leak_hidden_in_a_warm_up_is_never_called_harmless() {
        for requests in [50e3, 100e3, 200e3, 300e3] {
            let kinds = kinds(Soak::new(SoakShape::Saturating, 16.0, requests), 100, 4.0);
            assert!(share(&kinds, &HARMLESS) <= 0.02, "{requests}");
        }
    }

    #[test]
    fn plain_series_have_plain_answers() {
        let series = |amount: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (1..=200).map(|i| (f64::from(i) * 1000.0, amount(f64::from(i) * 1000.0))).collect()
        };
        for (amount, kind) in [
            ((|_| 70e6) as fn(f64) -> f64, GrowthClass::Flat),
            (|x| 70e6 + 16.0 * x, GrowthClass::Linear),
            (|x| if x > 90e3 { 73e6 } else { 70e6 }, GrowthClass::Stepwise),
            (|x| 70e6 + 10e6 * (1.0 - (-x / 20e3).exp()), GrowthClass::Flat),
            (|x| 70e6 + 200e3 * (x / 2000.0).ln_1p(), GrowthClass::Flat),
        ] {
            assert_eq!(classify(&series(amount), 4.0).kind, kind, "{amount:?}");
        }
        let leak = classify(&series(|x| 70e6 + 16.0 * x), 4.0);
        assert!((leak.rate.unwrap() - 16.0).abs() < 1e-3, "{leak:?}");
    }

    #[test]
    fn a_series_may_begin_late_but_have_no_hole() {
        let whole: Vec<(f64, f64)> =
            (1..=300).map(|i| (f64::from(i) * 1e3, 70e6 + 16e3 * f64::from(i))).collect();
        assert_eq!(classify(&whole[35..], 4.0).kind, GrowthClass::Linear);
        assert_eq!(classify(&whole[80..], 4.0).rate, None);
        let hole: Vec<(f64, f64)> = [&whole[..120], &whole[180..]].concat();
        assert_eq!(classify(&hole, 4.0).rate, None);
        let mut stepped = whole[30..].to_vec();
        stepped.iter_mut().for_each(|(x, y)| *y = if *x > 150e3 { 73e6 } else { 70e6 });
        assert_eq!(classify(&stepped, 4.0).kind, GrowthClass::Stepwise);
    }

    #[test]
    fn objects_leaked_into_slots_are_found_where_memory_only_jumps() {
        // One slot of 40 bytes per 2 requests; the heap grows by 4 MB whenever it is full.
        let mut rng = SeededRng::new(52);
        let slots: Vec<(f64, f64)> = (1..=300)
            .map(|i| {
                let x = f64::from(i) * 500.0;
                (x, 400e3 + 0.5 * x + 2000.0 * rng.even())
            })
            .collect();
        let memory: Vec<(f64, f64)> =
            slots.iter().map(|&(x, live)| (x, 60e6 + (live * 40.0 / 4e6).ceil() * 4e6)).collect();
        let found = classify(&slots, 0.1);
        assert_eq!(found.kind, GrowthClass::Linear);
        let (low, high) = found.interval.unwrap();
        assert!(low < 0.5 && 0.5 < high, "{found:?}");
        assert_ne!(classify(&memory, 4.0).kind, GrowthClass::Linear);
    }

    #[test]
    fn too_short_a_series_is_undecided_and_says_how_long_it_should_be() {
        let short: Vec<(f64, f64)> = (1..=10).map(|i| (f64::from(i), 1.0)).collect();
        let growth = classify(&short, 4.0);
        assert_eq!((growth.kind, growth.needed), (GrowthClass::Undecided, Some(20.0)));
        assert_eq!(classify(&[], 4.0).needed, None);
        let leak = Soak::new(SoakShape::Logarithm, 16.0, 60e3).run(&mut SeededRng::new(53));
        let growth = classify(&leak, 4.0);
        assert_eq!(growth.kind, GrowthClass::Undecided);
        assert!(growth.needed.is_some_and(|n| (120e3..=480e3).contains(&n)), "{growth:?}");
    }
}
