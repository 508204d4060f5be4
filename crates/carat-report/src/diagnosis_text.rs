//! The diagnosis of a tree as text for a terminal.

use carat_analysis::{Diagnosis, FollowUp};
use std::fmt::Write;

/// The rows, each with the word that says what it is about.
pub fn diagnosis_text(diagnosis: &Diagnosis) -> String {
    diagnosis.rows.iter().fold(String::new(), |mut out, row| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:<9}{}", row.kind.label(), row.text);
        out
    })
}

/// What to type next. `target` is what the diagnosis is about; of a file only its details are left to see.
pub fn next_text(diagnosis: &Diagnosis, target: &str) -> String {
    let details = format!("Details  carat explain {target} --details");
    // A file has no process to ask, so only its details are left.
    if target.parse::<u32>().is_err() {
        return format!("{details}\n");
    }
    let next = match diagnosis.next {
        FollowUp::Suggest => {
            format!("carat explain {target} --suggest try.toml    an experiment that tests it")
        }
        FollowUp::Who => format!("carat explain {target} --who    who keeps it, by name"),
        FollowUp::Unshared => {
            format!("carat explain {target} --unshared    why workers have memory of their own")
        }
        FollowUp::Record => format!("carat record --pid {target}    whether it grows"),
    };
    format!("{details}\nNext     {next}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_analysis::diagnosis;
    use carat_model::Ledger;

    #[test]
    fn the_next_command_is_the_last_line_and_a_file_has_none() {
        let found = diagnosis(&Ledger::default(), None, None);
        assert!(diagnosis_text(&found).starts_with("size     proportional memory is unknown"));
        let text = next_text(&found, "4312");
        assert!(text.ends_with("Next     carat record --pid 4312    whether it grows\n"), "{text}");
        assert!(!next_text(&found, "r.jsonl").contains("Next"));
    }
}
