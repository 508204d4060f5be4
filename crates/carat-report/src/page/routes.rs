//! Percentiles of each route or step of an HTTP load.

use crate::page::elements::{scrollable, value_cell};
use crate::page::gallery::Gallery;
use crate::route_figures::{RouteRow, load_rows, route_rows};
use carat_model::{LoadReport, Results, Unit};
use maud::{Markup, html as markup};

/// Rows of the table at most.
const ROWS: usize = 400;
const TITLE: &str = "Every route or step";

/// Empty if the load has only one route.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let over = "Medians over the trials; errors are those of all trials together. ";
    match body(&route_rows(results), Some(over)) {
        Some(body) => gallery.part("routes", &markup! { (TITLE) }, &body),
        None => markup! {},
    }
}

/// The routes of a recording's load; empty if it has only one.
pub(super) fn load_section(load: &LoadReport) -> Markup {
    let body = body(&load_rows(load), None);
    markup! { @if let Some(body) = body { section #routes { h2 { (TITLE) } (body) } } }
}

/// The table, with columns of variants and trials if it is `over` several; `None` without rows.
fn body(rows: &[RouteRow], over: Option<&str>) -> Option<Markup> {
    if rows.is_empty() {
        return None;
    }
    Some(markup! {
        p.soft {
            (over.unwrap_or_default()) "Latency is from the intended send to the whole response. \
            A percentile with fewer than ten responses beyond it is unknown."
        }
        @if rows.len() > ROWS { p.soft { "The first " (ROWS) " of " (rows.len()) " rows." } }
        (table(&rows[..rows.len().min(ROWS)], over.is_some()))
    })
}

fn table(rows: &[RouteRow], several: bool) -> Markup {
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "route or step" }
                @if several { th.l scope="col" { "variant" } th scope="col" { "trials" } }
                th scope="col" { "responses" } th scope="col" { "errors" }
                th scope="col" { "p50" } th scope="col" { "p95" } th scope="col" { "p99" }
            } }
            tbody {
                @for row in rows { tr {
                    th scope="row" { (row.name) }
                    @if several { td.l { (row.variant) } td { (row.trials) } }
                    (value_cell(Unit::Count, Some(row.responses))) td data-v=(row.errors) { (row.errors) }
                    @for seconds in [row.p50, row.p95, row.p99] { (value_cell(Unit::Seconds, seconds)) }
                } }
            }
        }
    };
    scrollable("Every route or step", &table)
}
