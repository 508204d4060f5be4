//! Differences in bytes as bars to both sides of zero, one row each.

use crate::chart::scale::{AxisScale, distance};
use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::numbers::AxisUnit;
use crate::text::shorten;
use carat_model::Unit;

pub(crate) struct DivergingRow {
    pub label: String,
    /// The amounts behind the difference, in words.
    pub note: String,
    /// Colour of its part; `None` for the whole.
    pub class: Option<usize>,
    /// Bytes more than in the reference.
    pub difference: f64,
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

/// The picture on the scale of `reach`; `reference` is what the differences are to.
pub(crate) fn diverging(
    rows: &[DivergingRow],
    reach: (f64, f64),
    reference: &str,
    caption: &Caption<'_>,
) -> Picture {
    let bottom = TOP + rows.len() as f64 * ROW;
    let scale = AxisScale::linear(reach, (LEFT, RIGHT));
    let mut svg = Svg::new(WIDTH, bottom + 36.0);
    let ticks = scale.ticks(6);
    let axis = AxisUnit::of(Unit::Bytes, reach.0.abs().max(reach.1.abs()));
    for tick in &ticks {
        let x = scale.at(*tick);
        for at in 0..rows.len() {
            // Beside the bars alone: a line over the whole height would cross the texts.
            let top = TOP + at as f64 * ROW + BAR.0 - 1.0;
            let class = if *tick == 0.0 { "zero" } else { "grid" };
            svg.line(class, (x, top), (x, top + BAR.1 + 5.0));
        }
        let sign = if *tick > 0.0 { "+" } else { "" };
        let text = format!("{sign}{}", axis.tick(*tick, distance(&ticks)));
        svg.text("tick", (x, bottom + 15.0), Anchor::Middle, &text);
    }
    let name = format!("difference to {}, {}", shorten(reference, 40), axis.name);
    svg.text("axis", (RIGHT, bottom + 31.0), Anchor::End, &name);
    for (at, row) in rows.iter().enumerate() {
        draw_row(&mut svg, row, &scale, TOP + at as f64 * ROW);
    }
    svg.finish(caption, serde_json::Value::Null)
}

fn draw_row(svg: &mut Svg, row: &DivergingRow, scale: &AxisScale, y: f64) {
    let (zero, end) = (scale.at(0.0), scale.clamped(row.difference));
    let (left, width) = (zero.min(end), (end - zero).abs());
    if let Some(class) = row.class {
        svg.open(&format!("p{class}"));
    }
    // Thinner than a tenth of a pixel is drawn as nothing.
    if width > 0.05 {
        let class = if row.class.is_some() { "part" } else { "whole" };
        svg.rect(class, (left, y + BAR.0), (width, BAR.1));
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
        let row = |difference| DivergingRow {
            label: "malloc, free".into(),
            note: String::new(),
            class: Some(2),
            difference,
        };
        let rows = [row(-40e6), row(40e6)];
        let reach = reach(rows.iter().map(|row| row.difference));
        let caption = Caption { id: "x", title: "t", description: "d" };
        let text = diverging(&rows, reach, "default", &caption).markup.into_string();
        let edge = |marker: &str, at: usize| -> f64 {
            let part = text.split("<rect").nth(at).unwrap().split_once(marker).unwrap().1;
            part.split('"').next().unwrap().parse().unwrap()
        };
        let end_of_first = edge(" x=\"", 1) + edge(" width=\"", 1);
        assert!((end_of_first - edge(" x=\"", 2)).abs() < 0.2, "{text}");
        assert!((edge(" width=\"", 1) - edge(" width=\"", 2)).abs() < 0.2, "{text}");
    }
}
