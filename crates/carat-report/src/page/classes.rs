//! Objects by class: what a saving consists of, where the experiment asks for a census of every trial.

use crate::class_text::{EXPLORATORY, bytes_of, heading, table};
use crate::page::{Gallery, elements};
use crate::text::one_line;
use carat_model::{ClassComparison, Results};
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
        @for compared in &results.classes { (of_variant(results, compared)) }
    };
    gallery.part("classes", &markup! { "Objects by class" }, &body)
}

fn of_variant(results: &Results, compared: &ClassComparison) -> Markup {
    let label = one_line(&heading(results, compared));
    markup! {
        h3 { (label) }
        (elements::table(&table(compared, label, ROWS)))
        p.soft { "Objects; " (bytes_of(compared)) "." }
    }
}
