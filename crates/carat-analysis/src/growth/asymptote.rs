//! The level that a growth approaches when it levels off.

/// The level of `y = level - drop·exp(-x/τ)`, by least squares over a grid of τ. `None` where the best τ is as long as
/// the series, as for a logarithm, which approaches no level.
pub(super) fn asymptote(series: &[(f64, f64)]) -> Option<f64> {
    const STEPS: i32 = 40;
    let length = series.last()?.0;
    let fits = (0..STEPS).map(|step| {
        // From a hundredth to 1.5 times the length, evenly by ratio: τ spans orders of magnitude.
        let tau = length * 0.01 * 150_f64.powf(f64::from(step) / f64::from(STEPS - 1));
        // For a given τ the model is a line, so only τ needs a search.
        let line: Vec<(f64, f64)> = series.iter().map(|&(x, y)| ((-x / tau).exp(), y)).collect();
        let (level, error) = level_of(&line);
        (tau, level, error)
    });
    let (tau, level, _) = fits.min_by(|a, b| a.2.total_cmp(&b.2))?;
    // The longest τ fits because the growth does not end within the series.
    (tau < length * 0.9).then_some(level)
}

/// Intercept of the least-squares line, and the sum of its squared errors.
fn level_of(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / n, sum.1 + p.1 / n));
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    // All x equal: then the level is the mean.
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let level = my - slope * mx;
    let error = points.iter().map(|p| (p.1 - level - slope * p.0).powi(2)).sum();
    (level, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturating_series_has_a_level_and_a_line_has_none() {
        let series = |y: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (1..1000).map(|x| (f64::from(x), y(f64::from(x)))).collect()
        };
        let level = asymptote(&series(|x| 80.0 - 20.0 * (-x / 200.0).exp())).unwrap();
        assert!((level - 80.0).abs() < 0.5, "{level}");
        assert_eq!(asymptote(&series(|x| 60.0 + 0.02 * x)), None);
    }
}
