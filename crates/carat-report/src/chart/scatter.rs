//! Configurations by the change of two metrics: a dot each, the best ones joined, the confirmed one with its intervals.

use crate::chart::difference::draw_interval;
use crate::chart::scale::{AxisScale, range};
use crate::chart::svg::{Anchor, Caption, Picture, Svg, dot_path, line_path};
use crate::numbers::percent_tick;
use carat_model::Estimate;

/// One configuration.
pub(crate) struct ScatterDot {
    /// Changes as fractions: along the picture and up.
    pub at: (f64, f64),
    /// What a pointer shows.
    pub text: String,
}

/// The picture's contents.
pub(crate) struct Scatter<'a> {
    /// Names of the two metrics.
    pub metrics: (&'a str, &'a str),
    pub dots: Vec<ScatterDot>,
    /// Places of the dots to join, in order.
    pub front: Vec<usize>,
    /// The confirmed configuration.
    pub confirmed: Option<(Estimate, Estimate)>,
    /// The limit of the upward metric, as a fraction.
    pub limit: Option<f64>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 318.0;
/// A change beyond this is drawn at the edge, so that one wild trial does not squeeze the others.
const WIDEST: f64 = 0.6;
/// The colour of most dots, of the front, and of the confirmed configuration.
const ALL: &str = "v0";
const FRONT: &str = "v1";
const CONFIRMED: &str = "v3";

impl Scatter<'_> {
    /// The picture; `None` without dots.
    pub(crate) fn draw(&self, caption: Caption) -> Option<Picture> {
        if self.dots.is_empty() {
            return None;
        }
        let along = self.scale(|(x, _)| x, None, (LEFT + 8.0, RIGHT - 8.0))?;
        let up = self.scale(|(_, y)| y, self.limit, (BOTTOM - 8.0, TOP + 8.0))?;
        let mut svg = Svg::new(WIDTH, HEIGHT);
        self.draw_axes(&mut svg, &along, &up);
        self.draw_dots(&mut svg, &along, &up);
        if let Some((x, y)) = &self.confirmed {
            draw_confirmed(&mut svg, x, y, &along, &up);
        }
        Some(svg.finish(caption, serde_json::Value::Null))
    }

    /// The scale of one axis: every dot, the default, the limit and the intervals.
    fn scale(
        &self,
        part: fn((f64, f64)) -> f64,
        limit: Option<f64>,
        places: (f64, f64),
    ) -> Option<AxisScale> {
        let confirmed = self.confirmed.iter().flat_map(|(x, y)| {
            let (along, up) = (x.ratio_interval, y.ratio_interval);
            [part((along.0, up.0)), part((along.1, up.1))]
        });
        let values = self.dots.iter().map(|dot| part(dot.at)).chain(confirmed).chain(limit);
        // Zero is the default's place, and always in the picture.
        let values = values.map(|value| value.clamp(-WIDEST, WIDEST)).chain([0.0]);
        Some(AxisScale::linear(range(values, 0.05)?, places))
    }

    fn draw_axes(&self, svg: &mut Svg, along: &AxisScale, up: &AxisScale) {
        let ticks = along.named_ticks(6, percent_tick);
        svg.x_ticks((along, &ticks), &[(TOP, BOTTOM)], BOTTOM + 16.0, "zero");
        for (tick, text) in up.named_ticks(6, percent_tick) {
            let y = up.at(tick);
            svg.line(if tick == 0.0 { "zero" } else { "grid" }, (LEFT, y), (RIGHT, y));
            svg.text("tick", (LEFT - 6.0, y + 4.0), Anchor::End, &text);
        }
        let (x, y) = self.metrics;
        svg.text("axis", (RIGHT, BOTTOM + 34.0), Anchor::End, &format!("change of {x}, %"));
        svg.text("axis", (0.0, TOP - 12.0), Anchor::Start, &format!("change of {y}, %"));
        if let Some(limit) = self.limit {
            let y = up.clamped(limit);
            svg.line("limit", (LEFT, y), (RIGHT, y));
            svg.text("note", (RIGHT, y - 4.0), Anchor::End, "limit");
        }
    }

    fn draw_dots(&self, svg: &mut Svg, along: &AxisScale, up: &AxisScale) {
        let places: Vec<(f64, f64)> =
            self.dots.iter().map(|dot| (along.clamped(dot.at.0), up.clamped(dot.at.1))).collect();
        svg.open(FRONT);
        svg.path("reference", &line_path(self.front.iter().map(|&dot| places[dot])));
        svg.close();
        for (at, (dot, place)) in self.dots.iter().zip(&places).enumerate() {
            svg.open(if self.front.contains(&at) { FRONT } else { ALL });
            svg.hover(&dot.text);
            svg.path("dots", &dot_path(std::iter::once(*place)));
            svg.close();
        }
        let (x, y) = (along.at(0.0), up.at(0.0));
        svg.text("note", (x + 5.0, y - 5.0), Anchor::Start, "default");
    }
}

fn draw_confirmed(svg: &mut Svg, x: &Estimate, y: &Estimate, along: &AxisScale, up: &AxisScale) {
    // Within the picture, whatever the confirmation found.
    let at = (along.clamped(x.ratio), up.clamped(y.ratio));
    svg.open(CONFIRMED);
    draw_interval(svg, x, along, at.1);
    let (low, high) = y.ratio_interval;
    svg.line("interval", (at.0, up.clamped(low)), (at.0, up.clamped(high)));
    svg.text("name", (at.0 + 7.0, at.1 - 7.0), Anchor::Start, "✓ confirmed");
    svg.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::estimate;

    fn scatter(dots: &[(f64, f64)]) -> Scatter<'static> {
        let dot = |at: &(f64, f64)| ScatterDot { at: *at, text: format!("<{}>", at.0) };
        Scatter {
            metrics: ("memory.pss.late", "latency.p95"),
            dots: dots.iter().map(dot).collect(),
            front: vec![0],
            confirmed: None,
            limit: Some(0.05),
        }
    }

    fn caption() -> Caption {
        Caption::new("x", "t", "d")
    }

    #[test]
    fn a_wild_trial_is_drawn_at_the_edge_and_texts_are_escaped() {
        let picture = scatter(&[(-0.2, 0.01), (-0.1, 40.0)]).draw(caption()).unwrap();
        let text = picture.markup.into_string();
        assert!(text.contains("&lt;-0.2&gt;") && text.contains(">limit</text>"), "{text}");
        assert!(text.contains(">default</text>") && !text.contains("confirmed"), "{text}");
        assert!(text.contains("change of latency.p95, %"), "{text}");
        assert!(scatter(&[]).draw(caption()).is_none());
    }

    #[test]
    fn the_confirmed_configuration_has_a_tick_and_both_intervals() {
        let confirmed = Some((estimate(-0.32, -0.3, -0.28), estimate(-0.01, 0.01, 0.03)));
        let text = Scatter { confirmed, ..scatter(&[(-0.2, 0.01)]) };
        let text = text.draw(caption()).unwrap().markup.into_string();
        assert!(text.contains("✓ confirmed"), "{text}");
        assert_eq!(text.matches("class=\"interval\"").count(), 2, "{text}");
    }
}
