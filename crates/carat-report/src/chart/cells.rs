//! A map of memory: cells in reading order, coloured by kind and paler the emptier they are.

use crate::chart::svg::{Anchor, Caption, Picture, Svg};

/// One cell: several neighbouring pages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapCell {
    /// Share in use, between 0 and 1.
    pub filled: f64,
    /// Colour class.
    pub class: usize,
    /// What the pointer shows.
    pub hover: String,
}

/// A group of cells with a heading, such as the pages of one slot size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CellGroup {
    pub label: String,
    pub cells: Vec<MapCell>,
}

const WIDTH: f64 = 980.0;
/// Side of a cell with its gap.
const CELL: f64 = 14.0;
const GAP: f64 = 2.0;
const HEADING: f64 = 20.0;
/// Steps of paleness in the style sheet.
const STEPS: f64 = 5.0;

/// The picture of all groups below each other.
pub(crate) fn cells(groups: &[CellGroup], caption: Caption) -> Picture {
    let columns = (WIDTH / CELL) as usize;
    let rows: usize = groups.iter().map(|group| group.cells.len().div_ceil(columns)).sum();
    let height = groups.len() as f64 * (HEADING + 6.0) + rows as f64 * CELL;
    // A view box without height is an error in SVG.
    let mut svg = Svg::new(WIDTH, height.max(1.0));
    let mut top = 0.0;
    for group in groups {
        svg.text("row", (0.0, top + 14.0), Anchor::Start, &group.label);
        top += HEADING;
        for (at, cell) in group.cells.iter().enumerate() {
            let (column, row) = (at % columns, at / columns);
            svg.open(&format!("p{}", cell.class));
            svg.hover(&cell.hover);
            // Few steps, because each is a rule of the style sheet.
            let step = (cell.filled.clamp(0.0, 1.0) * STEPS).round();
            let place = (column as f64 * CELL, top + row as f64 * CELL);
            svg.rect(&format!("cell o{step}"), place, (CELL - GAP, CELL - GAP));
            svg.close();
        }
        top += group.cells.len().div_ceil(columns) as f64 * CELL + 6.0;
    }
    svg.finish(caption, serde_json::Value::Null)
}

/// Divides a list into at most `most` stretches of nearly equal length.
pub(crate) fn stretches<T>(list: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let number = most.min(list.len());
    (0..number).map(move |at| &list[at * list.len() / number..(at + 1) * list.len() / number])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_list_once() {
        for length in [0, 1, 7, 100, 101] {
            let list: Vec<usize> = (0..length).collect();
            let parts: Vec<&[usize]> = stretches(&list, 10).collect();
            assert!(parts.len() <= 10 && parts.iter().all(|part| !part.is_empty()));
            assert_eq!(parts.concat(), list);
        }
    }

    #[test]
    fn a_full_cell_is_darker_than_an_empty_one() {
        let cell = |filled| MapCell { filled, class: 1, hover: "<".into() };
        let group = CellGroup { label: "slots of 40 B".into(), cells: vec![cell(0.0), cell(0.97)] };
        let caption = Caption::new("m", "t", "d");
        let text = cells(&[group], caption).markup.into_string();
        assert!(text.contains("cell o0") && text.contains("cell o5"), "{text}");
        assert!(text.contains("<title>&lt;</title>"), "{text}");
    }
}
