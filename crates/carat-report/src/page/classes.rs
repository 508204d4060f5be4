//! Objects by class: what a saving consists of, where the experiment asks for a census of every trial.

use crate::class_text::{ALL, EXPLORATORY, bytes_of, change, heading, objects};
use crate::numbers::signed;
use crate::page::elements::{scrollable, unknown_cell};
use crate::page::gallery::Gallery;
use crate::text::one_line;
use carat_model::{ClassComparison, ClassMedians, Results, Unit};
use maud::{Markup, html as markup};

/// Classes of a table.
const ROWS: usize = 40;

/// Empty without a census.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    if results.classes.is_empty() {
        return markup! {};
    }
    let body = markup! {
        p.soft { "Every object of the server at the end of its trials, read from outside after the final figures: " (EXPLORATORY) "." }
        @for compared in &results.classes { (table(results, compared)) }
    };
    gallery.part("classes", &markup! { "Objects by class" }, &body)
}

fn table(results: &Results, compared: &ClassComparison) -> Markup {
    let label = one_line(&heading(results, compared));
    let table = markup! {
        table {
            thead { tr {
                th.l scope="col" { "class" } th scope="col" { "baseline" } th scope="col" { "variant" }
                th scope="col" { "difference" } th scope="col" { "bytes" }
            } }
            tbody {
                (row(ALL, &compared.all))
                @for class in compared.classes.iter().take(ROWS) { (row(&one_line(&class.class), &class.medians)) }
            }
        }
    };
    markup! {
        h3 { (label) }
        (scrollable(&label, &table))
        p.soft { "Objects; " (bytes_of(compared)) "." }
    }
}

fn row(class: &str, medians: &ClassMedians) -> Markup {
    markup! {
        tr {
            th.l scope="row" { (class) }
            (cell(medians.baseline_objects, |count| objects(Some(count))))
            (cell(medians.objects, |count| objects(Some(count))))
            (cell(medians.objects_difference(), change))
            (cell(medians.bytes_difference(), |bytes| signed(Unit::Bytes, bytes)))
        }
    }
}

fn cell(value: Option<f64>, shown: fn(f64) -> String) -> Markup {
    match value {
        Some(value) => markup! { td data-v=(value) { (shown(value)) } },
        None => unknown_cell(),
    }
}
