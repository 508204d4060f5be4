//! Percentiles of each route or step of an HTTP load.

use crate::page::{Gallery, elements};
use crate::route_figures::{load_table, route_table};
use crate::table::FactTable;
use carat_model::{LoadReport, Results};
use maud::{Markup, html as markup};

/// Rows of the table at most.
const ROWS: usize = 400;
const TITLE: &str = "Every route or step";

/// Empty if the load has only one route.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let over = "Medians over the trials; errors are those of all trials together. ";
    match route_table(results) {
        Some(table) => gallery.part("routes", &markup! { (TITLE) }, &body(table, over)),
        None => markup! {},
    }
}

/// The routes of a recording's load; empty if it has only one.
pub(super) fn load_section(load: &LoadReport) -> Markup {
    let table = load_table(load);
    markup! { @if let Some(table) = table { section #routes { h2 { (TITLE) } (body(table, "")) } } }
}

fn body(mut table: FactTable, over: &str) -> Markup {
    let rows = table.rows.len();
    table.rows.truncate(ROWS);
    markup! {
        p.soft {
            (over) "Latency is from the intended send to the whole response. \
            A percentile with fewer than ten responses beyond it is unknown."
        }
        @if rows > ROWS { p.soft { "The first " (ROWS) " of " (rows) " rows." } }
        (elements::table(&table))
    }
}
