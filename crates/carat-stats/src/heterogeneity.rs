//! Whether groups of differences have one centre: Kruskal and Wallis' rank test, by permutation.
//!
//! Source: W. H. Kruskal and W. A. Wallis, "Use of ranks in one-criterion variance analysis", Journal of the American
//! Statistical Association 47 (1952). The p value counts random assignments of the values to the groups, so it also holds
//! for small groups and for ties, for which the χ² approximation does not.

use crate::simulate::SeededRng;

/// Random assignments besides the observed one. The smallest p value is 1 / (this + 1).
const PERMUTATIONS: usize = 9_999;
/// Values of H that differ by less are one value: they are sums in another order.
const TIE: f64 = 1e-9;

/// Kruskal and Wallis' H, corrected for ties.
///
/// `None` with fewer than two groups with values, or where all values are equal.
pub fn statistic(groups: &[Vec<f64>]) -> Option<f64> {
    let ranked = RankedGroups::new(groups)?;
    Some(ranked.h(&ranked.ranks))
}

/// The p value of the hypothesis that the groups are drawn from one distribution; the same numbers and seed give the same
/// value. `None` as for [`statistic`].
pub fn permutation_p(groups: &[Vec<f64>], seed: u64) -> Option<f64> {
    let ranked = RankedGroups::new(groups)?;
    let observed = ranked.h(&ranked.ranks);
    let mut rng = SeededRng::new(seed);
    let mut shuffled = ranked.ranks.clone();
    // The observed assignment is one of the possible ones, so that no p value is zero.
    let mut as_extreme = 1;
    for _ in 0..PERMUTATIONS {
        rng.shuffle(&mut shuffled);
        as_extreme += usize::from(ranked.h(&shuffled) >= observed - TIE);
    }
    Some(as_extreme as f64 / (PERMUTATIONS + 1) as f64)
}

/// Mid-ranks of all values, group after group.
struct RankedGroups {
    sizes: Vec<usize>,
    ranks: Vec<f64>,
    /// 1 − Σ(t³ − t) / (n³ − n) over the sizes t of groups of equal values.
    tie_correction: f64,
}

impl RankedGroups {
    fn new(groups: &[Vec<f64>]) -> Option<Self> {
        let sizes: Vec<usize> = groups.iter().map(Vec::len).filter(|&size| size > 0).collect();
        let values: Vec<f64> = groups.iter().flatten().copied().collect();
        let n = values.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut ranks = vec![0.0; n];
        let mut ties = 0.0;
        // Equal values share the mean of their ranks, whatever order the sort left them in.
        for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
            let size = equal.len() as f64;
            ties += size.powi(3) - size;
            let below = values.iter().filter(|&&value| value < values[equal[0]]).count() as f64;
            for &place in equal {
                ranks[place] = below + 0.5 * (size + 1.0);
            }
        }
        let all = n as f64;
        let tie_correction = 1.0 - ties / (all.powi(3) - all);
        // Where all values are equal the correction is zero, and H would be zero by zero.
        (sizes.len() >= 2 && tie_correction > 0.0).then_some(Self { sizes, ranks, tie_correction })
    }

    fn h(&self, ranks: &[f64]) -> f64 {
        let n = ranks.len() as f64;
        let mut rest = ranks;
        let mut sum = 0.0;
        for &size in &self.sizes {
            let (group, others) = rest.split_at(size);
            sum += group.iter().sum::<f64>().powi(2) / size as f64;
            rest = others;
        }
        (12.0 / (n * (n + 1.0)) * sum - 3.0 * (n + 1.0)) / self.tie_correction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation of `scipy.stats.kruskal`, the second with ties.
    #[test]
    fn the_statistic_is_that_of_scipy() {
        let odd_even = [vec![1.0, 3.0, 5.0, 7.0, 9.0], vec![2.0, 4.0, 6.0, 8.0, 10.0]];
        assert!((statistic(&odd_even).unwrap() - 0.272_727_272_727_272_7).abs() < 1e-12);
        let tied = [vec![1.0; 3], vec![2.0; 3], vec![2.0; 2]];
        assert!((statistic(&tied).unwrap() - 7.0).abs() < 1e-12);
    }

    /// All assignments counted by hand. Of 20, two separate 1, 2, 3 from 4, 5, 6. Of the 56 places of three ones among
    /// groups of 3, 3 and 2, two fill a group.
    #[test]
    fn p_values_are_those_of_all_assignments() {
        for (groups, exact) in [
            (vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]], 2.0 / 20.0),
            (vec![vec![1.0; 3], vec![2.0; 3], vec![2.0; 2]], 2.0 / 56.0),
        ] {
            let p = permutation_p(&groups, 1).unwrap();
            // Three standard errors of a share of 9,999 assignments.
            let error = 3.0 * (exact * (1.0 - exact) / 9_999.0_f64).sqrt();
            assert!((p - exact).abs() < error + 1e-4, "{p} is not {exact}");
        }
    }

    #[test]
    fn one_group_or_equal_values_cannot_differ() {
        assert_eq!(statistic(&[vec![1.0, 2.0]]), None);
        assert_eq!(statistic(&[vec![1.0, 2.0], vec![]]), None);
        assert_eq!(permutation_p(&[vec![1.0; 4], vec![1.0; 4]], 1), None);
        assert_eq!(statistic(&[]), None);
    }

    #[test]
    fn the_order_of_groups_does_not_matter_to_the_statistic() {
        let groups = [vec![0.3, 0.1, 0.7], vec![0.2, 0.9], vec![0.5, 0.4, 0.8]];
        let mut turned = groups.clone();
        turned.reverse();
        let (one, other) = (statistic(&groups).unwrap(), statistic(&turned).unwrap());
        assert!((one - other).abs() < 1e-12);
    }
}
