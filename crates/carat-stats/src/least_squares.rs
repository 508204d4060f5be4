//! Least squares with two or three columns.
//!
//! Uses modified Gram–Schmidt rather than normal equations: after the transformation for serial
//! correlation the column of the intercept is nearly zero, and squaring the condition number would
//! lose half the digits.

/// A fitted line or curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    /// One coefficient per column.
    pub(crate) coefficients: Vec<f64>,
    /// Diagonal of (XᵀX)⁻¹; multiplied by the residual variance, the variance of a coefficient.
    pub(crate) variance_factors: Vec<f64>,
    /// Observed minus fitted.
    pub(crate) residuals: Vec<f64>,
}

impl Fit {
    /// Fits `y` by `columns`; `None` where there are too few rows or the columns are collinear.
    pub(crate) fn new(columns: &[Vec<f64>], y: &[f64]) -> Option<Self> {
        let p = columns.len();
        // Without a row to spare there is no residual variance, so no error of a coefficient.
        if y.len() <= p {
            return None;
        }
        let mut q: Vec<Vec<f64>> = columns.to_vec();
        let mut r = vec![vec![0.0; p]; p];
        let mut residuals = y.to_vec();
        let mut projections = vec![0.0; p];
        for i in 0..p {
            // Against the column before it was reduced: whether it is small depends on its unit.
            let size = dot(&columns[i], &columns[i]).sqrt();
            let norm = dot(&q[i], &q[i]).sqrt();
            if norm <= 1e-10 * size {
                return None;
            }
            r[i][i] = norm;
            q[i].iter_mut().for_each(|value| *value /= norm);
            for j in i + 1..p {
                r[i][j] = dot(&q[i], &q[j]);
                let unit = q[i].clone();
                subtract(&mut q[j], r[i][j], &unit);
            }
            // From the residuals: `y` itself would lose the digits again (Å. Björck, BIT 7, 1967).
            projections[i] = dot(&q[i], &residuals);
            subtract(&mut residuals, projections[i], &q[i]);
        }
        let inverse = invert_upper(&r);
        Some(Self {
            coefficients: inverse.iter().map(|row| dot(row, &projections)).collect(),
            variance_factors: inverse.iter().map(|row| dot(row, row)).collect(),
            residuals,
        })
    }

    /// Sum of squared residuals.
    pub(crate) fn squares(&self) -> f64 {
        dot(&self.residuals, &self.residuals)
    }

    /// Rows minus columns.
    pub(crate) fn freedom(&self) -> f64 {
        (self.residuals.len() - self.coefficients.len()) as f64
    }

    /// Standard error of coefficient `i`.
    pub(crate) fn error(&self, i: usize) -> f64 {
        (self.squares() / self.freedom() * self.variance_factors[i]).sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn subtract(from: &mut [f64], times: f64, what: &[f64]) {
    from.iter_mut().zip(what).for_each(|(value, w)| *value -= times * w);
}

fn invert_upper(r: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let p = r.len();
    let mut inverse = vec![vec![0.0; p]; p];
    for column in 0..p {
        inverse[column][column] = 1.0 / r[column][column];
        for row in (0..column).rev() {
            let sum: f64 = (row + 1..=column).map(|k| r[row][k] * inverse[k][column]).sum();
            inverse[row][column] = -sum / r[row][row];
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anscombe's first quartet; the figures are the published ones: intercept 3.0001 ± 1.1247,
    /// slope 0.5001 ± 0.1179, residual sum of squares 13.7627 (The American Statistician 27, 1973).
    #[test]
    fn anscombes_first_line_is_the_published_one() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let fit = Fit::new(&[vec![1.0; 11], x.to_vec()], &y).unwrap();
        for (got, want) in [
            (fit.coefficients[0], 3.0001),
            (fit.coefficients[1], 0.5001),
            (fit.error(0), 1.1247),
            (fit.error(1), 0.1179),
            (fit.squares(), 13.7627),
        ] {
            assert!((got - want).abs() < 1e-4, "{got} is not {want}");
        }
    }

    #[test]
    fn collinear_columns_are_refused() {
        let one = vec![1.0; 5];
        let two = vec![2.0; 5];
        assert_eq!(Fit::new(&[one, two], &[1.0, 2.0, 3.0, 4.0, 5.0]), None);
    }

    #[test]
    fn an_exact_curve_is_recovered() {
        let u: Vec<f64> = (1..=20).map(|i| f64::from(i) / 20.0).collect();
        let y: Vec<f64> = u.iter().map(|u| 7.0 - 3.0 * u + 2.0 * u.ln()).collect();
        let columns = [vec![1.0; 20], u.clone(), u.iter().map(|u| u.ln()).collect()];
        let fit = Fit::new(&columns, &y).unwrap();
        for (got, want) in fit.coefficients.iter().zip([7.0, -3.0, 2.0]) {
            assert!((got - want).abs() < 1e-9, "{got} is not {want}");
        }
    }
}
