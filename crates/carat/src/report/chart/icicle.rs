//! A whole, its pieces, and theirs: rows of boxes, each as wide as its share.

use crate::model::Unit;
use crate::report::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::report::text::shorten;

/// One box with the boxes below it.
pub(crate) struct Piece {
    pub(crate) label: String,
    pub(crate) class: usize,
    pub(crate) size: f64,
    pub(crate) pieces: Vec<Piece>,
}

const WIDTH: f64 = 720.0;
const ROW: f64 = 40.0;
/// Boxes narrower than this have no text; narrower than `LEAST` they are not drawn.
const TEXT: f64 = 34.0;
const LEAST: f64 = 0.6;

/// The picture.
pub(crate) fn icicle(whole: &Piece, caption: &Caption<'_>) -> Picture {
    let mut svg = Svg::new(WIDTH, depth(whole) as f64 * ROW + 4.0);
    draw(&mut svg, whole, (0.0, 2.0, WIDTH));
    svg.finish(caption, serde_json::Value::Null)
}

fn depth(piece: &Piece) -> usize {
    1 + piece.pieces.iter().map(depth).max().unwrap_or(0)
}

fn draw(svg: &mut Svg, piece: &Piece, (x, y, width): (f64, f64, f64)) {
    svg.open(&format!("v{}", piece.class));
    svg.rect("box", (x + 0.5, y), (width - 1.0, ROW - 2.0));
    if width > TEXT {
        let letters = (width / 6.6) as usize;
        svg.text(
            "row",
            (x + 6.0, y + 16.0),
            Anchor::Start,
            &shorten(&piece.label, letters.max(2) - 1),
        );
        if width > 2.0 * TEXT {
            svg.text("note", (x + 6.0, y + 31.0), Anchor::Start, &Unit::Bytes.show(piece.size));
        }
    }
    svg.close();
    let sum: f64 = piece.pieces.iter().map(|inner| inner.size.max(0.0)).sum();
    let sum = sum.max(piece.size).max(f64::MIN_POSITIVE);
    let mut left = x;
    for inner in &piece.pieces {
        let wide = width * inner.size.max(0.0) / sum;
        if wide > LEAST {
            draw(svg, inner, (left, y + ROW, wide));
        }
        left += wide;
    }
}
