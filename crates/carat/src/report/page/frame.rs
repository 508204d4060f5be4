//! The page around its sections: head, policy, title, footer.

use crate::core::Results;
use crate::report::page::fit::fitting;
use crate::report::page::gallery::Gallery;
use crate::report::page::{
    figures, forest, growth, latency, memory, order, parts, sections, sharing, steps, tables,
};
use crate::report::redact::{Audience, prepare};
use crate::report::wording;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// How a page is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageOptions {
    /// Who will read it.
    pub audience: Audience,
    /// When it is written, as it shall be printed; the report reads no clock.
    pub generated_at: Option<String>,
}

/// The page, complete: no other file, no request.
pub fn html(results: &Results, options: &PageOptions) -> String {
    fitting(&prepare(results, options.audience), |results| draw(results, options))
}

fn draw(results: &Results, options: &PageOptions) -> String {
    let sentences = wording::sentences(results);
    let title = match wording::headline(results, &sentences) {
        Some(sentence) => sentence.whole(),
        None => results.header.name.clone(),
    };
    let mut gallery = Gallery::default();
    let body = markup! {
        header.top { span { "Carat experiment " b { (results.header.name) } } }
        main {
            (sections::verdicts(results, &sentences))
            (sections::strip(results))
            (sections::warnings(results))
            div.tools role="group" aria-label="Variants shown" hidden { span { "Show" } }
            @for metric in figures::compared(results) {
                (figures::metric_section(results, &metric, &mut gallery))
            }
            (memory::section(results, &mut gallery))
            (growth::section(results))
            (parts::section(results, &mut gallery))
            (sharing::section(results, &mut gallery))
            (steps::section(results, &mut gallery))
            (latency::section(results, &mut gallery))
            (order::section(results, &mut gallery))
            (forest::section(results, &mut gallery))
            (tables::all_metrics(results))
            (tables::uncounted(results))
            (sections::machine(results))
            (sections::repeat(results))
        }
        (footer(options))
        (gallery.data(&results.header.variants))
    };
    document(&title, &body).into_string()
}

/// A whole document around a body.
pub(crate) fn document(title: &str, body: &Markup) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT),
    );
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body { (body) script { (PreEscaped(SCRIPT)) } }
        }
    }
}

/// The source expression of a Content-Security-Policy for that inline text.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The last lines of a page.
pub(crate) fn footer(options: &PageOptions) -> Markup {
    markup! {
        footer {
            "Written by Carat " (env!("CARGO_PKG_VERSION"))
            @if let Some(when) = &options.generated_at { " on " (when) }
            ". One file, no request to anywhere."
            @if options.audience == Audience::Shared {
                " Host, user, paths, log lines and private environment were left out."
            }
        }
    }
}
