//! The page of a ledger by itself.

use crate::core::Ledger;
use crate::report::page::frame::{PageOptions, document, footer};
use crate::report::page::gallery::Gallery;
use crate::report::page::ledger;
use crate::report::redact::prepare_ledger;
use maud::html as markup;

/// The page of a ledger: one file, no request. `what` names the server, such as its command line.
pub fn ledger_html(what: &str, found: &Ledger, options: &PageOptions) -> String {
    let (what, found) = prepare_ledger(what, found, options.audience);
    let mut parts: Vec<_> = found.parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.pss));
    let share = |bytes: u64| 100.0 * bytes as f64 / found.pss.0.max(1) as f64;
    let title = match parts.first() {
        Some(first) => format!(
            "{} in {} processes; most of it, {:.0} %, is {}.",
            found.pss,
            found.processes.len(),
            share(first.pss.0),
            first.kind.label()
        ),
        None => "No process could be read.".to_owned(),
    };
    let mut gallery = Gallery::default();
    let body = markup! {
        header.top { span { "Carat ledger of " b { (crate::report::text::shorten(&what, 120)) } } }
        main { h1 { (title) } (ledger::sections(&found, &mut gallery)) }
        (footer(options))
        (gallery.data(&[]))
    };
    document(&title, &body).into_string()
}
