//! Growth of every variant's memory, as text.

use carat_analysis::growth::{
    cause, found, innermost_growth, sentence, tolerances, undecided_parts, what_decides,
};
use carat_model::{PartGrowth, Results, TrackedPart, VariantGrowth};

/// A line for every part of every variant's memory during the load.
pub fn variant_growth_text(results: &Results) -> String {
    let mut out = "\nDuring the load, all trials of a variant together:\n".to_owned();
    for VariantGrowth { variant, parts } in &results.growth {
        let decided = parts.iter().filter(|part| !part.is_undecided()).map(sentence);
        for line in decided.chain(undecided_parts(parts)).chain(cause(parts)) {
            out += &format!("  {variant}: {line}\n");
        }
    }
    match results.growth.first().map(|growth| tolerances(&growth.parts)) {
        None => out += "  no samples during the load\n",
        Some(tolerances) if tolerances.is_empty() => {}
        Some(tolerances) => out += &format!("  {tolerances}\n"),
    }
    out
}

/// The growth of the memory of every variant, a line each.
#[derive(Debug)]
pub(crate) struct GrowthLines<'a> {
    /// What the lines are about, and which growth does not matter.
    pub title: String,
    /// Name of the variant, and its line.
    pub lines: Vec<(&'a str, String)>,
    /// The variants whose growth is undecided, all in one line.
    pub undecided: Option<String>,
}

/// A line for every variant that is decided; `None` if none is.
pub(crate) fn growth_lines(results: &Results) -> Option<GrowthLines<'_>> {
    // The tolerance is the same for all, so the first that is decided has it.
    let first = results.growth.iter().find(|growth| is_decided(growth))?;
    let mut title = "growth over the load, all trials of a variant together".to_owned();
    let tolerances = tolerances(&first.parts);
    if !tolerances.is_empty() {
        title = format!("{title}; {tolerances}");
    }
    let decided = results.growth.iter().filter(|growth| is_decided(growth));
    let lines = decided.map(|growth| (growth.variant.as_str(), line(growth)));
    Some(GrowthLines { title, lines: lines.collect(), undecided: undecided(results) })
}

fn undecided(results: &Results) -> Option<String> {
    let open: Vec<&VariantGrowth> =
        results.growth.iter().filter(|growth| !is_decided(growth)).collect();
    let names: Vec<&str> = open.iter().map(|growth| growth.variant.as_str()).collect();
    let parts: Vec<&PartGrowth> = open.iter().filter_map(|growth| memory(growth)).collect();
    let what = what_decides(&parts).map(|what| format!("; {what}")).unwrap_or_default();
    (!open.is_empty()).then(|| format!("undecided: {}{what}", names.join(", ")))
}

fn memory(growth: &VariantGrowth) -> Option<&PartGrowth> {
    growth.parts.iter().find(|part| part.part == TrackedPart::Memory)
}

fn line(growth: &VariantGrowth) -> String {
    let memory = memory(growth).map_or_else(String::new, found);
    let cause = cause(&growth.parts).map(|cause| format!("; {cause}")).unwrap_or_default();
    format!("{memory}{cause}")
}

fn is_decided(growth: &VariantGrowth) -> bool {
    memory(growth).is_some_and(|part| !part.is_undecided())
        || innermost_growth(&growth.parts).is_some()
}
