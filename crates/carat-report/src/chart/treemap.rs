//! A treemap: boxes whose areas are their sizes, as square as possible (Bruls, Huizing, van Wijk: Squarified Treemaps).

use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::text::shorten;
use carat_model::Unit;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TreemapBox {
    pub label: String,
    /// What the pointer shows beside label and size.
    pub detail: String,
    /// Colour class.
    pub class: usize,
    pub size: f64,
}

impl TreemapBox {
    /// A box of a colour class whose label says everything.
    pub(crate) fn new(label: impl Into<String>, class: usize, size: f64) -> Self {
        Self { label: label.into(), detail: String::new(), class, size }
    }
}

/// A rectangle: left, top, width, height.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

const WIDTH: f64 = 980.0;
const HEIGHT: f64 = 380.0;
/// Width of a letter of a label.
const LETTER: f64 = 6.4;
/// A box lower than this has no label, and one lower than twice this has no size.
const TEXT: f64 = 14.0;

/// The picture. Boxes without a size are left out.
pub(crate) fn treemap(boxes: &[TreemapBox], caption: Caption) -> Picture {
    // A box without area cannot be laid out.
    let mut sorted: Vec<&TreemapBox> = boxes.iter().filter(|one| one.size > 0.0).collect();
    sorted.sort_by(|one, other| other.size.total_cmp(&one.size));
    let sizes: Vec<f64> = sorted.iter().map(|one| one.size).collect();
    let mut svg = Svg::new(WIDTH, HEIGHT);
    for (one, place) in sorted.iter().zip(places(&sizes, (WIDTH, HEIGHT))) {
        draw(&mut svg, one, place);
    }
    svg.finish(caption, serde_json::Value::Null)
}

fn draw(svg: &mut Svg, one: &TreemapBox, place: Place) {
    let size = Unit::Bytes.show(one.size);
    svg.open(&format!("p{}", one.class));
    svg.hover(&format!("{}: {size}{}", one.label, one.detail));
    svg.rect("box", (place.x, place.y), (place.width, place.height));
    // Shorter labels are cut off to nothing.
    let letters = ((place.width - 10.0) / LETTER) as usize;
    if letters >= 4 && place.height >= TEXT {
        let at = (place.x + 5.0, place.y + 13.0);
        svg.text("row", at, Anchor::Start, &shorten(&one.label, letters));
        if place.height >= 2.0 * TEXT && size.chars().count() <= letters {
            svg.text("note", (at.0, at.1 + 13.0), Anchor::Start, &size);
        }
    }
    svg.close();
}

/// Where boxes of these sizes, the largest first, lie in a rectangle.
fn places(sizes: &[f64], (width, height): (f64, f64)) -> Vec<Place> {
    let total: f64 = sizes.iter().sum();
    // Areas are proportional to sizes, whatever their unit.
    let scale = width * height / total.max(f64::MIN_POSITIVE);
    let areas: Vec<f64> = sizes.iter().map(|size| size * scale).collect();
    let mut free = Place { x: 0.0, y: 0.0, width, height };
    let mut found = Vec::with_capacity(areas.len());
    let mut rest = areas.as_slice();
    while !rest.is_empty() {
        let side = free.width.min(free.height).max(f64::MIN_POSITIVE);
        let row = (1..=rest.len())
            .take_while(|&length| {
                // A row grows while its boxes become more square (Bruls, Huizing, van Wijk, 2000).
                length == 1 || worst(&rest[..length], side) <= worst(&rest[..length - 1], side)
            })
            .last()
            .unwrap_or(1);
        found.extend(lay_row(&rest[..row], &mut free));
        rest = &rest[row..];
    }
    found
}

/// The largest ratio of sides in a row along a side of that length.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let thickness = sum / side;
    row.iter().map(|area| area / thickness).fold(1.0, |worst, length| {
        worst.max(length / thickness).max(thickness / length.max(f64::MIN_POSITIVE))
    })
}

/// Puts a row along the shorter side of the free rectangle, which becomes smaller by it.
fn lay_row(row: &[f64], free: &mut Place) -> Vec<Place> {
    let sum: f64 = row.iter().sum();
    // Along the shorter side, which keeps what remains as square as possible.
    let upright = free.width >= free.height;
    let side = if upright { free.height } else { free.width }.max(f64::MIN_POSITIVE);
    let thickness = sum / side;
    let mut at = 0.0;
    let places = row.iter().map(|area| {
        let length = area / thickness.max(f64::MIN_POSITIVE);
        let place = match upright {
            true => Place { y: free.y + at, width: thickness, height: length, ..*free },
            false => Place { x: free.x + at, width: length, height: thickness, ..*free },
        };
        at += length;
        place
    });
    let places = places.collect();
    if upright {
        free.x += thickness;
        free.width -= thickness;
    } else {
        free.y += thickness;
        free.height -= thickness;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_box_has_its_share_of_the_area_and_lies_inside() {
        let sizes = [60.0, 30.0, 20.0, 6.0, 3.0, 1.0];
        let total: f64 = sizes.iter().sum();
        let places = places(&sizes, (600.0, 200.0));
        assert_eq!(places.len(), sizes.len());
        for (place, size) in places.iter().zip(sizes) {
            let area = place.width * place.height;
            assert!((area / (600.0 * 200.0) - size / total).abs() < 1e-9, "{place:?}");
            assert!(place.x >= -1e-9 && place.x + place.width <= 600.0 + 1e-6, "{place:?}");
            assert!(place.y >= -1e-9 && place.y + place.height <= 200.0 + 1e-6, "{place:?}");
        }
    }

    #[test]
    fn equal_boxes_in_a_square_are_squares() {
        for place in places(&[1.0; 4], (100.0, 100.0)) {
            assert!((place.width - 50.0).abs() < 1e-9 && (place.height - 50.0).abs() < 1e-9);
        }
    }

    #[test]
    fn names_are_escaped_and_empty_boxes_left_out() {
        let one =
            TreemapBox { label: "A<b>".into(), detail: ", 3 objects".into(), class: 1, size: 2e6 };
        let none = TreemapBox { size: 0.0, ..one.clone() };
        let caption = Caption::new("x", "t", "d");
        let text = treemap(&[one, none], caption).markup.into_string();
        assert!(text.contains("A&lt;b&gt;: 2.00 MB, 3 objects"), "{text}");
        assert_eq!(text.matches("class=\"box\"").count(), 1, "{text}");
    }
}
