//! The page of a single ledger.

use crate::numbers::{count, percent_of};
use crate::page::elements::prose;
use crate::page::frame::{PageOptions, page};
use crate::page::gallery::Gallery;
use crate::page::{ledger, ledger_details, outside};
use crate::text::{capital, shorten};
use carat_analysis::{Diagnosis, LedgerSource, diagnosis, findings_of};
use carat_model::Ledger;
use carat_redact::{redact_ledger, redact_outside, redact_recording};
use maud::{Markup, html as markup};

/// The page of a ledger, with what is known beside it: one file that makes no request. `server` names what it
/// describes, such as a command line.
pub fn ledger_html(
    server: &str,
    ledger: &Ledger,
    source: LedgerSource<'_>,
    options: &PageOptions,
) -> String {
    let (server, ledger) = redact_ledger(server, ledger, options.audience);
    let reading = source.reading();
    let shown = reading.map(|reading| redact_outside(reading, options.audience));
    let title = headline(&ledger);
    let found = match source {
        LedgerSource::Processes(_) => diagnosis(&ledger, LedgerSource::Processes(shown.as_ref())),
        LedgerSource::Recording(recording) => {
            let recording = redact_recording(recording, options.audience);
            diagnosis(&ledger, LedgerSource::Recording(&recording))
        }
        LedgerSource::Results(_) => diagnosis(&ledger, source),
    };
    let findings = findings_of(&ledger, source);
    let mut gallery = Gallery::default();
    let about = markup! { "Carat ledger of " b { (shorten(&server, 120)) } };
    let contents = markup! {
        h1 { (title) }
        (rows(&found))
        (ledger::section(&ledger, &mut gallery))
        (ledger_details::what_to_try(&ledger, &findings))
        (outside::sections(shown.as_ref(), &mut gallery))
        (ledger_details::details(&ledger))
    };
    page(&title, (&about, &contents), (gallery, &[]), options)
}

/// The rows of the diagnosis; the title has the size already.
fn rows(found: &Diagnosis) -> Markup {
    markup! {
        table #diagnosis {
            tbody { @for row in &found.rows {
                tr { th scope="row" { (capital(row.kind.label())) } td.l { (prose(&row.text)) } }
            } }
        }
    }
}

fn headline(ledger: &Ledger) -> String {
    // Reversed: `max_by_key` takes the last of equals, and the first part is to win.
    let largest = ledger.parts.iter().rev().max_by_key(|part| part.pss);
    let Some(largest) = largest else { return "No process could be read.".to_owned() };
    let processes = match ledger.processes.len() {
        0 => String::new(),
        some => format!(" in {}", count(some, "process")),
    };
    format!(
        "{}{processes}; the largest part, {}, is {}.",
        ledger.pss,
        percent_of(largest.pss.0 as f64, ledger.pss, 0),
        largest.kind.label()
    )
}
