//! A forest plot: many differences, one row each.

use crate::chart::difference::{self, draw_interval};
use crate::chart::dots::LONGEST_NAME;
use crate::chart::scale::AxisScale;
use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::numbers;
use crate::text::{shorten, wrapped};
use carat_model::{Conclusion, Estimate};

pub(crate) struct ForestRow {
    pub label: String,
    /// The metric, which determines the unit.
    pub metric: String,
    pub class: usize,
    pub estimate: Estimate,
}

impl ForestRow {
    /// The row of a comparison; `None` without a difference in percent, which the axis is of.
    pub(crate) fn new(label: String, class: usize, compared: &Conclusion) -> Option<Self> {
        let estimate = compared.estimate.filter(|found| !found.in_own_unit)?;
        Some(Self { label, metric: compared.metric.clone(), class, estimate })
    }
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 178.0;
const RIGHT: f64 = 470.0;
const ROW: f64 = 36.0;
const TOP: f64 = 6.0;
/// Height of every further line of a name.
const LINE: f64 = 13.0;
/// Characters in a line of a name.
const NAME: usize = 26;
/// An interval is cut off with an arrow beyond this.
const WIDEST: f64 = 0.6;

/// The range of all rows, to give several panels the same scale.
pub(crate) fn reach<'a>(rows: impl Iterator<Item = &'a ForestRow>) -> (f64, f64) {
    // Never empty, even if every difference is zero.
    difference::reach(rows.map(|row| &row.estimate), None, 1e-3, WIDEST)
}

/// The axis of a forest plot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForestAxis {
    /// The range, from [`reach`].
    pub reach: (f64, f64),
    /// What the differences are to.
    pub reference: &'static str,
    /// Differences smaller than this share do not matter; drawn as a band.
    pub margin: Option<f64>,
}

/// The picture, with its id and title; `None` without rows.
pub(crate) fn forest(
    rows: &[ForestRow],
    axis: ForestAxis,
    id: String,
    title: String,
) -> Option<Picture> {
    if rows.is_empty() {
        return None;
    }
    let (low, high) = axis.reach;
    let pad = (high - low) * 0.06;
    let scale = AxisScale::linear((low - pad, high + pad), (LEFT, RIGHT));
    let names: Vec<Vec<String>> =
        rows.iter().map(|row| wrapped(&shorten(&row.label, LONGEST_NAME), NAME)).collect();
    let heights = names.iter().map(|lines| ROW + LINE * (lines.len() - 1) as f64);
    let bottom = TOP + heights.sum::<f64>();
    let mut svg = Svg::new(WIDTH, bottom + 38.0);
    if let Some(margin) = axis.margin {
        let (left, right) = (scale.clamped(-margin), scale.clamped(margin));
        svg.rect("margin", (left, TOP), (right - left, bottom - TOP));
    }
    let ticks = scale.named_ticks(5, numbers::percent_tick);
    svg.x_ticks((&scale, &ticks), &[(TOP, bottom)], bottom + 15.0, "zero");
    let name = format!("difference to the {}, %", axis.reference);
    svg.text("axis", (RIGHT, bottom + 32.0), Anchor::End, &name);
    let mut y = TOP + 0.5 * ROW;
    let mut description = Vec::new();
    for (row, name) in rows.iter().zip(&names) {
        svg.open(&format!("v{}", row.class));
        for (at, line) in name.iter().enumerate() {
            y += if at > 0 { LINE } else { 0.0 };
            svg.text("row", (0.0, y - 2.0), Anchor::Start, line);
        }
        let note = numbers::estimate(&row.metric, &row.estimate);
        svg.text("note", (0.0, y + 12.0), Anchor::Start, &note);
        draw_interval(&mut svg, &row.estimate, &scale, y);
        svg.close();
        y += ROW;
        description.push(format!("{}: {note}", row.label));
    }
    let caption = Caption::new(id, title, description.join("; "));
    Some(svg.finish(caption, serde_json::Value::Null))
}
