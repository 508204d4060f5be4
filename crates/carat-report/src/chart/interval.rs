//! One difference with its interval as a small picture for a row of a table, and the axis below all rows.

use crate::chart::difference::{draw_interval, reach};
use crate::chart::scale::AxisScale;
use crate::chart::svg::{Anchor, Svg};
use crate::numbers;
use carat_model::Estimate;
use maud::Markup;

/// The axis that the rows of a table share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntervalAxis {
    scale: AxisScale,
    /// Differences smaller than this share do not matter.
    margin: f64,
}

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 30.0;
const LEFT: f64 = 14.0;
const RIGHT: f64 = 286.0;
/// The axis ends here at most, so that one wide interval does not compress the others.
const WIDEST: f64 = 1.0;

impl IntervalAxis {
    /// From the smallest to the largest end of any interval; includes zero and the margin. `None` without an estimate.
    pub(crate) fn new(estimates: &[Estimate], margin: f64) -> Option<Self> {
        let mut ends =
            estimates.iter().flat_map(|one| [one.ratio_interval.0, one.ratio_interval.1]);
        if !ends.any(f64::is_finite) {
            return None;
        }
        // The margin is always in the picture: an interval is read against it.
        let (low, high) = reach(estimates.iter(), None, margin, WIDEST);
        let pad = (high - low).max(1e-4) * 0.06;
        let scale = AxisScale::linear((low - pad, high + pad), (LEFT, RIGHT));
        Some(Self { scale, margin })
    }

    /// The band of the margin and the lines of the ticks, over the whole height of a row.
    fn background(&self, svg: &mut Svg, height: f64) {
        let band = (self.scale.clamped(-self.margin), self.scale.clamped(self.margin));
        svg.rect("margin", (band.0, 0.0), (band.1 - band.0, height));
        for tick in self.scale.ticks(4) {
            let x = self.scale.at(tick);
            svg.line(if tick == 0.0 { "zero" } else { "grid" }, (x, 0.0), (x, height));
        }
    }
}

/// The interval of one row. Its figures stand in a cell of their own, so the picture is hidden from screen readers.
pub(crate) fn interval_picture(estimate: &Estimate, axis: &IntervalAxis) -> Markup {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    axis.background(&mut svg, HEIGHT);
    draw_interval(&mut svg, estimate, &axis.scale, HEIGHT / 2.0);
    svg.silent()
}

/// The numbers of the axis.
pub(crate) fn axis_picture(axis: &IntervalAxis) -> Markup {
    let mut svg = Svg::new(WIDTH, 22.0);
    axis.background(&mut svg, 4.0);
    for (tick, text) in axis.scale.named_ticks(4, numbers::percent_tick) {
        svg.text("tick", (axis.scale.at(tick), 17.0), Anchor::Middle, &format!("{text} %"));
    }
    svg.silent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn estimate(ratio: f64) -> Estimate {
        testing::estimate(ratio - 0.1, ratio, ratio + 0.1)
    }

    #[test]
    fn a_value_beyond_the_axis_has_a_mark_at_its_end_and_its_number() {
        let axis = IntervalAxis::new(&[estimate(-0.2)], 0.02).unwrap();
        let inside = interval_picture(&estimate(-0.2), &axis).into_string();
        assert!(!inside.contains("<text") && inside.contains(r#"class="mark""#), "{inside}");
        let beyond = interval_picture(&estimate(3.0), &axis).into_string();
        assert!(beyond.contains("+300 %") && beyond.contains(r#"class="beyond""#), "{beyond}");
        assert!(IntervalAxis::new(&[], 0.02).is_none());
    }
}
