//! Growth of every variant's memory, as text.

use carat_analysis::growth::{cause, sentence, tolerances, undecided_parts};
use carat_model::{Results, VariantGrowth};

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
