//! A whole, its pieces, and theirs: columns of boxes, each as high as its share.

use crate::core::Unit;
use crate::report::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::report::text::shorten;

/// One box with the boxes to its right.
pub(crate) struct Piece {
    pub(crate) label: String,
    pub(crate) class: usize,
    pub(crate) size: f64,
    pub(crate) pieces: Vec<Piece>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 420.0;
/// Left edges of the columns; a box of the last one ends at the right edge.
const COLUMNS: [f64; 4] = [0.0, 78.0, 262.0, WIDTH];
/// A box lower than this has no text; lower than `LEAST` it is not drawn.
const TEXT: f64 = 12.0;
const LEAST: f64 = 0.6;

/// The picture; pieces deeper than three levels are left out.
pub(crate) fn icicle(whole: &Piece, caption: &Caption<'_>) -> Picture {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    draw(&mut svg, whole, 0, (0.0, HEIGHT));
    svg.finish(caption, serde_json::Value::Null)
}

fn draw(svg: &mut Svg, piece: &Piece, level: usize, (y, height): (f64, f64)) {
    let (Some(left), Some(right)) = (COLUMNS.get(level), COLUMNS.get(level + 1)) else { return };
    svg.open(&format!("p{}", piece.class));
    svg.rect("box", (*left, y), (right - left - 2.0, (height - 1.0).max(0.5)));
    if height > TEXT {
        let size = Unit::Bytes.show(piece.size);
        let letters = ((right - left - 12.0) / 6.4) as usize;
        let baseline = y + height.min(20.0) / 2.0 + 4.0;
        if height > 2.2 * TEXT || level == 0 {
            svg.text("row", (left + 6.0, baseline), Anchor::Start, &shorten(&piece.label, letters));
            svg.text("note", (left + 6.0, baseline + 13.0), Anchor::Start, &size);
        } else {
            let room = letters.saturating_sub(size.chars().count() + 1);
            svg.text("row", (left + 6.0, baseline), Anchor::Start, &shorten(&piece.label, room));
            svg.text("note", (right - 8.0, baseline), Anchor::End, &size);
        }
    }
    svg.close();
    let sum: f64 = piece.pieces.iter().map(|inner| inner.size.max(0.0)).sum();
    let sum = sum.max(piece.size).max(f64::MIN_POSITIVE);
    let mut top = y;
    for inner in &piece.pieces {
        let high = height * inner.size.max(0.0) / sum;
        if high > LEAST {
            draw(svg, inner, level + 1, (top, high));
        }
        top += high;
    }
}
