//! Every verdict as a sentence, and the facts that say how reliable it is.

use crate::control_text::control_sentences;
use crate::facts;
use crate::machine::machine_facts;
use crate::numbers::primary_level;
use crate::page::{Gallery, verdict_sentence};
use crate::text::day;
use crate::wording::sentences;
use carat_model::Results;
use maud::{Markup, html as markup};

/// A line for every variant and for every control.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let sentences = [sentences(results), control_sentences(results)].concat();
    let body = markup! {
        ul.also {
            @for sentence in &sentences { li { (verdict_sentence(sentence)) } }
        }
        (key_facts(results))
    };
    gallery.proof("verdicts", &markup! { "In words" }, sentences.len(), &body)
}

fn key_facts(results: &Results) -> Markup {
    let blocks = facts::blocks(results, facts::counts);
    let counted = results.trials.iter().filter(|trial| facts::counts(trial)).count();
    let scored = results.trials.iter().filter(|trial| facts::is_scored(trial)).count();
    let machine = machine_facts(results);
    markup! {
        dl.facts {
            @if let Some(first) = results.trials.first() {
                div { dt { "ran" } dd { (day(first.started_ms)) } }
            }
            div { dt { "trials that count" } dd { (counted) " of " (scored) } }
            div { dt { "blocks" } dd { (blocks.len()) " of at most " (results.info.max_blocks) } }
            @if let Some(level) = primary_level(results) {
                div { dt { "intervals" } dd { (level) ", valid at every interim analysis" } }
            }
            div { dt { "order" } dd { "random within blocks, seed " (results.info.seed) } }
            @for key in ["ruby", "kernel", "cpu", "processor"] {
                @if let Some(fact) = machine.get(key) { div { dt { (key) } dd { (fact) } } }
            }
        }
    }
}
