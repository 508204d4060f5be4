//! Charts as SVG text: scales, an SVG writer, and one module per kind of chart.
//!
//! A chart takes plain numbers and returns markup. Colours come from the page's stylesheet by class, so one picture
//! serves light, dark and print. Everything is readable without a script.

pub(crate) mod bars;
pub(crate) mod cells;
pub(crate) mod difference;
pub(crate) mod dots;
pub(crate) mod forest;
pub(crate) mod icicle;
pub(crate) mod interval;
pub(crate) mod lines;
pub(crate) mod reduce;
pub(crate) mod scale;
pub(crate) mod scatter;
pub(crate) mod svg;
pub(crate) mod treemap;

pub(crate) use bars::{BarRow, bars};
pub(crate) use difference::{DifferenceRow, differences};
pub(crate) use dots::{DotRow, dots};
pub(crate) use icicle::{IcicleBox, IcicleShape, THREE_LEVELS, icicle};
pub(crate) use lines::{Axis, Plot, PlotLine, Stroke};
pub(crate) use reduce::{BandPoint, band, medians, reduce};
pub(crate) use svg::{Caption, Picture};

/// The colour class of a variant by its place in the file. Colours repeat after eight, without the baseline's.
pub(crate) fn variant_class(place: usize) -> usize {
    if place < 8 { place } else { 1 + (place - 1) % 7 }
}
