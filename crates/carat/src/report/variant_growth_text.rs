//! Growth of every variant's memory, as text.

use crate::analysis::growth::{cause, sentence};
use crate::core::Results;
use std::fmt::{self, Write};

/// A line for every part of every variant's memory during the load.
pub fn variant_growth_text(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_growth(&mut out, results);
    out
}

fn write_growth(out: &mut String, results: &Results) -> fmt::Result {
    writeln!(out, "\nDuring the load, all trials of a variant together:")?;
    for growth in &results.growth {
        for part in &growth.parts {
            writeln!(out, "  {}: {}", growth.variant, sentence(part))?;
        }
        if let Some(cause) = cause(&growth.parts) {
            writeln!(out, "  {}: {cause}", growth.variant)?;
        }
    }
    if results.growth.is_empty() {
        writeln!(out, "  no samples during the load")?;
    }
    Ok(())
}
