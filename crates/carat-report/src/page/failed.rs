//! The trials that do not count.

use crate::page::{Gallery, scrollable};
use crate::text::{one_line, shorten};
use carat_model::{Outcome, Results, Trial};
use maud::{Markup, html as markup};

/// Trials listed at most.
const LISTED: usize = 100;
/// Characters shown of the end of a server's log.
const LOG_TAIL: usize = 1000;

/// Every trial that did not succeed, what happened, and the last lines of its server.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let failed: Vec<&Trial> = results.trials.iter().filter(|t| t.outcome != Outcome::Ok).collect();
    if failed.is_empty() {
        return markup! {};
    }
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "trial" } th scope="col" { "block" } th.l scope="col" { "variant" }
                th.l scope="col" { "outcome" } th.w scope="col" { "what happened" }
            } }
            tbody { @for trial in failed.iter().take(LISTED) { (row(trial)) } }
        }
    };
    let body = markup! {
        @if failed.len() > LISTED { p.soft { "The first " (LISTED) " of " (failed.len()) "." } }
        (scrollable("Trials that do not count", &table))
    };
    gallery.part("failed", &markup! { "Trials that do not count" }, &body)
}

fn row(trial: &Trial) -> Markup {
    let characters = trial.log_tail.chars().count();
    // Its end: the cause of a crash is what was said last.
    let tail: String = trial.log_tail.chars().skip(characters.saturating_sub(LOG_TAIL)).collect();
    markup! {
        tr {
            th scope="row" { code { (shorten(&trial.id, 12)) } }
            td { (trial.block) }
            td.l { (one_line(&trial.variant)) }
            td.l { (trial.outcome) }
            td.w {
                @if let Some(detail) = &trial.detail { (shorten(detail, 500)) }
                @for flag in trial.load.iter().flat_map(|load| &load.flags) { p { code { (flag.code) } " " (flag.message) } }
                @for failure in trial.load.iter().flat_map(|load| &load.failures) { p { (failure) } }
                @if !tail.is_empty() { details { summary { "last lines of its log" } pre tabindex="0" { (tail) } } }
            }
        }
    }
}
