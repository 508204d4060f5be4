//! The diagnosis of a tree as text for a terminal.

use crate::environment_format::shell_line;
use crate::text::one_line;
use crate::who_text::explain_who;
use carat_analysis::{Diagnosis, FollowUp};

/// The rows, each with the word that says what it is about.
pub fn diagnosis_text(diagnosis: &Diagnosis) -> String {
    let rows = diagnosis.rows.iter();
    rows.map(|row| format!("{:<9}{}\n", row.kind.label(), row.text)).collect()
}

/// What a diagnosis is about, as it is called on the command line.
#[derive(Debug, Clone, Copy)]
pub enum DiagnosisTarget<'a> {
    /// The id of a process.
    Process(&'a str),
    /// A file, and the class whose objects it proves to become more.
    File(&'a str, Option<&'a str>),
}

/// What to type next. `detailed`: whether the details were printed already. The processes of a file may have ended, so no command
/// names one.
pub fn next_text(diagnosis: &Diagnosis, target: DiagnosisTarget<'_>, detailed: bool) -> String {
    let (name, process, class) = match target {
        DiagnosisTarget::Process(pid) => (pid, pid, None),
        DiagnosisTarget::File(file, class) => (file, "PID", class),
    };
    let explain = |target: &str, option: &[&str]| {
        let words = ["carat", "explain", target].into_iter().chain(option.iter().copied());
        shell_line(&words.map(one_line).collect::<Vec<_>>())
    };
    let (command, why) = match diagnosis.next {
        FollowUp::Suggest => {
            (explain(name, &["--suggest", "try.toml"]), "an experiment that tests it")
        }
        FollowUp::Who => (explain_who(process, class), "who keeps it, by name"),
        FollowUp::Unshared => {
            (explain(process, &["--unshared"]), "why workers have memory of their own")
        }
        FollowUp::Verdict => {
            let words = ["carat", "report", name, "--format", "text"];
            (shell_line(&words.map(one_line)), "what its trials say")
        }
        FollowUp::Record => (format!("carat record --pid {process}"), "whether it grows"),
    };
    let of_file = matches!(diagnosis.next, FollowUp::Suggest | FollowUp::Verdict);
    let of_running = if of_file || process == name { "" } else { ", of a server that runs" };
    let details = match detailed {
        true => String::new(),
        false => format!("Details  {}\n", explain(name, &["--details"])),
    };
    format!("{details}Next     {command}    {why}{of_running}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_analysis::{LedgerSource, diagnosis};
    use carat_model::Ledger;

    #[test]
    fn the_next_command_is_the_last_line_and_the_details_are_named_only_where_they_are_not_shown() {
        let found = diagnosis(&Ledger::default(), LedgerSource::Processes(None));
        assert!(diagnosis_text(&found).starts_with("size     proportional memory is unknown"));
        let of_process = DiagnosisTarget::Process("4312");
        let text = next_text(&found, of_process, false);
        assert!(text.starts_with("Details  carat explain 4312 --details\n"), "{text}");
        assert!(text.ends_with("Next     carat record --pid 4312    whether it grows\n"), "{text}");
        assert!(!next_text(&found, of_process, true).contains("Details"));
    }

    #[test]
    fn the_next_command_of_a_file_names_no_process_of_it() {
        let found = diagnosis(&Ledger::default(), LedgerSource::Results(&[]));
        let text = next_text(&found, DiagnosisTarget::File("a b.carat", None), false);
        assert_eq!(
            text,
            "Details  carat explain 'a b.carat' --details\n\
             Next     carat explain PID --who    who keeps it, by name, of a server that runs\n"
        );
        let text = next_text(&found, DiagnosisTarget::File("r.jsonl", Some("Ticket")), true);
        assert_eq!(
            text,
            "Next     carat explain PID --who Ticket    who keeps it, by name, of a server that runs\n"
        );
    }
}
