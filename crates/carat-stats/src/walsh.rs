//! Walsh averages: the Hodges–Lehmann estimate and its interval.
//!
//! Source: J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Annals of
//! Mathematical Statistics 34 (1963). The interval inverts the signed-rank test, so it holds for
//! any symmetric distribution of differences. Within a block in random order, "no effect" makes them
//! symmetric whatever the noise is.

/// The averages (dᵢ + dⱼ)/2, i ≤ j, of a set of differences, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Walsh {
    averages: Vec<f64>,
}

impl Walsh {
    /// All n(n+1)/2 averages of the finite `differences`.
    pub fn new(differences: &[f64]) -> Self {
        // Opposite infinities have no average, and one alone is an infinite end of an interval.
        let finite: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite()).collect();
        let mut averages = Vec::with_capacity(finite.len() * (finite.len() + 1) / 2);
        for (i, one) in finite.iter().enumerate() {
            averages.extend(finite[i..].iter().map(|other| 0.5 * (one + other)));
        }
        // Unstable, because equal averages are the same number.
        averages.sort_unstable_by(f64::total_cmp);
        Self { averages }
    }

    /// The Hodges–Lehmann estimate, the median of the averages: the difference of the typical pair.
    pub fn estimate(&self) -> Option<f64> {
        let last = self.averages.len().checked_sub(1)?;
        Some(0.5 * (self.averages[last / 2] + self.averages[last - last / 2]))
    }

    /// The interval that leaves out the `cut` lowest and the `cut` highest averages.
    ///
    /// `None` where no average is left.
    pub fn interval(&self, cut: usize) -> Option<(f64, f64)> {
        let last = self.averages.len().checked_sub(1)?;
        (2 * cut <= last).then(|| (self.averages[cut], self.averages[last - cut]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed_rank;
    use proptest::prelude::{Strategy, proptest};

    /// Darwin's fifteen pairs of maize (eighths of an inch). The expected figures are the 60th, 61st,
    /// 26th and 95th of all 120 averages, computed with Python.
    const DARWIN: [f64; 15] =
        [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    #[test]
    fn darwins_maize_has_the_known_estimate_and_interval() {
        let walsh = Walsh::new(&DARWIN);
        let cut = signed_rank::cut(15, 0.05).unwrap();
        assert_eq!(walsh.estimate(), Some(25.0));
        assert_eq!(walsh.interval(cut), Some((4.0, 41.5)));
    }

    #[test]
    fn no_differences_give_no_estimate() {
        assert_eq!(Walsh::new(&[]).estimate(), None);
        assert_eq!(Walsh::new(&[f64::NAN]).interval(0), None);
        assert_eq!(Walsh::new(&[2.0]).interval(0), Some((2.0, 2.0)));
        assert_eq!(Walsh::new(&[2.0]).interval(1), None);
    }

    fn differences() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(-1e3..1e3_f64, 6..40)
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut d in differences(), turn in 0..40_usize) {
            let before = Walsh::new(&d);
            let turn = turn % d.len();
            d.rotate_left(turn);
            assert_eq!(before, Walsh::new(&d));
        }

        #[test]
        fn swapping_the_variants_mirrors_the_interval(d in differences(), cut in 0..10_usize) {
            let mirrored: Vec<f64> = d.iter().map(|x| -x).collect();
            let (low, high) = Walsh::new(&d).interval(cut).unwrap();
            assert_eq!(Walsh::new(&mirrored).interval(cut), Some((-high, -low)));
        }

        #[test]
        fn a_larger_unit_scales_the_interval(d in differences(), cut in 0..10_usize) {
            let scaled: Vec<f64> = d.iter().map(|x| 4.0 * x).collect();
            let (low, high) = Walsh::new(&d).interval(cut).unwrap();
            assert_eq!(Walsh::new(&scaled).interval(cut), Some((4.0 * low, 4.0 * high)));
        }

        #[test]
        fn a_larger_cut_gives_an_interval_inside(d in differences(), cut in 0..9_usize) {
            let walsh = Walsh::new(&d);
            let (low, high) = walsh.interval(cut).unwrap();
            let (inner_low, inner_high) = walsh.interval(cut + 1).unwrap();
            let middle = walsh.estimate().unwrap();
            assert!(low <= inner_low && inner_low <= middle);
            assert!(middle <= inner_high && inner_high <= high);
        }

        #[test]
        fn one_outlier_moves_the_estimate_no_further_than_its_neighbours(d in differences()) {
            let mut wild = d.clone();
            wild[0] = 1e12;
            let (low, high) = d.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
            let estimate = Walsh::new(&wild).estimate().unwrap();
            assert!(low <= estimate && estimate <= high);
        }
    }
}
