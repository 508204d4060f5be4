//! Every trial as a dot, one row per variant, with the median and the middle half.

use crate::chart::scale::{AxisScale, range};
use crate::chart::svg::{Anchor, Caption, Picture, Svg, dot_path};
use crate::facts;
use crate::lists::grouped_in_order;
use crate::numbers::{AxisUnit, count, rounded};
use crate::text::{shorten, wrapped};
use carat_model::Unit;
use serde_json::json;

pub(crate) struct DotRow {
    pub label: String,
    /// Colour and shape.
    pub class: usize,
    /// Block and value of every trial.
    pub values: Vec<(u32, f64)>,
    /// Trials that do not count, in words.
    pub failures: Option<String>,
}

/// Height of a row whose name has one line.
const ROW: f64 = 58.0;
/// Height of every further line of a name.
const LINE: f64 = 14.0;
/// Characters in a line of a name.
const NAME: usize = 38;
/// Characters shown of a name: a limit for hostile files, which no real name reaches.
pub(crate) const LONGEST_NAME: usize = 200;
/// Top of the first row.
pub(crate) const TOP: f64 = 4.0;
/// Height of the axis below the rows.
pub(crate) const AXIS: f64 = 40.0;

const WIDTH: f64 = 480.0;
const LEFT: f64 = 8.0;
const RIGHT: f64 = 472.0;
/// Distance between dots in pixels.
const PITCH: f64 = 6.0;
/// Half the height of a row's dots.
const HALF: f64 = 15.0;

/// A row's place: as high as its name requires, here and in the picture of differences beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowPlace {
    pub top: f64,
    pub height: f64,
    /// The lines of its name.
    pub name: Vec<String>,
}

impl RowPlace {
    /// The baseline of the first line of text.
    pub(crate) fn first_line(&self) -> f64 {
        self.top + 13.0
    }

    /// The middle of the marks below the name.
    pub(crate) fn middle(&self) -> f64 {
        self.top + self.height - 23.0
    }

    /// Top and bottom of the marks: lines of an axis stop there, so that none crosses a text.
    pub(crate) fn marks(&self) -> (f64, f64) {
        (self.middle() - HALF - 4.0, self.bottom() - 2.0)
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn draw_name(&self, svg: &mut Svg, class: &str, x: f64) {
        for (line, at) in self.name.iter().zip(0_u32..) {
            let y = self.first_line() + LINE * f64::from(at);
            svg.text(class, (x, y), Anchor::Start, line);
        }
    }
}

/// The places of rows with these names, from top to bottom.
pub(crate) fn row_places<'a>(names: impl Iterator<Item = &'a str>) -> Vec<RowPlace> {
    let mut places: Vec<RowPlace> = Vec::new();
    for name in names {
        // Shortened first: a hostile name must not make the picture high.
        let name = wrapped(&shorten(name, LONGEST_NAME), NAME);
        let height = ROW + LINE * (name.len() - 1) as f64;
        places.push(RowPlace { top: places.last().map_or(TOP, RowPlace::bottom), height, name });
    }
    places
}

/// The picture; `None` if no row has a value.
pub(crate) fn dots(rows: &[DotRow], unit: Unit, caption: Caption) -> Option<Picture> {
    let all = range(rows.iter().flat_map(|row| row.values.iter().map(|(_, value)| *value)), 0.04)?;
    let scale = AxisScale::linear(all, (LEFT + 4.0, RIGHT - 4.0));
    let places = row_places(rows.iter().map(|row| row.label.as_str()));
    let bottom = places.last().map_or(TOP, RowPlace::bottom);
    let mut svg = Svg::new(WIDTH, bottom + AXIS);
    let axis = AxisUnit::of(unit, scale.values().1);
    let ticks = scale.named_ticks(6, |tick, distance| axis.tick(tick, distance));
    let spans: Vec<(f64, f64)> = places.iter().map(RowPlace::marks).collect();
    svg.x_ticks((&scale, &ticks), &spans, bottom + 16.0, "grid");
    svg.text("axis", (RIGHT, bottom + 33.0), Anchor::End, axis.name);
    for (row, place) in rows.iter().zip(&places) {
        draw_row(&mut svg, row, (&scale, unit), place);
    }
    // The values that the cursor shows: block and value of every dot.
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.label,
                "v": row.class,
                "block": row.values.iter().map(|(block, _)| block).collect::<Vec<_>>(),
                "x": row.values.iter().map(|(_, value)| rounded(*value)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let hover = json!({
        "kind": "dots",
        "x": scale.ends(),
        "middles": places.iter().map(RowPlace::middle).collect::<Vec<_>>(),
        "bottoms": places.iter().map(RowPlace::bottom).collect::<Vec<_>>(),
        "xunit": axis.unit_json(),
        "rows": shown,
    });
    Some(svg.finish(caption, hover))
}

fn draw_row(svg: &mut Svg, row: &DotRow, (scale, unit): (&AxisScale, Unit), place: &RowPlace) {
    svg.open(&format!("v{}", row.class));
    place.draw_name(svg, "name", LEFT);
    let middle = place.middle();
    let values: Vec<f64> = row.values.iter().map(|(_, value)| *value).collect();
    let Some(summary) = facts::summarize(&values) else {
        let why = row.failures.as_deref().unwrap_or("not measured");
        svg.text("note", (LEFT, middle - 1.0), Anchor::Start, &format!("no figure: {why}"));
        svg.close();
        return;
    };
    let text = format!("{} · {}", unit.show(summary.median), count(summary.n, "trial"));
    svg.text("value", (RIGHT, place.first_line()), Anchor::End, &text);
    // Quartiles of three values are the values themselves.
    if summary.n > 3 {
        let (left, right) = (scale.at(summary.lower), scale.at(summary.upper));
        svg.rect("half", (left, middle - HALF - 1.0), (right - left, 2.0 * HALF + 2.0));
    }
    svg.path("dots", &dot_path(swarm(&values, scale).into_iter().map(|(x, dy)| (x, middle + dy))));
    let x = scale.at(summary.median);
    svg.line("median", (x, middle - HALF - 3.0), (x, middle + HALF + 3.0));
    svg.close();
}

/// Positions that overlap as little as possible: the dots of a column are stacked around the middle line, closer
/// together if the column is full.
fn swarm(values: &[f64], scale: &AxisScale) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let sorted = sorted.into_iter().map(|value| scale.at(value));
    // Neighbours of one column would overlap, so they are stacked.
    let columns = grouped_in_order(sorted.map(|x| ((x / PITCH).floor() as i64, x)));
    let mut places = Vec::with_capacity(values.len());
    for column in columns.values() {
        // A full column is pressed together rather than leaving its row.
        let gap = PITCH.min(2.0 * HALF / column.len().max(2) as f64);
        for (at, x) in column.iter().enumerate() {
            // Alternating, so that the stack stays around the middle.
            let side = if at % 2 == 0 { 1.0 } else { -1.0 };
            places.push((*x, side * at.div_ceil(2) as f64 * gap));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_takes_several_lines_and_pushes_the_rows_below_down() {
        let long = "prepared fork without compaction, two arenas and jemalloc";
        let places = row_places(["default", long, "x"].into_iter());
        assert_eq!(places[1].name.join(" "), long);
        assert_eq!(places[1].height, places[0].height + LINE);
        assert_eq!((places[1].top, places[2].top), (places[0].bottom(), places[1].bottom()));
        let row = DotRow { label: long.into(), class: 1, values: vec![(1, 5.0)], failures: None };
        let caption = Caption::new("x", "t", "d");
        let text = dots(&[row], Unit::Count, caption).unwrap().markup.into_string();
        assert!(text.contains(">arenas and jemalloc</text>") && !text.contains('…'), "{text}");
    }

    #[test]
    fn a_thousand_equal_values_stay_within_their_row() {
        let scale = AxisScale::linear((0.0, 1.0), (0.0, 400.0));
        let places = swarm(&[0.5; 1000], &scale);
        assert_eq!(places.len(), 1000);
        assert!(places.iter().all(|(_, dy)| dy.abs() <= HALF + 0.1));
    }
}
