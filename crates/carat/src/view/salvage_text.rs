//! The result of a salvage, as text.

use crate::store::Salvaged;
use carat_report::numbers::count;
use std::fmt::{self, Write};
use std::path::Path;

/// Losses that are listed; of the rest only the number is printed.
const LISTED: usize = 10;

/// What was copied to `new`, what was lost, and whether `new` can be resumed: `resume` says how.
pub(crate) fn salvage_text(salvaged: &Salvaged, new: &Path, resume: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_salvaged(&mut out, salvaged, new, resume);
    out
}

fn write_salvaged(out: &mut String, salvaged: &Salvaged, new: &Path, resume: &str) -> fmt::Result {
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
        (true, false) => writeln!(out, "to run them again: {resume}"),
        (false, _) => writeln!(
            out,
            "{new} cannot be resumed: an older carat computed the hash of its plan in another form"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_trials_are_listed_with_what_runs_them_again_where_the_file_can_be_resumed() {
        let resume = "carat compare a.toml -o new.carat --resume";
        let text = |lost: &[&str], resumable| {
            let lost = lost.iter().map(|&one| one.to_owned()).collect();
            salvage_text(&Salvaged { copied: 2, lost, resumable }, Path::new("new.carat"), resume)
        };
        let copied = "copied 2 undamaged trials to new.carat; ";
        assert_eq!(text(&[], true), format!("{copied}nothing was lost\n"));
        let again = format!("{copied}1 was lost:\n  block 3\nto run them again: {resume}\n");
        assert_eq!(text(&["block 3"], true), again);
        assert!(text(&["block 3"], false).ends_with("in another form\n"));
    }
}
