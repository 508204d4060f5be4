//! The result of a salvage, as text.

use crate::store::Salvaged;
use carat_report::numbers::count;
use std::fmt::{self, Write};
use std::path::Path;

/// Losses that are listed; of the rest only the number is printed.
const LISTED: usize = 10;

/// What was copied to `new`, what was lost, and whether `new` can be resumed.
pub(crate) fn salvage_text(salvaged: &Salvaged, new: &Path) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_salvaged(&mut out, salvaged, new);
    out
}

fn write_salvaged(out: &mut String, salvaged: &Salvaged, new: &Path) -> fmt::Result {
    let Salvaged { copied, lost, resumable } = salvaged;
    let new = new.display();
    write!(out, "copied {} to {new}; ", count(*copied, "undamaged trial"))?;
    if lost.is_empty() {
        writeln!(out, "nothing was lost")?;
    } else {
        writeln!(out, "{} {} lost:", lost.len(), if lost.len() == 1 { "was" } else { "were" })?;
    }
    for one in lost.iter().take(LISTED) {
        writeln!(out, "  {one}")?;
    }
    if lost.len() > LISTED {
        writeln!(out, "  and {} more", lost.len() - LISTED)?;
    }
    match (resumable, lost.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => {
            writeln!(out, "`carat compare EXPERIMENT --resume -o {new}` runs them again")
        }
        (false, _) => writeln!(
            out,
            "{new} cannot be resumed: an older carat computed the hash of its plan in another form"
        ),
    }
}
