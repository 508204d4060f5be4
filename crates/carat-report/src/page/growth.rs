//! Growth of every part of every variant's memory over the load.

use crate::lists::grouped_by_key;
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::capital;
use carat_analysis::growth::{amount, cause, found, tolerances, what_decides};
use carat_model::{GrowthKind, PartGrowth, ProgressUnit, Results, VariantGrowth};
use maud::{Markup, html as markup};

const DAY_S: f64 = 86_400.0;

/// Empty if no trial was sampled during its load.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    if results.growth.is_empty() {
        return markup! {};
    }
    let causes: Vec<(&str, String)> = results
        .growth
        .iter()
        .filter_map(|growth| Some((growth.variant.as_str(), cause(&growth.parts)?)))
        .collect();
    let rows = results.growth.iter().flat_map(|growth| {
        let decided = growth.parts.iter().filter(|part| !part.is_undecided());
        decided.map(move |part| {
            let label = Cell::text(part.part.label());
            Cell::row(&growth.variant, [label].into_iter().chain(cells(part)))
        })
    });
    let shown = FactTable::new("Growth over the load").name("variant").numbers(["part"]);
    let shown = shown.long_texts(["growth"]).numbers(["per day"]).rows(rows);
    let tolerances = results.growth.first().map(|growth| tolerances(&growth.parts));
    let body = markup! {
        p.soft {
            "All trials of a variant together, by requests answered. A leak adds the same amount with every request; \
            fragmentation and warm-up add less and less."
            @if let Some(text) = tolerances.filter(|text| !text.is_empty()) { " " (capital(&text)) "." }
        }
        @if !causes.is_empty() {
            ul.also { @for (variant, cause) in &causes { li { strong { (variant) } ": " (capital(cause)) "." } } }
        }
        @if !shown.rows.is_empty() { (table(&shown)) }
        @if let Some(open) = undecided(&results.growth) { p { (open) } }
    };
    gallery.part("growth-over-load", &markup! { "Growth over the load" }, &body)
}

/// Everything that is undecided, in one line.
fn undecided(all: &[VariantGrowth]) -> Option<String> {
    let open: Vec<&PartGrowth> =
        all.iter().flat_map(|one| &one.parts).filter(|part| part.is_undecided()).collect();
    let what = what_decides(&open).map(|what| format!("; {what}")).unwrap_or_default();
    let by_variant = all.iter().map(|growth| {
        let parts = growth.parts.iter().filter(|part| part.is_undecided());
        let parts = parts.map(|part| part.part.label()).collect::<Vec<_>>().join(", ");
        (parts, growth.variant.as_str())
    });
    // Variants with the same open parts share a line.
    let groups = grouped_by_key(by_variant.filter(|(parts, _)| !parts.is_empty()));
    let groups = groups.into_iter().map(|(parts, variants)| match variants.len() {
        // All of them: naming each would repeat the list of variants.
        every if every == all.len() && every > 1 => format!("{parts} of every variant"),
        _ => format!("{parts} of {}", variants.join(", ")),
    });
    let groups = groups.collect::<Vec<_>>().join("; ");
    (!open.is_empty()).then(|| format!("Undecided: {groups}{what}."))
}

/// The growth of a part in words, and the amount per day.
pub(super) fn cells(growth: &PartGrowth) -> [Cell; 2] {
    // Growth that readings from outside prove has a rate alone; by requests its pace in a day is not known.
    let steady = growth.rate.filter(|_| growth.kind == GrowthKind::Linear);
    let steady = steady.filter(|_| growth.progress == ProgressUnit::Seconds);
    let daily = growth.per_day.map(|daily| daily.amount).or(steady.map(|rate| rate * DAY_S));
    [Cell::text(found(growth)), Cell::shown(daily, |daily| amount(growth.part, daily))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::TrackedPart;

    #[test]
    fn proven_growth_per_second_has_its_amount_per_day() {
        let (kind, progress) = (GrowthKind::Linear, ProgressUnit::Seconds);
        let part = PartGrowth {
            rate: Some(0.13e6),
            ..PartGrowth::without_figures(TrackedPart::KeptMemory, kind, progress, 24.0)
        };
        assert_eq!(cells(&part)[1].text, "11.23 GB");
        let by_requests = PartGrowth { progress: ProgressUnit::Requests, ..part };
        assert_eq!(cells(&by_requests)[1].text, "–");
        assert_eq!(cells(&PartGrowth { kind: GrowthKind::Rising, ..part })[1].text, "–");
    }
}
