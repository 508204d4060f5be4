//! Which processes are worth a look at all trees, by few reads: each is judged once, when it has lived for a second.

use carat_proc::observe::is_ruby;
use carat_proc::process::{ProcRoot, Stat};
use std::collections::HashMap;
use std::time::Duration;

/// A younger process is judged in a later round: most of those that a server forks by the hundred are gone by then.
const YOUNG_S: u64 = 1;
/// Processes that are judged in one round.
const JUDGED: usize = 400;

/// Who was judged, and when all are looked at next.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// By pid: the start, the name at that time, which exec changes, and whether it was a Ruby.
    judged: HashMap<u32, (u64, String, bool)>,
    pub(super) next: Option<Duration>,
}

impl Finder {
    /// Whether a Ruby is among those that are new.
    pub(super) fn judge(&mut self, root: &ProcRoot, stats: &HashMap<u32, Stat>) -> bool {
        // A number that is given again would otherwise have the judgement of the earlier process.
        self.judged.retain(|pid, _| stats.contains_key(pid));
        let now = uptime(root).unwrap_or(u64::MAX);
        let hertz = rustix::param::clock_ticks_per_second().max(1);
        let mut found = false;
        let mut judged = 0;
        for stat in stats.values().filter(|stat| !stat.is_dead()) {
            let known = self.judged.get(&stat.pid);
            if known.is_some_and(|(start, name, is_ruby)| {
                // A Ruby names itself as it likes; of another program the name changes by exec.
                *start == stat.start_ticks && (*is_ruby || *name == stat.comm)
            }) {
                continue;
            }
            // In a container that shows its own uptime (lxcfs) starts, which count since that of the machine, are later.
            let age = now.checked_sub(stat.start_ticks / hertz);
            if age.is_some_and(|age| age < YOUNG_S) || judged == JUDGED {
                continue;
            }
            judged += 1;
            // Not judged where it cannot be read: it may have ended, or be readable in the next round.
            let Some(is_ruby) = is_ruby(root, stat.pid) else { continue };
            found |= is_ruby;
            self.judged.insert(stat.pid, (stat.start_ticks, stat.comm.clone(), is_ruby));
        }
        found
    }
}

#[cfg(test)]
impl Finder {
    pub(super) fn judged_count(&self) -> usize {
        self.judged.len()
    }
}

/// Whether a tree of that name is one of those that the user named, given its Rubies.
pub(super) fn is_wanted(matching: &[String], name: &str, root: &ProcRoot, rubies: &[u32]) -> bool {
    let has_name = |text: &String| name.contains(text);
    // Not the titles that are shown: those are cut, and without secrets.
    matching.is_empty() || matching.iter().any(has_name) || {
        let lines: Vec<String> = rubies.iter().filter_map(|pid| command_line(root, *pid)).collect();
        matching.iter().any(|text| lines.iter().any(|line| line.contains(text)))
    }
}

/// The whole command line of a process, with blanks between its words.
fn command_line(root: &ProcRoot, pid: u32) -> Option<String> {
    Some(String::from_utf8_lossy(&root.read(pid, "cmdline").ok()?).replace('\0', " "))
}

/// The place of a worker in a title such as `puma: cluster worker 1: 4312 [blog]` and `unicorn worker[1] -c …`.
pub(super) fn worker(title: &str) -> Option<u32> {
    let (_, rest) = title.split_once("worker")?;
    let rest = rest.trim_start_matches([' ', '[', '#']);
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Seconds since boot.
fn uptime(root: &ProcRoot) -> Option<u64> {
    let text = std::fs::read_to_string(root.path().join("uptime")).ok()?;
    text.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::tests::Machine;

    #[test]
    fn the_place_of_a_worker_is_read_from_its_title() {
        for (title, place) in [
            ("puma: cluster worker 1: 4312 [blog]", Some(1)),
            ("unicorn worker[12] -c unicorn.rb", Some(12)),
            ("puma 6.6 (tcp://[::]:1) [workers]", None),
            ("ruby worker.rb 7", None),
        ] {
            assert_eq!(worker(title), place, "{title}");
        }
    }

    #[test]
    fn a_tree_is_chosen_by_any_of_the_texts_also_at_the_end_of_a_long_command_line() {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", "");
        let words = "-I /app/lib ".repeat(200);
        machine.process(11, &format!("ruby {words}sidekiq --tag mails"), "");
        let root = ProcRoot::new(machine.path().join("proc"));
        for (texts, name, rubies, wanted) in [
            (&["sidekiq", "blog"][..], "puma 6.6 blog", &[][..], true),
            (&["sidekiq --tag mails"], "ruby", &[10, 11], true),
            (&["sidekiq"], "puma", &[10, 404], false),
            (&[], "puma", &[], true),
        ] {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            assert_eq!(is_wanted(&texts, name, &root, rubies), wanted, "{texts:?}");
        }
    }
}
