//! A waterfall chart: parts that add up to a total, each bar beginning where the one before ends.

use crate::chart::scale::{AxisScale, distance};
use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::numbers::{AxisUnit, percent};
use crate::text::shorten;
use carat_model::Unit;

pub(crate) struct WaterfallPart {
    pub label: String,
    pub class: usize,
    /// Bytes that no other process maps.
    pub private: f64,
    /// The proportional part of memory that others map too.
    pub shared: f64,
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 2.0;
const RIGHT: f64 = 478.0;
const ROW: f64 = 37.0;
/// Top of a bar within its row, and its height.
const BAR: (f64, f64) = (18.0, 13.0);
const TOP: f64 = 6.0;

/// The picture: the parts, the unexplained line, the total. The axis ends at `reach`, at least at the total, to give
/// several pictures the same scale.
pub(crate) fn waterfall(
    parts: &[WaterfallPart],
    unexplained: f64,
    (total, reach): (f64, f64),
    caption: &Caption<'_>,
) -> Picture {
    // Two more rows: what is unexplained, and the total.
    let rows = parts.len() + 2;
    let bottom = TOP + rows as f64 * ROW;
    // The larger of both, so that several pictures have one scale.
    let scale = AxisScale::linear((0.0, total.max(reach).max(1.0)), (LEFT, RIGHT));
    let mut svg = Svg::new(WIDTH, bottom + 36.0);
    let ticks = scale.ticks(6);
    let axis = AxisUnit::of(Unit::Bytes, total.max(reach));
    for tick in &ticks {
        let x = scale.at(*tick);
        svg.line("grid", (x, TOP), (x, bottom));
        svg.text("tick", (x, bottom + 15.0), Anchor::Middle, &axis.tick(*tick, distance(&ticks)));
    }
    svg.text("axis", (RIGHT, bottom + 31.0), Anchor::End, axis.name);
    let mut at = 0.0;
    for (row, part) in parts.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        svg.open(&format!("p{}", part.class));
        bar(&mut svg, "part", (&scale, at, at + part.private), y);
        bar(
            &mut svg,
            "part shared",
            (&scale, at + part.private, at + part.private + part.shared),
            y,
        );
        svg.close();
        label(&mut svg, &part.label, part.private + part.shared, (total, y));
        at += part.private + part.shared;
    }
    let y = TOP + parts.len() as f64 * ROW;
    // Negative where the parts exceed the kernel's figure; the bar then goes back.
    bar(&mut svg, "unexplained", (&scale, at.min(at + unexplained), at.max(at + unexplained)), y);
    label(&mut svg, "unexplained", unexplained, (total, y));
    bar(&mut svg, "whole", (&scale, 0.0, total), y + ROW);
    label(&mut svg, "the kernel's figure", total, (total, y + ROW));
    svg.finish(caption, serde_json::Value::Null)
}

fn bar(svg: &mut Svg, class: &str, (scale, from, to): (&AxisScale, f64, f64), y: f64) {
    let (left, right) = (scale.clamped(from), scale.clamped(to));
    // Thinner than a tenth of a pixel is nothing.
    if right - left > 0.05 {
        svg.rect(class, (left, y + BAR.0), (right - left, BAR.1));
    }
}

fn label(svg: &mut Svg, name: &str, bytes: f64, (total, y): (f64, f64)) {
    let share = if total > 0.0 { bytes / total } else { 0.0 };
    svg.text("row", (LEFT, y + 13.0), Anchor::Start, &shorten(name, 40));
    let text = format!("{} · {}", Unit::Bytes.show(bytes), percent(share, 1));
    svg.text("row", (RIGHT, y + 13.0), Anchor::End, &text);
}
