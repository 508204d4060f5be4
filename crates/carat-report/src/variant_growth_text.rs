//! Growth of every variant's memory, as text.

use crate::text::written;
use carat_analysis::growth::{
    cause, found, innermost_growth, sentence, tolerances, undecided_parts, what_decides,
};
use carat_model::{PartGrowth, Results, TrackedPart, VariantGrowth};
use std::fmt::{self, Write};

/// A line for every part of every variant's memory during the load.
pub fn variant_growth_text(results: &Results) -> String {
    written(|out| write_growth(out, results))
}

fn write_growth(out: &mut String, results: &Results) -> fmt::Result {
    writeln!(out, "\nDuring the load, all trials of a variant together:")?;
    for growth in &results.growth {
        for part in growth.parts.iter().filter(|part| !part.is_undecided()) {
            writeln!(out, "  {}: {}", growth.variant, sentence(part))?;
        }
        if let Some(open) = undecided_parts(&growth.parts) {
            writeln!(out, "  {}: {open}", growth.variant)?;
        }
        if let Some(cause) = cause(&growth.parts) {
            writeln!(out, "  {}: {cause}", growth.variant)?;
        }
    }
    let tolerances = results.growth.first().map(|growth| tolerances(&growth.parts));
    if let Some(tolerances) = tolerances.filter(|text| !text.is_empty()) {
        writeln!(out, "  {tolerances}")?;
    }
    if results.growth.is_empty() {
        writeln!(out, "  no samples during the load")?;
    }
    Ok(())
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
