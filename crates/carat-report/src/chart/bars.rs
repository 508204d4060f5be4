//! Horizontal bars of bytes, one row each: amounts from zero, or differences to both sides of it.

use crate::chart::scale::AxisScale;
use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::numbers::AxisUnit;
use crate::text::shorten;
use carat_model::Unit;

pub(crate) struct BarRow {
    pub label: String,
    /// The amount in words.
    pub note: String,
    /// Colour of its part; `None` for the whole.
    pub class: Option<usize>,
    /// The kind of each bar, and the bytes from which to which it reaches.
    pub bars: Vec<(&'static str, f64, f64)>,
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 2.0;
const RIGHT: f64 = 478.0;
const ROW: f64 = 37.0;
/// Top of a bar within its row, and its height.
const BAR: (f64, f64) = (18.0, 13.0);
const TOP: f64 = 6.0;

/// The range of differences with zero in it, to give several pictures the same scale.
pub(crate) fn reach(differences: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = differences.filter(|one| one.is_finite());
    // From zero, so that the line of "no difference" is always in the picture.
    let (low, high) =
        finite.fold((0.0, 0.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
    // A single difference of zero still needs a scale.
    let pad = (high - low).max(1.0) * 0.03;
    (low - pad, high + pad)
}

/// The picture from `low` to `high`. With a `reference` the bars are differences to it.
pub(crate) fn bars(
    rows: &[BarRow],
    (low, high): (f64, f64),
    reference: Option<&str>,
    caption: Caption,
) -> Picture {
    let bottom = TOP + rows.len() as f64 * ROW;
    let scale = AxisScale::linear((low, high), (LEFT, RIGHT));
    let mut svg = Svg::new(WIDTH, bottom + 36.0);
    let axis = AxisUnit::of(Unit::Bytes, low.abs().max(high.abs()));
    let ticks = scale.named_ticks(6, |tick, distance| {
        let sign = if reference.is_some() && tick > 0.0 { "+" } else { "" };
        format!("{sign}{}", axis.tick(tick, distance))
    });
    // Beside the bars alone, where a line over the whole height would cross the texts.
    let beside = (0..rows.len()).map(|at| TOP + at as f64 * ROW + BAR.0 - 1.0);
    let (spans, zero) = match reference {
        None => (vec![(TOP, bottom)], "grid"),
        Some(_) => (beside.map(|top| (top, top + BAR.1 + 5.0)).collect(), "zero"),
    };
    svg.x_ticks((&scale, &ticks), &spans, bottom + 15.0, zero);
    let to = reference.map(|to| format!("difference to {}, {}", shorten(to, 40), axis.name));
    let name = to.unwrap_or_else(|| axis.name.to_owned());
    svg.text("axis", (RIGHT, bottom + 31.0), Anchor::End, &name);
    for (at, row) in rows.iter().enumerate() {
        draw_row(&mut svg, row, &scale, TOP + at as f64 * ROW);
    }
    svg.finish(caption, serde_json::Value::Null)
}

fn draw_row(svg: &mut Svg, row: &BarRow, scale: &AxisScale, y: f64) {
    if let Some(class) = row.class {
        svg.open(&format!("p{class}"));
    }
    for (kind, from, to) in &row.bars {
        let (left, right) = (scale.clamped(from.min(*to)), scale.clamped(from.max(*to)));
        // Thinner than a tenth of a pixel is drawn as nothing.
        if right - left > 0.05 {
            svg.rect(kind, (left, y + BAR.0), (right - left, BAR.1));
        }
    }
    if row.class.is_some() {
        svg.close();
    }
    svg.text("row", (LEFT, y + 13.0), Anchor::Start, &shorten(&row.label, 40));
    svg.text("row", (RIGHT, y + 13.0), Anchor::End, &row.note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_opposite_differences_meet_at_zero() {
        let row = |difference| BarRow {
            label: "malloc, free".into(),
            note: String::new(),
            class: Some(2),
            bars: vec![("part", 0.0, difference)],
        };
        let reach = reach([-40e6, 40e6].into_iter());
        let caption = Caption::new("x", "t", "d");
        let rows = [row(-40e6), row(40e6)];
        let text = bars(&rows, reach, Some("default"), caption).markup.into_string();
        let edge = |marker: &str, at: usize| -> f64 {
            let part = text.split("<rect").nth(at).unwrap().split_once(marker).unwrap().1;
            part.split('"').next().unwrap().parse().unwrap()
        };
        let end_of_first = edge(" x=\"", 1) + edge(" width=\"", 1);
        assert!((end_of_first - edge(" x=\"", 2)).abs() < 0.2, "{text}");
        assert!((edge(" width=\"", 1) - edge(" width=\"", 2)).abs() < 0.2, "{text}");
    }
}
