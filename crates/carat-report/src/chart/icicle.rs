//! An icicle chart: columns of nested boxes, each as high as its share.

use crate::chart::svg::{Anchor, Caption, Picture, Svg};
use crate::text::shorten;
use carat_model::Unit;

/// A box, and the boxes inside it, which are drawn to its right.
#[derive(Debug, Clone, Default)]
pub(crate) struct IcicleBox {
    pub label: String,
    pub class: usize,
    pub size: f64,
    pub inner: Vec<IcicleBox>,
    /// What a pointer over it shows; may be empty.
    pub hover: String,
}

impl IcicleBox {
    /// A box without a colour of its own.
    pub(crate) fn new(label: impl Into<String>, size: f64, inner: Vec<Self>) -> Self {
        Self { label: label.into(), size, inner, ..Self::default() }
    }
}

/// The size of a picture, and the edges of its columns.
pub(crate) struct IcicleShape {
    pub height: f64,
    pub edges: &'static [f64],
}

/// Three levels, for half the width of a page.
pub(crate) const THREE_LEVELS: IcicleShape =
    IcicleShape { height: 420.0, edges: &[0.0, 78.0, 262.0, 480.0] };
/// A box lower than this has no text.
const TEXT: f64 = 12.0;
/// A box lower than this is not drawn.
const MIN_HEIGHT: f64 = 0.6;

/// The picture, as many levels deep as the shape has columns.
pub(crate) fn icicle(root: &IcicleBox, shape: &IcicleShape, caption: Caption) -> Picture {
    let width = shape.edges.last().copied().unwrap_or_default();
    let mut svg = Svg::new(width, shape.height);
    draw(&mut svg, root, (shape.edges, 0), (0.0, shape.height));
    svg.finish(caption, serde_json::Value::Null)
}

fn draw(
    svg: &mut Svg,
    outer: &IcicleBox,
    (edges, level): (&[f64], usize),
    (y, height): (f64, f64),
) {
    let (Some(left), Some(right)) = (edges.get(level), edges.get(level + 1)) else { return };
    svg.open(&format!("p{}", outer.class));
    if !outer.hover.is_empty() {
        svg.hover(&outer.hover);
    }
    svg.rect("box", (*left, y), (right - left - 2.0, (height - 1.0).max(0.5)));
    if height > TEXT {
        let size = Unit::Bytes.show(outer.size);
        let letters = ((right - left - 12.0) / 6.4) as usize;
        let baseline = y + height.min(20.0) / 2.0 + 4.0;
        if height > 2.2 * TEXT || level == 0 {
            svg.text("row", (left + 6.0, baseline), Anchor::Start, &shorten(&outer.label, letters));
            svg.text("note", (left + 6.0, baseline + 13.0), Anchor::Start, &size);
        } else {
            let room = letters.saturating_sub(size.chars().count() + 1);
            svg.text("row", (left + 6.0, baseline), Anchor::Start, &shorten(&outer.label, room));
            svg.text("note", (right - 8.0, baseline), Anchor::End, &size);
        }
    }
    svg.close();
    let sum: f64 = outer.inner.iter().map(|inner| inner.size.max(0.0)).sum();
    // Parts may exceed the whole where memory changed while it was read.
    let sum = sum.max(outer.size).max(f64::MIN_POSITIVE);
    let mut top = y;
    for inner in &outer.inner {
        let high = height * inner.size.max(0.0) / sum;
        // Invisible, but it keeps its place below.
        if high > MIN_HEIGHT {
            draw(svg, inner, (edges, level + 1), (top, high));
        }
        top += high;
    }
}
