//! Finds Rubies that are new, by few reads: a process is judged once, when it has lived for a second.

use crate::follow::Senses;
use crate::follow::hour::HourOfSizes;
use crate::follow::round::{Followed, Follower, Moment, Round, event};
use carat_model::host::{RubyTree, ServerName, TreeProcess};
use carat_model::watch::WatchedProcess;
use carat_proc::observe::{HostLook, group_folder, is_ruby, ruby_trees};
use carat_proc::process::{Identity, ProcRoot, Stat};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A younger process is judged in a later round: most of those that a server forks by the hundred are gone by then.
const YOUNG_S: u64 = 1;
/// Processes that are judged in one round, and Rubies that are followed.
const JUDGED: usize = 400;
const FOLLOWED: usize = 500;
/// After a new Ruby was found its title may still change; later it is looked at now and then.
const SETTLING: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_secs(600);

/// Who was judged, and when all are looked at next.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// By pid: the start, the name at that time, which exec changes, and whether it was a Ruby.
    judged: HashMap<u32, (u64, String, bool)>,
    next: Option<Duration>,
}

impl Finder {
    /// Whether a Ruby is among those that are new.
    fn judge(&mut self, root: &ProcRoot, stats: &HashMap<u32, Stat>) -> bool {
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
            let age = now.saturating_sub(stat.start_ticks / hertz);
            if age < YOUNG_S || judged == JUDGED {
                continue;
            }
            judged += 1;
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

impl<S: Senses> Follower<S> {
    /// Follows Rubies that are new, and looks at all again when it is time.
    pub(super) fn find_new(&mut self, stats: &HashMap<u32, Stat>, now: Moment, round: &mut Round) {
        let is_first = self.finder.next.is_none();
        if !is_first && !self.may_find() {
            return;
        }
        let found = self.finder.judge(&self.root, stats);
        if !found && self.finder.next.is_some_and(|next| now.since < next) {
            return;
        }
        let look = HostLook { longest: Duration::ZERO, now_ms: now.wall_ms, only: None };
        let host = ruby_trees(&self.root, look);
        let mut there = BTreeSet::new();
        let mut new = 0;
        for tree in &host.trees {
            let rubies: Vec<&TreeProcess> =
                tree.processes.iter().filter(|one| one.is_ruby).collect();
            let titles: Vec<&str> = rubies.iter().map(|one| one.title.as_str()).collect();
            if !self.is_wanted(&name(&tree.server), &titles) {
                continue;
            }
            for one in rubies.into_iter().filter(|one| one.pid != std::process::id()) {
                let Some(stat) = stats.get(&one.pid) else { continue };
                there.insert(stat.identity());
                new += usize::from(self.follow(tree, one, stat.identity(), now, round));
            }
        }
        self.replaced(&there, now, round);
        let settled = if new > 0 && !is_first { SETTLING } else { SETTLED };
        self.finder.next = Some(now.since + if is_first { SETTLING } else { settled });
    }

    /// Follows a process, or renews what is known of it. Whether it is new.
    fn follow(
        &mut self,
        tree: &RubyTree,
        one: &TreeProcess,
        identity: Identity,
        now: Moment,
        round: &mut Round,
    ) -> bool {
        let known = self.followed.get(&identity).map(|followed| followed.process.clone());
        if known.is_none() && self.followed.len() >= FOLLOWED {
            return false;
        }
        let folder = group_folder(&self.root, one.pid);
        let number = known.as_ref().map_or(self.next_number, |known| known.number);
        let process = WatchedProcess {
            number,
            pid: one.pid,
            start_ticks: identity.start_ticks,
            tree: tree.pid,
            server: tree.server.clone(),
            role: one.role,
            worker: worker(&one.title),
            title: one.title.clone(),
            ruby: tree.ruby.clone(),
            allocator: tree.allocator.clone(),
            group: folder.as_ref().map(|folder| folder.name.clone()),
            first_ms: known.as_ref().map_or(now.wall_ms, |known| known.first_ms),
            end: None,
        };
        let is_new = known.is_none();
        if known.as_ref() != Some(&process) {
            round.batch.processes.push(process.clone());
        }
        let folder = folder.map(|found| found.folder);
        if let Some(followed) = self.followed.get_mut(&identity) {
            (followed.process, followed.folder) = (process, folder);
            return false;
        }
        self.senses.attend(identity);
        self.next_number += 1;
        event(round, now, Some(number), "is followed".into());
        self.followed.insert(identity, Followed::new(process, identity, folder));
        is_new
    }
}

impl Followed {
    pub(super) fn new(
        process: WatchedProcess,
        identity: Identity,
        folder: Option<std::path::PathBuf>,
    ) -> Self {
        Self {
            process,
            identity,
            folder,
            kills: None,
            sample: None,
            pss_at: None,
            read: None,
            dead_rounds: 0,
            census: None,
            proportional: None,
            hour: HourOfSizes::default(),
            stat: None,
        }
    }
}

/// Whether a tree is one of those that the user named.
pub(super) fn is_wanted(matching: &[String], name: &str, titles: &[&str]) -> bool {
    let has =
        |text: &String| name.contains(text) || titles.iter().any(|title| title.contains(text));
    matching.is_empty() || matching.iter().any(has)
}

/// The program, its version and its app.
fn name(server: &ServerName) -> String {
    let parts = [Some(&server.program), server.version.as_ref(), server.app.as_ref()];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The place of a worker in a title such as `puma: cluster worker 1: 4312 [blog]` and `unicorn worker[1] -c …`.
fn worker(title: &str) -> Option<u32> {
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
    fn a_tree_is_chosen_by_any_of_the_texts() {
        let texts = ["sidekiq".to_owned(), "blog".to_owned()];
        assert!(is_wanted(&texts, "puma 6.6 blog", &[]));
        assert!(is_wanted(&texts, "ruby", &["ruby job.rb", "ruby sidekiq"]));
        assert!(!is_wanted(&texts, "puma", &["puma 6"]));
        assert!(is_wanted(&[], "puma", &[]));
    }
}
