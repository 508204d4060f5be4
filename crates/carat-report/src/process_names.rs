//! Names of the processes of a recording: what servers write into their titles, otherwise their place in the tree.

use crate::text::{one_line, shorten};
use carat_model::Recording;
use carat_model::ledger::{Basis, ProcessLedger};
use std::collections::BTreeMap;

/// Characters of a name.
const LONGEST: usize = 40;

/// A name for every slot of a recording. Titles are known of the processes in its last ledger; an earlier process of the
/// same slot had the same role.
pub(crate) fn process_names(recording: &Recording) -> BTreeMap<u32, String> {
    let processes: &[ProcessLedger] =
        recording.ledger.as_ref().map_or(&[], |ledger| &ledger.processes);
    let mut titled: BTreeMap<u32, &ProcessLedger> = BTreeMap::new();
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for member in recording.samples.iter().flat_map(|sample| &sample.members) {
        // Every slot has a name, also of processes that had ended before the ledger.
        names.entry(member.slot).or_insert_with(|| format!("process {}", member.slot));
        if let Some(process) = processes.iter().find(|process| process.pid == member.pid) {
            titled.insert(member.slot, process);
        }
    }
    for (slot, process) in &titled {
        let name = name(process, processes);
        // Two clusters in one tree have equal titles; the pid tells them apart.
        let taken = titled.iter().any(|(other, two)| {
            other != slot && two.pid != process.pid && self::name(two, processes) == name
        });
        let name = if taken { format!("{name} ({})", process.pid) } else { name };
        names.insert(*slot, name);
    }
    names
}

/// The name of a process among those of its tree.
pub(crate) fn name(process: &ProcessLedger, all: &[ProcessLedger]) -> String {
    let title = one_line(&process.title);
    // What the server says of itself is better than its place in the tree.
    if let Some(role) = titled_role(&title) {
        return role;
    }
    let has_worker = all.iter().any(|other| {
        let is_child = other.parent == Some(process.pid);
        is_child && (titled_role(&one_line(&other.title)).is_some() || both_ruby(process, other))
    });
    if has_worker {
        return "master".to_owned();
    }
    let program = title.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().trim_end_matches(':');
    match program {
        "" => format!("process {}", process.pid),
        program => shorten(program, LONGEST),
    }
}

fn both_ruby(one: &ProcessLedger, other: &ProcessLedger) -> bool {
    one.basis == Basis::Probe && other.basis == Basis::Probe
}

/// The role that Puma, Unicorn or Pitchfork write into the title of a process.
fn titled_role(title: &str) -> Option<String> {
    let after = title.split_once("cluster worker ").map(|found| found.1).or_else(|| {
        let server = title.starts_with("unicorn") || title.starts_with("pitchfork");
        title.split_once("worker[").map(|found| found.1).filter(|_| server)
    });
    if let Some(after) = after {
        // Digits only: what follows belongs to the application.
        let number: String = after.chars().take_while(char::is_ascii_digit).collect();
        return (!number.is_empty()).then(|| format!("worker {}", shorten(&number, 8)));
    }
    let roles = [("unicorn", "master"), ("pitchfork", "mold"), ("pitchfork", "service")];
    let found = roles.into_iter().find(|(server, role)| {
        title.starts_with(server) && title.split_whitespace().any(|word| word == *role)
    });
    found.map(|(_, role)| role.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_name_the_roles_of_their_processes_in_their_titles() {
        for (title, role) in [
            ("puma: cluster worker 0: 4299 [redmine]", Some("worker 0")),
            ("puma: cluster worker 12: 4299", Some("worker 12")),
            ("unicorn worker[3] -c unicorn.rb", Some("worker 3")),
            ("unicorn master -c unicorn.rb", Some("master")),
            ("pitchfork (gen:0) worker[1] - requests: 7", Some("worker 1")),
            ("pitchfork (gen:0) mold", Some("mold")),
            ("puma 5.6.5 (tcp://127.0.0.1:3000) [redmine]", None),
            ("sidekiq 6.4.1 app [0 of 5 busy]", None),
            ("my cluster worker", None),
        ] {
            assert_eq!(titled_role(title).as_deref(), role, "{title}");
        }
    }
}
