//! What `carat explain` says of a process that is no Ruby written in C (JRuby has no such memory): that, and which Rubies run below it.

use carat_model::{Ledger, OutsideReading, count, first_names, one_line, shorten};
use std::collections::BTreeSet;

/// Rubies that are named; the others are counted.
const NAMED: usize = 5;
/// Columns of the title of a process.
const TITLE: usize = 60;

/// A process that is no Ruby.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotRuby {
    /// One sentence.
    pub text: String,
    /// Whether Rubies run below it.
    pub rubies_below: bool,
}

/// What to say of process `pid`; `None` if it is a Ruby, or where that is not known. `alone`: its children were not read.
pub(super) fn not_ruby(
    pid: u32,
    (ledger, reading): (&Ledger, &OutsideReading),
    alone: bool,
) -> Option<NotRuby> {
    let read = reading.processes.iter().map(|census| census.process);
    // The probe knows a Ruby that cannot be read from outside.
    let probed = ledger.processes.iter().filter(|one| one.ruby.is_some()).map(|one| one.pid);
    let rubies: BTreeSet<u32> = read.chain(probed).collect();
    // One that was refused may be a Ruby.
    if rubies.contains(&pid) || reading.refused.iter().any(|(refused, _)| *refused == pid) {
        return None;
    }
    let title = |pid: u32| {
        let process = ledger.processes.iter().find(|process| process.pid == pid)?;
        Some(process.title.as_str()).filter(|title| !title.is_empty())
    };
    let named = |pid: u32, title: Option<&str>| match title {
        Some(title) => format!("{pid} ({})", shorten(&one_line(title), TITLE)),
        None => pid.to_string(),
    };
    // The program is enough of a name: its arguments may hold a whole script.
    let program = title(pid).and_then(|title| title.split_whitespace().next());
    let leader = format!("Process {} is no CRuby", named(pid, program));
    if rubies.is_empty() {
        let text = match (alone, reading.refused.is_empty()) {
            (true, _) => format!("{leader}; without --alone the processes below it are read too"),
            (false, true) => {
                format!("{leader}, and none runs below it; `carat ps` lists the Rubies here")
            }
            (false, false) => return None,
        };
        return Some(NotRuby { text, rubies_below: false });
    }
    let below = count(rubies.len(), "Ruby process");
    let run = if rubies.len() == 1 { "runs" } else { "run" };
    let shown = first_names(rubies.iter().map(|&pid| named(pid, title(pid))), NAMED);
    let text =
        format!("{leader}; below it {run} {below}: {shown}. The figures are of the whole tree.");
    Some(NotRuby { text, rubies_below: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ledger::ProcessLedger;
    use carat_outside::census::Census;

    fn tree(titles: &[(u32, &str)]) -> Ledger {
        let process = |&(pid, title): &(u32, &str)| ProcessLedger {
            pid,
            title: title.into(),
            ..ProcessLedger::default()
        };
        Ledger { processes: titles.iter().map(process).collect(), ..Ledger::default() }
    }

    fn read(rubies: &[u32], refused: &[u32]) -> OutsideReading {
        let census = |&process: &u32| Census { process, ..Census::default() };
        OutsideReading {
            processes: rubies.iter().map(census).collect(),
            refused: refused.iter().map(|&pid| (pid, "may not be read".into())).collect(),
            ..OutsideReading::default()
        }
    }

    #[test]
    fn a_process_that_is_no_ruby_is_named_with_the_rubies_below_it() {
        let ledger = tree(&[(7, "/bin/bash -c script"), (8, "puma 5.6.5 (tcp://:80)"), (9, "")]);
        let said = |rubies: &[u32], refused: &[u32], alone| {
            not_ruby(7, (&ledger, &read(rubies, refused)), alone).map(|found| found.text)
        };
        assert_eq!(said(&[7, 8], &[], false), None);
        assert_eq!(said(&[8], &[7], false), None, "a refused process may be a Ruby");
        assert_eq!(said(&[], &[8], false), None, "and so may one below it");
        assert_eq!(
            said(&[], &[], false).unwrap(),
            "Process 7 (/bin/bash) is no CRuby, and none runs below it; `carat ps` lists the Rubies here"
        );
        assert_eq!(
            said(&[], &[], true).unwrap(),
            "Process 7 (/bin/bash) is no CRuby; without --alone the processes below it are read too"
        );
        assert_eq!(
            said(&[9, 8], &[], false).unwrap(),
            "Process 7 (/bin/bash) is no CRuby; below it run 2 Ruby processes: 8 (puma 5.6.5 (tcp://:80)), 9. \
             The figures are of the whole tree."
        );
    }
}
