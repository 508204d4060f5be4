//! Follows Rubies that are new, and renews what is known of the others.

use crate::follow::Senses;
use crate::follow::finder::{is_wanted, worker};
use crate::follow::round::has_memory;
use crate::follow::state::{Followed, Follower, Moment, Round, event};
use carat_model::count;
use carat_model::host::{RubyTree, TreeProcess};
use carat_model::watch::WatchedProcess;
use carat_proc::observe::{HostLook, group_folder, ruby_trees};
use carat_proc::process::{Identity, Stat};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Rubies that are followed.
const FOLLOWED: usize = 500;
/// After a new Ruby was found its title may still change; later it is looked at now and then.
const SETTLING: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_secs(600);

impl<S: Senses> Follower<S> {
    /// Follows Rubies that are new, and looks at all again when it is time.
    pub(super) fn find_new(&mut self, stats: &HashMap<u32, Stat>, now: Moment, round: &mut Round) {
        let is_first = self.finder.next.is_none();
        // The first look is worth its cost whatever it is: without it there is nothing to watch.
        if !is_first && !self.may_find() {
            return;
        }
        let found = self.finder.judge(&self.root, stats);
        if !found && self.finder.next.is_some_and(|next| now.since < next) {
            return;
        }
        // No time for proportional memory: a watch has its own samples. Nor does it ask when a tree began.
        let (longest, now_ms) = (Duration::ZERO, now.wall_ms);
        let look = HostLook { longest, now_ms, up: None, only: None };
        let host = ruby_trees(&self.root, look);
        let mut there = BTreeSet::new();
        let (mut new, mut left_out) = (0, 0);
        for tree in &host.trees {
            let rubies: Vec<&TreeProcess> =
                tree.processes.iter().filter(|one| one.is_ruby).collect();
            let pids: Vec<u32> = rubies.iter().map(|one| one.pid).collect();
            if !is_wanted(&self.options.matching, &tree.server.to_string(), &self.root, &pids) {
                continue;
            }
            for one in rubies.into_iter().filter(|one| one.pid != std::process::id()) {
                let Some(stat) = stats.get(&one.pid) else { continue };
                let identity = stat.identity();
                there.insert(identity);
                if self.followed.len() >= FOLLOWED && !self.followed.contains_key(&identity) {
                    left_out += 1;
                    continue;
                }
                new += usize::from(self.follow(tree, one, identity, now, round));
            }
        }
        self.say("many", left_out > 0, now, round, || {
            format!("{} not followed: at most {FOLLOWED} are", count(left_out, "Ruby process"))
        });
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
        let followed = self.followed.get(&identity);
        let known = followed.map(|followed| followed.process.clone());
        let seen = group_folder(&self.root, one.pid).map(|seen| (seen.name, seen.folder));
        let before = followed.and_then(|one| one.process.group.clone().zip(one.folder.clone()));
        // A process that ends leaves its group (`cgroup_exit`) after its memory, and the group that it died in counts its end.
        let keeps = before.is_some()
            && seen != before
            && (seen.is_none() || !has_memory(&self.root, identity));
        let (group, folder) = if keeps { before } else { seen }.unzip();
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
            group,
            first_ms: known.as_ref().map_or(now.wall_ms, |known| known.first_ms),
            end: None,
        };
        let is_new = known.is_none();
        // Unchanged ones are not written again: there may be hundreds at every look.
        if known.as_ref() != Some(&process) {
            round.batch.processes.push(process.clone());
        }
        if let Some(followed) = self.followed.get_mut(&identity) {
            (followed.process, followed.folder) = (process, folder);
            return false;
        }
        // From now on, because the kernel gives no handle of a process that is gone.
        self.senses.attend(identity);
        self.next_number += 1;
        event(round, now, Some(number), "is followed".into());
        self.followed.insert(identity, Followed::new(process, identity, folder));
        is_new
    }
}
