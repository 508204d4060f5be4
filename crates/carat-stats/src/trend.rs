//! The growth rate of a series, with an interval that allows for serial correlation.
//!
//! Errors of neighbouring values are correlated, so a plain regression finds "growth" in every second
//! flat series. Here one coefficient of serial correlation is estimated and removed (feasible
//! generalised least squares; S. J. Prais and C. B. Winsten, Cowles Commission 383, 1954). Close to 1
//! it is set to 1, after P. Perron and T. Yabu, Journal of Econometrics 151 (2009). A slow random
//! drift still remains: in simulations the intervals had to be doubled to reach their confidence.

use crate::least_squares::Fit;
use crate::normal::t_upper_quantile;
use crate::summary::median;

/// Standard errors of a single run are multiplied by this; calibrated, not derived.
const INFLATION: f64 = 2.0;
/// One-sided error of each limit of a rate.
const ONE_SIDED: f64 = 0.05;
/// A shape is kept if its fit is not worse than the best by more than this F value.
const KEEP: f64 = 4.0;
/// The same for the ceiling, the only limit by which a still rising series may be called harmless.
const KEEP_FOR_CEILING: f64 = 9.0;
/// Time constants of the saturating shapes, as shares of the whole. These shapes serve only to
/// estimate the correlation and to bound the rate.
const SATURATING: [f64; 7] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0];

/// A series in equal bins: the position and the median of each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Binned {
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    /// Bins of the whole series.
    pub(crate) cut: usize,
    /// Leading bins that were left out.
    pub(crate) skipped: usize,
}

/// The rates of the late part of a series, per unit of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// Linear rate beside a logarithmic part.
    pub(crate) rate: f64,
    /// Standard error of `rate`, as fitted.
    pub(crate) error: f64,
    /// Lowest and highest limit over line and logarithm, where they fit.
    pub(crate) limits: (f64, f64),
    /// Upper limit over every shape that fits, the saturating ones included.
    pub(crate) ceiling: f64,
    /// Plain rate over the second half.
    pub(crate) late: f64,
    /// Upper limit of `late`.
    pub(crate) late_high: f64,
}

impl Binned {
    /// Cuts `series` (x rising from 0) into `bins` bins of equal length; `None` where too many are
    /// empty.
    ///
    /// The first eighth is not judged: empty bins there are left out with those before them. After that
    /// a quarter may be empty if no two neighbours are; such a bin takes the mean of its neighbours.
    /// This is necessary where samples depend on garbage collections, which become rarer.
    pub(crate) fn new(series: &[(f64, f64)], bins: usize) -> Option<Self> {
        let end = series.last()?.0;
        let mut cells: Vec<(f64, Vec<f64>)> = vec![(0.0, Vec::new()); bins];
        // The place of a bin is the mean of its samples, which may crowd on one side of it.
        for &(x, y) in series {
            let bin = bin_of(x, end, bins);
            cells[bin].0 += x;
            cells[bin].1.push(y);
        }
        let early = &cells[..bins / 8];
        // Before the first eighth nothing is judged, so a gap there costs only the bins before it.
        let skipped = early.iter().rposition(|(_, ys)| ys.is_empty()).map_or(0, |last| last + 1);
        let points: Vec<Option<(f64, f64)>> = cells[skipped..]
            .iter()
            .map(|(sum, ys)| Some((sum / ys.len() as f64, median(ys)?)))
            .collect();
        let empty = points.iter().filter(|point| point.is_none()).count();
        let filled: Option<Vec<(f64, f64)>> =
            (0..points.len()).map(|i| points[i].or_else(|| interpolated(&points, i))).collect();
        let (x, y) = filled.filter(|_| 4 * empty <= points.len())?.into_iter().unzip();
        Some(Self { x, y, cut: bins, skipped })
    }

    /// The position of the last bin.
    pub(crate) fn end(&self) -> f64 {
        self.x.last().copied().unwrap_or(0.0)
    }

    /// The part from x = `from` on.
    pub(crate) fn since(&self, from: f64) -> Self {
        let skip = self.x.iter().take_while(|&&x| x < from).count();
        let (x, y) = (self.x[skip..].to_vec(), self.y[skip..].to_vec());
        Self { x, y, cut: self.cut, skipped: self.skipped + skip }
    }

    /// Mean position and median of the bins that end at `share` of the whole.
    fn around(&self, share: f64) -> Option<(f64, f64)> {
        // The last bin ends exactly at its share, which rounding must not exclude.
        let (low, high) = ((share - 0.06) * self.end(), share * self.end() * (1.0 + 1e-12));
        let inside = self.x.iter().zip(&self.y).filter(|&(&x, _)| low < x && x <= high);
        let (x, y): (Vec<f64>, Vec<f64>) = inside.map(|(&x, &y)| (x, y)).unzip();
        Some((x.iter().sum::<f64>() / x.len() as f64, median(&y)?))
    }

    /// Rates over the second quarter and over the second half: a doubling of x each.
    pub(crate) fn doublings(&self) -> Option<(f64, f64)> {
        let [one, two, three] = [self.around(0.25)?, self.around(0.5)?, self.around(1.0)?];
        Some(((two.1 - one.1) / (two.0 - one.0), (three.1 - two.1) / (three.0 - two.0)))
    }

    /// Fits line and logarithm from an eighth of the whole on.
    pub(crate) fn trend(&self) -> Option<Trend> {
        let end = self.end();
        let settled = self.since(end / 8.0);
        let u: Vec<f64> = settled.x.iter().map(|x| x / end).collect();
        // One correlation for all shapes: their fits are compared, so they need the same residuals.
        let phi = correlation(&u, &settled.y)?;
        let fits = [line(&u), logarithmic(&u)]
            .map(|columns| Fit::new(&transform_all(&columns, phi), &transform(&settled.y, phi)));
        let [Some(straight), Some(curved)] = fits else { return None };
        let late: Vec<f64> = u.iter().copied().filter(|&u| u >= 0.5).collect();
        let late_y = &settled.y[u.len() - late.len()..];
        // The second half alone says what the run does now, whatever its start looks like.
        let late = Fit::new(&transform_all(&line(&late), phi), &transform(late_y, phi))?;
        let (low, high) = limits(&[&straight, &curved], KEEP);
        let target = transform(&settled.y, phi);
        // A saturating shape only widens the ceiling. In `limits` it would hide every leak.
        let saturating: Vec<Fit> = saturating(&u)
            .filter_map(|columns| Fit::new(&transform_all(&columns, phi), &target))
            .collect();
        let every: Vec<&Fit> = [&straight, &curved].into_iter().chain(&saturating).collect();
        Some(Trend {
            // Beside the logarithm, so that fragmentation is not counted as a leak.
            rate: curved.coefficients[1] / end,
            error: curved.error(1) / end,
            limits: (low / end, high / end),
            ceiling: limits(&every, KEEP_FOR_CEILING).1 / end,
            late: late.coefficients[1] / end,
            late_high: (late.coefficients[1] + half_width(&late)) / end,
        })
    }
}

/// The mean of the two neighbours of an empty bin; `None` where either is empty or absent.
fn interpolated(points: &[Option<(f64, f64)>], i: usize) -> Option<(f64, f64)> {
    let (before, after) = (points[i.checked_sub(1)?]?, (*points.get(i + 1)?)?);
    Some((0.5 * (before.0 + after.0), 0.5 * (before.1 + after.1)))
}

/// The bin of x when 0 to `end` is cut into `bins`; a value on an edge belongs to the bin below.
pub(crate) fn bin_of(x: f64, end: f64, bins: usize) -> usize {
    // Rounding must not put the last sample of a bin into the next.
    let place = (x / end * bins as f64 - 1e-9).max(0.0) as usize;
    place.min(bins - 1)
}

fn half_width(fit: &Fit) -> f64 {
    INFLATION * t_upper_quantile(ONE_SIDED, fit.freedom()) * fit.error(1)
}

/// The outermost limits of the rate over the shapes that fit about as well as the best one.
fn limits(fits: &[&Fit], keep: f64) -> (f64, f64) {
    let best = fits.iter().min_by(|a, b| a.squares().total_cmp(&b.squares()));
    let worst = best.map_or(0.0, |fit| fit.squares() * (1.0 + keep / fit.freedom()));
    let kept = fits.iter().filter(|fit| fit.squares() <= worst);
    kept.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), fit| {
        let half = half_width(fit);
        (low.min(fit.coefficients[1] - half), high.max(fit.coefficients[1] + half))
    })
}

/// Serial correlation of the residuals of the best of several shapes, corrected for bias.
fn correlation(u: &[f64], y: &[f64]) -> Option<f64> {
    let shapes = [line(u), logarithmic(u)].into_iter().chain(saturating(u));
    let fits = shapes.filter_map(|columns| Fit::new(&columns, y));
    let best = fits.min_by(|a, b| a.squares().total_cmp(&b.squares()))?;
    let e = &best.residuals;
    let together: f64 = e.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let alone: f64 = e[..e.len() - 1].iter().map(|e| e * e).sum();
    // A perfect fit has no residuals; its correlation is then zero.
    let raw = together / alone.max(1e-9);
    let bins = u.len() as f64;
    // Residuals of a fitted line look less correlated than the errors are; this is the usual bias.
    let corrected = raw + (2.0 + 4.0 * raw.clamp(0.0, 1.0)) / bins;
    // Close to 1 the estimate is too low, and intervals too narrow (Perron and Yabu).
    Some(if 1.0 - corrected < 1.0 / bins.sqrt() { 1.0 } else { corrected.clamp(0.0, 1.0) })
}

fn line(u: &[f64]) -> Vec<Vec<f64>> {
    vec![vec![1.0; u.len()], u.to_vec()]
}

fn logarithmic(u: &[f64]) -> Vec<Vec<f64>> {
    vec![vec![1.0; u.len()], u.to_vec(), u.iter().map(|u| u.ln()).collect()]
}

fn saturating(u: &[f64]) -> impl Iterator<Item = Vec<Vec<f64>>> {
    SATURATING
        .into_iter()
        .map(|t| vec![vec![1.0; u.len()], u.to_vec(), u.iter().map(|u| (-u / t).exp()).collect()])
}

fn transform_all(columns: &[Vec<f64>], phi: f64) -> Vec<Vec<f64>> {
    columns.iter().map(|column| transform(column, phi)).collect()
}

/// Prais and Winsten's transformation. At φ = 1 the first value keeps a small factor, so that the
/// intercept is identified.
fn transform(values: &[f64], phi: f64) -> Vec<f64> {
    let first = (1.0 - phi * phi).max(1e-6).sqrt();
    let start = values.first().map(|value| first * value);
    start.into_iter().chain(values.windows(2).map(|pair| pair[1] - phi * pair[0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_rate_over_all_and_over_the_last_half_within_its_limits() {
        let series: Vec<(f64, f64)> = (1..=640)
            .map(|i| (f64::from(i), 1000.0 + 2.0 * f64::from(i) + f64::from(i * 7919 % 13)))
            .collect();
        let trend = Binned::new(&series, 32).unwrap().trend().unwrap();
        for rate in [trend.rate, trend.late] {
            assert!((rate - 2.0).abs() < 0.05, "{trend:?}");
        }
        assert!(trend.limits.0 < 2.0 && 2.0 < trend.limits.1, "{trend:?}");
        assert!(2.0 < trend.late_high && trend.late_high < 2.2, "{trend:?}");
    }

    #[test]
    fn a_value_on_an_edge_belongs_to_the_bin_below() {
        let places = [0.0, 1.0, 1.01, 5.0, 9.99, 10.0].map(|x| bin_of(x, 10.0, 10));
        assert_eq!(places, [0, 0, 1, 4, 9, 9]);
    }
}
