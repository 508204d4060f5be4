//! An interval around zero in the columns of a terminal.

use carat_model::Estimate;

/// Half the columns of an interval bar.
const HALF: f64 = 10.0;

/// An interval around zero in 21 columns, of which the first and the last are at `scale`: `   ├─●─┤  │          `.
pub(crate) fn interval_bar(estimate: &Estimate, scale: f64) -> String {
    let (low, high) = estimate.ratio_interval;
    let [low, high, middle] = [low, high, estimate.ratio].map(|ratio| bar_column(ratio, scale));
    (0..=2 * HALF as usize)
        .map(|column| match column {
            // The estimate before the ends: a narrow interval is one column.
            at if at == middle => '●',
            at if at == low => '├',
            at if at == high => '┤',
            at if at > low && at < high => '─',
            // The column of zero, half-way.
            10 => '│',
            _ => ' ',
        })
        .collect()
}

fn bar_column(ratio: f64, scale: f64) -> usize {
    let share = if scale > 0.0 { (ratio / scale).clamp(-1.0, 1.0) } else { 0.0 };
    (HALF + share * HALF).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::estimate;

    #[test]
    fn an_interval_bar_marks_zero() {
        for (low, ratio, high, scale, text) in [
            (-0.24, -0.21, -0.18, 0.24, "├●─┤      │          "),
            (-0.1, 0.05, 0.1, 0.2, "     ├───────●─┤     "),
        ] {
            assert_eq!(interval_bar(&estimate(low, ratio, high), scale), text);
        }
    }
}
