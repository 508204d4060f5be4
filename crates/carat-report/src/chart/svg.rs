//! Writes SVG. Every text is escaped here and nowhere else; coordinates have one decimal.

use crate::chart::scale::AxisScale;
use maud::{Markup, PreEscaped};
use std::fmt::Write as _;

/// The point of a text that its coordinates give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture under construction.
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Title and description of a picture, for screen readers.
pub(crate) struct Caption {
    id: String,
    title: String,
    description: String,
}

/// A finished picture.
pub(crate) struct Picture {
    /// Its id on the page.
    pub id: String,
    pub markup: Markup,
    /// The values for the script's cursor; `null` if every value is printed anyway.
    pub hover: serde_json::Value,
}

impl Caption {
    /// The id is unique on the page: letters, digits and hyphens. The description is one sentence with the picture's figures.
    pub(crate) fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), title: title.into(), description: description.into() }
    }
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    pub(crate) fn open(&mut self, class: &str) {
        let _ = write!(self.body, r#"<g class="{}">"#, escaped(class));
    }

    pub(crate) fn close(&mut self) {
        self.body.push_str("</g>");
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &format!("M{} {}L{} {}", n(from.0), n(from.1), n(to.0), n(to.1)));
    }

    pub(crate) fn path(&mut self, class: &str, d: &str) {
        // Nothing was measured: a mark without a place would be drawn in the corner, or as nothing in print.
        if !d.is_empty() {
            let _ = write!(self.body, r#"<path class="{}" d="{d}"/>"#, escaped(class));
        }
    }

    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let _ = write!(
            self.body,
            r#"<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>"#,
            escaped(class),
            n(at.0),
            n(at.1),
            // Negative sizes are an error in SVG and would hide the whole picture.
            n(size.0.max(0.0)),
            n(size.1.max(0.0)),
        );
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = write!(
            self.body,
            r#"<text class="{}" x="{}" y="{}"{anchor}>{}</text>"#,
            escaped(class),
            n(at.0),
            n(at.1),
            escaped(text),
        );
    }

    /// A horizontal axis: at every tick a line within each span from top to bottom, and its text at `y`. The line at zero has
    /// a class of its own.
    pub(crate) fn x_ticks(
        &mut self,
        (scale, ticks): (&AxisScale, &[(f64, String)]),
        spans: &[(f64, f64)],
        y: f64,
        zero: &str,
    ) {
        for (tick, text) in ticks {
            let x = scale.at(*tick);
            for (top, bottom) in spans {
                self.line(if *tick == 0.0 { zero } else { "grid" }, (x, *top), (x, *bottom));
            }
            self.text("tick", (x, y), Anchor::Middle, text);
        }
    }

    /// What a pointer over the open group shows.
    pub(crate) fn hover(&mut self, text: &str) {
        let _ = write!(self.body, "<title>{}</title>", escaped(text));
    }

    /// Opens a nested SVG that clips its contents.
    pub(crate) fn open_clip(&mut self, at: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = (n(at.0), n(at.1), n(size.0), n(size.1));
        let _ = write!(
            self.body,
            r#"<svg class="clip" x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}" preserveAspectRatio="none">"#,
        );
    }

    pub(crate) fn close_clip(&mut self) {
        self.body.push_str("</svg>");
    }

    /// A picture of which a text beside it says everything, so that screen readers pass over it.
    pub(crate) fn silent(self) -> Markup {
        PreEscaped(format!(
            r#"<svg class="small" aria-hidden="true" viewBox="0 0 {} {}">{}</svg>"#,
            n(self.width),
            n(self.height),
            self.body,
        ))
    }

    pub(crate) fn finish(self, caption: Caption, hover: serde_json::Value) -> Picture {
        let id = escaped(&caption.id);
        let out = format!(
            r#"<svg id="{id}" class="chart" role="img" aria-labelledby="{id}-t {id}-d" viewBox="0 0 {} {}"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{}</svg>"#,
            n(self.width),
            n(self.height),
            escaped(&caption.title),
            escaped(&caption.description),
            self.body,
        );
        Picture { id: caption.id, markup: PreEscaped(out), hover }
    }
}

/// A coordinate with at most one decimal; what is not a number becomes 0.
pub(crate) fn n(value: f64) -> String {
    // A browser stops at the first number that it cannot read.
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    // Rounding leaves the sign of a small negative number.
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// A path of dots. Drawn with thick line ends, a dot costs a few bytes instead of an element. A line without length has
/// no square ends in print.
pub(crate) fn dot_path(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.fold(String::new(), |mut path, (x, y)| {
        let _ = write!(path, "M{} {}h.1", n(x), n(y));
        path
    })
}

/// A path through points in relative coordinates, rounded to a tenth of a pixel.
pub(crate) fn line_path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in points {
        // Whole tenths: rounding each difference would let the line drift.
        let now = ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        match last {
            None => {
                let _ = write!(path, "M{} {}", tenths(now.0), tenths(now.1));
            }
            Some(before) => {
                let down = tenths(now.1 - before.1);
                // A minus separates two numbers by itself, and saves a byte per point.
                let gap = if down.starts_with('-') { "" } else { " " };
                let _ = write!(path, "l{}{gap}{down}", tenths(now.0 - before.0));
            }
        }
        last = Some(now);
    }
    path
}

fn tenths(tenths: i64) -> String {
    n(tenths as f64 / 10.0)
}

fn escaped(text: &str) -> String {
    // The ampersand first, because all others become texts with one.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_attributes_are_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("a\"b", (1.0, 2.0), Anchor::End, "</text><script>");
        let caption = Caption::new("x\"'", "<b>", "&");
        let text = svg.finish(caption, serde_json::Value::Null).markup.into_string();
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;"), "{text}");
        assert!(text.contains(r#"id="x&quot;&#39;""#), "{text}");
        assert!(!text.contains("<b>"), "{text}");
    }

    #[test]
    fn a_relative_path_ends_where_the_absolute_one_does() {
        let points = [(0.04, 0.0), (0.08, 1.0), (0.12, 2.0), (0.16, 1.5)];
        assert_eq!(line_path(points), "M0 0l0.1 1l0 1l0.1-0.5");
        assert_eq!(n(f64::NAN), "0");
    }
}
