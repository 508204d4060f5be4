//! Line charts with bands, markers, and labels at the ends of the lines.

use crate::chart::reduce::BandPoint;
use crate::chart::scale::{AxisScale, range};
use crate::chart::svg::{Anchor, Caption, Picture, Svg, dot_path, line_path, n};
use crate::numbers::{AxisUnit, rounded, significant};
use carat_model::Unit;
use maud::{Markup, html};
use serde_json::json;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Thick, labelled at its end, read out by the cursor.
    Main,
    /// As `Main`, with a dot at every point.
    Points,
    /// Thin and pale: one trial of many.
    Thin,
    /// Dashed and labelled: a line for comparison.
    Reference,
}

pub(crate) struct PlotLine {
    pub label: String,
    /// Colour, shape and dash: the variant's number.
    pub class: usize,
    pub stroke: Stroke,
    pub points: Vec<(f64, f64)>,
}

/// The kind of an axis and its unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Axis {
    Linear(Unit),
    Logarithmic(Unit),
    /// Linear with named ticks: place and text.
    Named(Vec<(f64, String)>),
}

pub(crate) struct Plot {
    pub x: Axis,
    /// Name of the x axis.
    pub x_name: String,
    pub y: Axis,
    pub lines: Vec<PlotLine>,
    /// Bands with their colours.
    pub bands: Vec<(usize, Vec<BandPoint>)>,
    /// Vertical lines: place on the x axis, and name. The names of the first have room before those of the last.
    pub markers: Vec<(f64, String)>,
    /// Range of x, to give several charts the same; `None` takes the range of the lines.
    pub x_range: Option<(f64, f64)>,
    /// The same for y.
    pub y_range: Option<(f64, f64)>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 250.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 208.0;
const LEFT: f64 = 46.0;

impl PlotLine {
    pub(crate) fn new(
        label: impl Into<String>,
        class: usize,
        stroke: Stroke,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Self { label: label.into(), class, stroke, points }
    }

    /// A thin line without a label.
    pub(crate) fn thin(class: usize, points: Vec<(f64, f64)>) -> Self {
        Self::new("", class, Stroke::Thin, points)
    }

    fn labelled(&self) -> bool {
        self.stroke != Stroke::Thin
    }
}

/// Characters of a name that fit at the end of a line; if one is longer, all names are in a list above the picture.
const END_LABEL: usize = 14;

impl Plot {
    /// A chart that takes its ranges from its lines.
    pub(crate) fn new(x: Axis, x_name: &str, y: Axis, lines: Vec<PlotLine>) -> Self {
        Self {
            x,
            x_name: x_name.to_owned(),
            y,
            lines,
            bands: Vec::new(),
            markers: Vec::new(),
            x_range: None,
            y_range: None,
        }
    }

    /// The same over the time since the start.
    pub(crate) fn over_time(unit: Unit, lines: Vec<PlotLine>) -> Self {
        Self::new(Axis::Linear(Unit::Seconds), "since the start", Axis::Linear(unit), lines)
    }

    /// The ranges of x and y; `None` if there is nothing to draw.
    fn ranges(&self) -> Option<((f64, f64), (f64, f64))> {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = range(points().map(|point| point.0), 0.0)?;
        let bands = self.bands.iter().flat_map(|(_, band)| band.iter());
        let bands = bands.flat_map(|point| [point.lower, point.upper]);
        let y = points().map(|point| point.1).chain(bands);
        let y = match self.y {
            // A logarithmic axis needs a factor as its margin, not a sum.
            Axis::Logarithmic(_) => range(y, 0.0).map(|(low, high)| (low / 1.15, high * 1.15)),
            _ => range(y, 0.06),
        };
        Some((self.x_range.unwrap_or(x), self.y_range.or(y)?))
    }

    /// The picture; `None` if there is nothing to draw.
    pub(crate) fn draw(&self, caption: Caption) -> Option<Picture> {
        let (x_range, y_range) = self.ranges()?;
        let named = self.lines.iter().filter(|line| line.labelled() && !line.label.is_empty());
        let named: Vec<&PlotLine> = named.collect();
        // One long name moves all of them: a mixture would be read as two kinds.
        let above = named.iter().any(|line| line.label.chars().count() > END_LABEL);
        let right = if named.is_empty() || above { WIDTH - 8.0 } else { WIDTH - 116.0 };
        let x = scale(&self.x, x_range, (LEFT, right));
        let y = scale(&self.y, start_at_zero_if_near(y_range, &self.y), (BOTTOM, TOP));
        let mut svg = Svg::new(WIDTH, HEIGHT);
        draw_y(&mut svg, &self.y, &y, right);
        draw_x(&mut svg, self, &x, right);
        self.draw_marks(&mut svg, &x, &y, right);
        if !above {
            draw_labels(&mut svg, &named, &y, right);
        }
        let mut picture = svg.finish(caption, self.hover(&x, &y));
        if above {
            picture.markup = html! { (names_above(&named)) (picture.markup) };
        }
        Some(picture)
    }

    /// Bands, then lines, in a nested SVG that clips them and that the script zooms.
    fn draw_marks(&self, svg: &mut Svg, x: &AxisScale, y: &AxisScale, right: f64) {
        // Clipped, because the script can zoom in and lines leave the range.
        svg.open_clip((LEFT, TOP - 6.0), (right - LEFT, BOTTOM - TOP + 8.0));
        for (class, band) in self.bands.iter().filter(|(_, band)| !band.is_empty()) {
            let upper = band.iter().map(|b| (x.at(b.x), y.at(b.upper)));
            let lower = band.iter().rev().map(|b| (x.at(b.x), y.at(b.lower)));
            // Around the band and back, as one closed path.
            svg.path(&format!("band v{class}"), &format!("{}Z", line_path(upper.chain(lower))));
        }
        for line in &self.lines {
            let places: Vec<(f64, f64)> =
                line.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
            let class = match line.stroke {
                Stroke::Thin => "thin",
                Stroke::Reference => "reference",
                Stroke::Main | Stroke::Points => "line",
            };
            svg.path(&format!("{class} v{}", line.class), &line_path(places.iter().copied()));
            if line.stroke == Stroke::Points {
                svg.path(&format!("dots v{}", line.class), &dot_path(places.into_iter()));
            }
        }
        svg.close_clip();
    }

    /// The values that the cursor shows: those of every labelled line.
    fn hover(&self, x: &AxisScale, y: &AxisScale) -> serde_json::Value {
        let series: Vec<_> = self
            .lines
            .iter()
            .filter(|line| line.labelled())
            .map(|line| {
                json!({
                    "name": line.label,
                    "v": line.class,
                    "x": line.points.iter().map(|p| rounded(p.0)).collect::<Vec<_>>(),
                    "y": line.points.iter().map(|p| rounded(p.1)).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "kind": "lines",
            "x": x.ends(), "y": y.ends(),
            "xlog": matches!(self.x, Axis::Logarithmic(_)), "ylog": matches!(self.y, Axis::Logarithmic(_)),
            "xunit": unit_of(&self.x, x).unit_json(), "yunit": unit_of(&self.y, y).unit_json(),
            "xname": self.x_name,
            "xticks": match &self.x { Axis::Named(ticks) => Some(ticks), _ => None },
            "zoom": matches!(self.x, Axis::Linear(_)),
            "series": series,
        })
    }
}

/// Names at the ends of the lines, moved apart if they would overlap.
fn draw_labels(svg: &mut Svg, named: &[&PlotLine], y: &AxisScale, right: f64) {
    let ends = named.iter().filter_map(|line| Some((y.clamped(line.points.last()?.1), *line)));
    let mut ends: Vec<(f64, &PlotLine)> = ends.collect();
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    // Enough for all names, even if they touch.
    let room = 14.0_f64.min((BOTTOM - TOP + 10.0) / ends.len().max(1) as f64);
    let mut free = TOP - 6.0;
    for (at, _) in &mut ends {
        // Downwards only, so that the order of names is that of the lines.
        *at = at.max(free);
        free = *at + room;
    }
    // What was pushed below the axis moves all names up again.
    let over = ends.last().map_or(0.0, |(last, _)| (last - BOTTOM).max(0.0));
    for (at, line) in ends {
        let class = format!("name v{}", line.class);
        svg.text(&class, (right + 6.0, at - over + 4.0), Anchor::Start, &line.label);
    }
}

/// The names of lines with a piece of each line, above a picture; the browser wraps them.
fn names_above(lines: &[&PlotLine]) -> Markup {
    html! {
        ul.names {
            @for line in lines {
                @let stroke = if line.stroke == Stroke::Reference { "reference" } else { "line" };
                li class={ "v" (line.class) } {
                    svg.piece aria-hidden="true" viewBox="0 0 28 10" {
                        path class={ (stroke) " v" (line.class) } d="M0 5L28 5" {}
                    }
                    (line.label)
                }
            }
        }
    }
}

fn scale(axis: &Axis, values: (f64, f64), places: (f64, f64)) -> AxisScale {
    match axis {
        Axis::Logarithmic(_) => AxisScale::logarithmic(values, places),
        Axis::Linear(_) | Axis::Named(_) => AxisScale::linear(values, places),
    }
}

fn unit_of(axis: &Axis, scale: &AxisScale) -> AxisUnit {
    match axis {
        Axis::Linear(unit) => AxisUnit::of(*unit, scale.values().1),
        Axis::Logarithmic(unit) => {
            let (low, high) = scale.values();
            // The middle of a logarithmic axis decides its unit, or its small values would be 0.00.
            AxisUnit::of(*unit, (low * high).sqrt())
        }
        Axis::Named(_) => AxisUnit::NONE,
    }
}

/// A linear axis begins at zero if it would begin below half of its end.
fn start_at_zero_if_near((low, high): (f64, f64), axis: &Axis) -> (f64, f64) {
    let near =
        // Far below zero an axis must not hide the negative part.
        matches!(axis, Axis::Linear(_)) && high > 0.0 && low < 0.5 * high && low > -0.2 * high;
    if near { (0.0, high) } else { (low, high) }
}

/// The ticks of an axis with their texts.
fn named_ticks(axis: &Axis, scale: &AxisScale, wanted: usize) -> Vec<(f64, String)> {
    let unit = unit_of(axis, scale);
    match axis {
        Axis::Named(ticks) => ticks.clone(),
        Axis::Linear(_) => scale.named_ticks(wanted, |tick, distance| unit.tick(tick, distance)),
        Axis::Logarithmic(_) => {
            scale.named_ticks(wanted, |tick, _| significant(tick / unit.divisor))
        }
    }
}

fn draw_y(svg: &mut Svg, axis: &Axis, scale: &AxisScale, right: f64) {
    for (tick, text) in named_ticks(axis, scale, 5) {
        let y = scale.at(tick);
        svg.line("grid", (LEFT, y), (right, y));
        svg.text("tick", (LEFT - 6.0, y + 4.0), Anchor::End, &text);
    }
    svg.text("axis", (LEFT - 6.0, TOP - 12.0), Anchor::End, unit_of(axis, scale).name);
}

fn draw_x(svg: &mut Svg, plot: &Plot, scale: &AxisScale, right: f64) {
    let mut ticks = named_ticks(&plot.x, scale, 6);
    // A count has no halves.
    if plot.x == Axis::Linear(Unit::Count) {
        ticks.retain(|(tick, _)| tick.fract() == 0.0);
        ticks.iter_mut().for_each(|(tick, text)| *text = unit_of(&plot.x, scale).tick(*tick, 1.0));
    }
    svg.line("base", (LEFT, BOTTOM), (right, BOTTOM));
    svg.open("xticks");
    for (place, text) in ticks {
        let x = scale.at(place);
        if (LEFT - 1.0..=right + 1.0).contains(&x) {
            svg.text("tick", (x, BOTTOM + 16.0), Anchor::Middle, &text);
        }
    }
    svg.close();
    let name = [plot.x_name.as_str(), unit_of(&plot.x, scale).name]
        .into_iter()
        .filter(|part| !part.is_empty());
    let name = name.collect::<Vec<_>>().join(", ");
    svg.text("axis", (right, BOTTOM + 34.0), Anchor::End, &name);
    let markers: Vec<(f64, &str)> =
        plot.markers.iter().map(|(place, name)| (scale.clamped(*place), name.as_str())).collect();
    for &(x, _) in &markers {
        svg.path("marker", &format!("M{} {}V{}", n(x), n(TOP - 6.0), n(BOTTOM)));
    }
    for (x, anchor, name) in place_names(&markers, right) {
        svg.text("note marker-name", (x, TOP - 10.0), anchor, name);
    }
}

/// Places the names of markers, the most important first. A name that would overlap another or leave the plot is left out.
fn place_names<'a>(markers: &[(f64, &'a str)], right: f64) -> Vec<(f64, Anchor, &'a str)> {
    const LETTER: f64 = 6.0;
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut placed = Vec::new();
    for &(x, name) in markers.iter().filter(|(_, name)| !name.is_empty()) {
        let width = name.chars().count() as f64 * LETTER;
        let (after, before) = ((Anchor::Start, x), (Anchor::End, x - width));
        // The first marker usually begins a phase and the next ends it, so both names are placed between them.
        let tried = if placed.is_empty() { [after, before] } else { [before, after] };
        let free = tried.into_iter().find(|&(_, from)| {
            let overlaps = |&(low, high): &(f64, f64)| from < high && from + width > low;
            from >= LEFT && from + width <= right && !taken.iter().any(overlaps)
        });
        if let Some((anchor, from)) = free {
            taken.push((from - LETTER, from + width + LETTER));
            placed.push((x, anchor, name));
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caption() -> Caption {
        Caption::new("x", "t", "s")
    }

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot::over_time(Unit::Bytes, vec![PlotLine::new("a", 0, Stroke::Main, points)])
    }

    #[test]
    fn nothing_to_draw_gives_no_picture_and_one_point_gives_one() {
        assert!(plot(Vec::new()).draw(caption()).is_none());
        assert!(plot(vec![(f64::NAN, f64::NAN)]).draw(caption()).is_none());
        let one = plot(vec![(1.0, 5e6)]).draw(caption()).unwrap().markup.into_string();
        assert!(!one.contains("NaN") && one.contains("<path"), "{one}");
    }

    #[test]
    fn a_long_name_is_above_the_picture_in_full() {
        let long = "prepared fork without compaction, two arenas";
        let mut two = plot(vec![(0.0, 5e6), (1.0, 6e6)]);
        assert!(!two.draw(caption()).unwrap().markup.into_string().contains("class=\"names\""));
        two.lines[0].label = long.into();
        let text = two.draw(caption()).unwrap().markup.into_string();
        assert!(text.starts_with("<ul class=\"names\">") && text.contains(long), "{text}");
        assert!(!text.contains('…'), "{text}");
    }

    const RIGHT: f64 = LEFT + 300.0;

    fn names(places: &[(f64, &'static str)]) -> Vec<&'static str> {
        place_names(places, RIGHT).into_iter().map(|(_, _, name)| name).collect()
    }

    #[test]
    fn names_of_markers_never_overlap() {
        assert_eq!(names(&[(LEFT, "fork 1"), (LEFT + 1.0, "fork 2")]), ["fork 1"]);
        let load = [(LEFT + 9.0, "load begins"), (RIGHT, "load ends")];
        assert_eq!(names(&load), ["load begins", "load ends"]);
        let placed = place_names(&load, RIGHT);
        assert!(matches!((placed[0].1, placed[1].1), (Anchor::Start, Anchor::End)));
        assert_eq!(names(&[(LEFT, ""), (RIGHT, "mark")]), ["mark"]);
        let collections = [(LEFT + 150.0, "load begins"), (LEFT + 120.0, "GC"), (LEFT + 9.0, "GC")];
        assert_eq!(names(&collections), ["load begins", "GC", "GC"]);
        assert_eq!(names(&[(LEFT + 90.0, "load begins"), (LEFT + 100.0, "GC")]), ["load begins"]);
    }

    #[test]
    fn an_axis_starts_at_zero_only_if_little_space_is_lost() {
        let linear = Axis::Linear(Unit::Bytes);
        assert_eq!(start_at_zero_if_near((20.0, 100.0), &linear), (0.0, 100.0));
        assert_eq!(start_at_zero_if_near((70.0, 71.0), &linear), (70.0, 71.0));
    }
}
