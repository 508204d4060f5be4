//! Charts as SVG text: scales, ticks, a small writer, and one module per kind of chart.
//!
//! A chart takes plain numbers and gives markup; colours come from the page's stylesheet by class, so that
//! one picture serves light, dark and print. Everything is readable without a script.

pub(crate) mod difference;
pub(crate) mod dots;
pub(crate) mod forest;
pub(crate) mod icicle;
pub(crate) mod lines;
pub(crate) mod reduce;
pub(crate) mod scale;
pub(crate) mod svg;
pub(crate) mod waterfall;

pub(crate) use difference::{Bounds, DifferenceRow, differences};
pub(crate) use dots::{DotRow, dots};
pub(crate) use lines::{Axis, Line, Plot, Stroke};
pub(crate) use svg::{Caption, Picture};
