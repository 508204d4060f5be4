//! HTML pages, each one self-contained file. The experiment's page begins with the verdict; its sections follow, one file each.

mod classes;
mod compared;
mod comparison;
mod elements;
pub(crate) mod erosion;
mod every_metric;
mod failed;
mod fit;
mod forest;
mod frame;
mod gallery;
mod growth;
mod header;
mod heap_map;
mod holders;
mod kept;
mod latency;
mod least;
mod ledger;
mod ledger_details;
mod machine;
mod memory;
mod moments;
mod order;
mod outside;
mod parts;
mod recording;
mod routes;
mod saving;
mod sharing;
mod steps;
mod tune;
mod verdict;
mod watch;

pub use comparison::comparison_html;
pub(crate) use frame::PAGE_START;
pub use frame::PageOptions;
pub use ledger::ledger_html;
pub use recording::recording_html;
pub use tune::tune_html;
pub use watch::watch_html;

use crate::standing::in_order;
use crate::text::{one_line, shorten};
use crate::verdict::VerdictTable;
use carat_model::Results;
use carat_redact::redact_results;
use elements::{
    identifier, mark_class, number_table, prose, scrollable, table, unbroken, verdict_sentence,
};
use frame::page;
use gallery::Gallery;
use maud::{Markup, html as markup};

/// Heading, charts and table of one section; empty if the results have nothing to show in it.
type PageSection = fn(&Results, &mut Gallery) -> Markup;

/// The sections of an experiment's page from top to bottom. A chart is added with a file in this folder and a line here.
const SECTIONS: [PageSection; 21] = [
    header::section,
    compared::sections,
    saving::section,
    least::section,
    classes::section,
    forest::control_section,
    memory::section,
    moments::section,
    growth::section,
    parts::section,
    sharing::section,
    erosion::section,
    steps::section,
    latency::section,
    routes::section,
    order::section,
    forest::section,
    every_metric::section,
    failed::section,
    machine::section,
    machine::repeat_section,
];

/// Characters of the title, of which a tab shows fewer.
const TITLE: usize = 60;

/// The page of an experiment: one file that makes no request.
pub fn html(results: &Results, options: &PageOptions) -> String {
    let results = in_order(redact_results(results, options.audience));
    fit::fitting(&results, |results| draw(results, options))
}

fn draw(results: &Results, options: &PageOptions) -> String {
    let verdict = VerdictTable::new(results);
    let mut gallery = Gallery::default();
    // Sections first: the table of contents lists those that were drawn.
    let sections = SECTIONS.map(|section| section(results, &mut gallery));
    let about = markup! { "Carat experiment " b { (results.info.name) } };
    let contents = markup! {
        (verdict::first_screen(results, &verdict))
        (gallery.contents())
        div.tools role="group" aria-label="Variants shown" hidden { span { "Show" } }
        @for section in &sections { (section) }
    };
    let title = format!("{} · Carat", shorten(&one_line(&results.info.name), TITLE));
    page(&title, (&about, &contents), (gallery, &results.info.variants), options)
}
