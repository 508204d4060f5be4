//! The parts that all pages have: head, content security policy, style, script, footer.

use crate::numbers::UNITS;
use crate::page::gallery::Gallery;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carat_model::Variant;
use carat_redact::Audience;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// How every page begins: no other program writes this policy at this place.
pub(crate) const PAGE_START: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageOptions {
    /// Who will read it.
    pub audience: Audience,
    /// The date to print, because the report itself reads no clock.
    pub generated_at: Option<String>,
}

/// A page: its title, what it is about, its contents, and the pictures in them.
pub(super) fn page(
    title: &str,
    (about, contents): (&Markup, &Markup),
    (gallery, variants): (Gallery, &[Variant]),
    options: &PageOptions,
) -> String {
    // Only this style and this script may run: a name from a hostile file cannot add another.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT),
    );
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // A report opened from a server must not tell links where it lies.
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                // Without it browsers ask the server for an icon.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header.top { span { (about) } }
                main { (contents) }
                (footer(options))
                (gallery.data(variants))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The source expression of a Content-Security-Policy for an inline text.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The last lines of a page.
fn footer(options: &PageOptions) -> Markup {
    markup! {
        footer {
            "Written by Carat " (env!("CARGO_PKG_VERSION"))
            @if let Some(when) = &options.generated_at { " on " (when) }
            ". " (UNITS) " One file that makes no network request."
            @if options.audience == Audience::Shared {
                " Host, user, paths, log lines and private environment variables were left out."
            }
        }
    }
}
