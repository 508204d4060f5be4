//! Differences to the baseline with their intervals, one row each, on an axis in percent.

use crate::chart::dots::{AXIS, RowPlace, TOP, row_places};
use crate::chart::scale::AxisScale;
use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::numbers;
use carat_model::Estimate;

pub(crate) struct DifferenceRow {
    /// The metric, which determines the unit.
    pub metric: String,
    /// Name of the variant; shown only if this picture is below the dots instead of beside them.
    pub label: String,
    /// Colour and shape.
    pub class: usize,
    /// The difference, or the reason why there is none.
    pub estimate: Result<Estimate, String>,
}

const WIDTH: f64 = 320.0;
const LEFT: f64 = 14.0;
const RIGHT: f64 = 306.0;
/// Characters of a name that has room beside its value.
const SHORT: usize = 16;
/// An interval is cut off with an arrow beyond this, so that one wide interval does not compress the others.
const WIDEST: f64 = 1.0;

/// The picture, with the margin below which differences do not matter as a band around zero, and the limit of a guard with its
/// sign.
pub(crate) fn differences(
    rows: &[DifferenceRow],
    margin: f64,
    limit: Option<f64>,
    caption: Caption,
) -> Picture {
    let estimates = rows.iter().filter_map(|row| row.estimate.as_ref().ok());
    let (low, high) = reach(estimates, limit, margin, WIDEST);
    // A range of nothing has no scale.
    let pad = (high - low).max(1e-4) * 0.08;
    let scale = AxisScale::linear((low - pad, high + pad), (LEFT, RIGHT));
    let places = row_places(rows.iter().map(|row| row.label.as_str()));
    let spans: Vec<(f64, f64)> = places.iter().map(RowPlace::marks).collect();
    let bottom = places.last().map_or(TOP, RowPlace::bottom);
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    let band = (scale.clamped(-margin), scale.clamped(margin));
    for (top, bottom) in &spans {
        svg.rect("margin", (band.0, *top), (band.1 - band.0, bottom - top));
    }
    let ticks = scale.named_ticks(5, numbers::percent_tick);
    svg.x_ticks((&scale, &ticks), &spans, bottom + 16.0, "zero");
    svg.text("axis", (RIGHT, bottom + 33.0), Anchor::End, "difference to the baseline, %");
    if let Some(x) = limit.map(|limit| scale.at(limit)) {
        for (top, bottom) in spans {
            svg.line("limit", (x, top), (x, bottom));
        }
    }
    // All values below the bars or none, so that rows stay comparable.
    let below = rows.iter().any(|row| row.label.chars().count() > SHORT);
    for (row, place) in rows.iter().zip(&places) {
        draw_row(&mut svg, row, &scale, place, below);
    }
    svg.finish(caption, serde_json::Value::Null)
}

/// From the smallest to the largest end of any interval, including zero and what is `within` of it, as far as `widest`: one
/// wide interval would press all others together.
pub(crate) fn reach<'a>(
    estimates: impl Iterator<Item = &'a Estimate>,
    limit: Option<f64>,
    within: f64,
    widest: f64,
) -> (f64, f64) {
    let ends = estimates.flat_map(|one| [one.ratio_interval.0, one.ratio_interval.1]).chain(limit);
    // An infinite end has no place; it is cut off with an arrow.
    let (low, high) = ends
        .filter(|end| end.is_finite())
        .fold((-within, within), |(low, high), end| (low.min(end), high.max(end)));
    (low.max(-widest), high.min(widest))
}

/// A row; its value is `below` the interval where names have no room beside it.
fn draw_row(svg: &mut Svg, row: &DifferenceRow, scale: &AxisScale, place: &RowPlace, below: bool) {
    svg.open(&format!("v{}", row.class));
    place.draw_name(svg, "name narrow", LEFT);
    let y = if below { place.bottom() - 5.0 } else { place.first_line() };
    match &row.estimate {
        Err(why) => svg.text("note", (RIGHT, y), Anchor::End, why),
        Ok(estimate) => {
            let text = numbers::estimate(&row.metric, estimate);
            svg.text("value", (RIGHT, y), Anchor::End, &text);
            draw_interval(svg, estimate, scale, place.middle());
        }
    }
    svg.close();
}

/// A bar with a mark at the estimate, and an arrow at an end that is out of range.
pub(crate) fn draw_interval(svg: &mut Svg, estimate: &Estimate, scale: &AxisScale, y: f64) {
    let (lower, upper) = estimate.ratio_interval;
    let (left, right) = (scale.clamped(lower), scale.clamped(upper));
    svg.line("interval", (left, y), (right, y));
    for (value, x, tip) in [(lower, left, -1.0), (upper, right, 1.0)] {
        // Half a pixel: the clamped place differs, so the end is outside.
        let d = if (scale.at(value) - x).abs() > 0.5 {
            let back = x - tip * 6.0;
            format!("M{back:.1} {:.1}L{x:.1} {y:.1}L{back:.1} {:.1}", y - 5.0, y + 5.0)
        } else {
            format!("M{x:.1} {:.1}V{:.1}", y - 5.0, y + 5.0)
        };
        svg.path("end", &d);
    }
    let x = scale.clamped(estimate.ratio);
    let beyond = scale.at(estimate.ratio) - x;
    if beyond.abs() <= 0.5 {
        svg.path("mark", &super::svg::dot_path(std::iter::once((x, y))));
        return;
    }
    // A mark at the end of the axis would be read as a value there.
    let tip = beyond.signum();
    let back = x - tip * 10.0;
    svg.path("beyond", &format!("M{x:.1} {y:.1}L{back:.1} {:.1}V{:.1}Z", y - 6.0, y + 6.0));
    let anchor = if tip > 0.0 { Anchor::End } else { Anchor::Start };
    let text = format!("{:+.0} %", 100.0 * estimate.ratio).replace('-', "−");
    svg.text("note", (back - tip * 4.0, y - 5.0), anchor, &text);
}
