//! Symmetric positive definite systems of equations.

/// Smallest pivot. A covariance matrix of repeated configurations is singular but for the noise on its diagonal.
const LEAST_PIVOT: f64 = 1e-12;

/// The lower triangle L of a matrix A = L Lᵀ (Cholesky).
#[derive(Debug, Clone)]
pub(crate) struct Cholesky {
    size: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factors a matrix of `size` rows, stored row by row; only its lower triangle is read.
    pub(crate) fn factor(matrix: Vec<f64>, size: usize) -> Self {
        let mut lower = matrix;
        for column in 0..size {
            let (top, below) = lower.split_at_mut((column + 1) * size);
            let pivot_row = &mut top[column * size..];
            let squares: f64 = pivot_row[..column].iter().map(|value| value * value).sum();
            // Rounding can make the pivot of a singular matrix negative, which has no root.
            let pivot = (pivot_row[column] - squares).max(LEAST_PIVOT).sqrt();
            pivot_row[column] = pivot;
            for row in below.chunks_exact_mut(size) {
                let product = dot(&row[..column], &pivot_row[..column]);
                row[column] = (row[column] - product) / pivot;
            }
        }
        Self { size, lower }
    }

    /// The x with A x = `right`.
    pub(crate) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut x = right.to_vec();
        for row in 0..self.size {
            let known = dot(&self.row(row)[..row], &x[..row]);
            x[row] = (x[row] - known) / self.row(row)[row];
        }
        // The transpose is not stored: its column is this row, so the result is pushed forward.
        for row in (0..self.size).rev() {
            let value = x[row] / self.row(row)[row];
            x[row] = value;
            for (earlier, factor) in x[..row].iter_mut().zip(self.row(row)) {
                *earlier -= factor * value;
            }
        }
        x
    }

    /// The logarithm of the determinant of A.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.size).map(|row| 2.0 * self.row(row)[row].ln()).sum()
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.lower[row * self.size..(row + 1) * self.size]
    }
}

/// The sum of the products, over the shorter of the two.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 15 −5; 15 18 0; −5 0 11: the example of Cholesky's method in many textbooks, with L = 5; 3 3; −1 1 3.
    #[test]
    fn a_textbook_matrix_is_factored_and_solved() {
        let matrix = vec![25.0, 15.0, -5.0, 15.0, 18.0, 0.0, -5.0, 0.0, 11.0];
        let cholesky = Cholesky::factor(matrix, 3);
        for (row, column, expected) in
            [(0, 0, 5.0), (1, 0, 3.0), (1, 1, 3.0), (2, 0, -1.0), (2, 1, 1.0), (2, 2, 3.0)]
        {
            assert!((cholesky.row(row)[column] - expected).abs() < 1e-12, "{row},{column}");
        }
        assert!((cholesky.log_determinant() - 2025_f64.ln()).abs() < 1e-12);
        let x = cholesky.solve(&[35.0, 33.0, 6.0]);
        for (found, expected) in x.iter().zip([1.0, 1.0, 1.0]) {
            assert!((found - expected).abs() < 1e-12, "{x:?}");
        }
    }

    #[test]
    fn a_singular_matrix_gives_finite_numbers() {
        let cholesky = Cholesky::factor(vec![1.0, 1.0, 1.0, 1.0], 2);
        assert!(cholesky.solve(&[1.0, 1.0]).iter().all(|value| value.is_finite()));
        assert!(cholesky.log_determinant().is_finite());
    }
}
