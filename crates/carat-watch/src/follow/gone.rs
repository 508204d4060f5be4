//! Processes that are gone: by this watch, and between two of them.

use crate::ending::{EndSigns, ExitStatus, cause};
use crate::follow::Senses;
use crate::follow::state::{Followed, Follower, Moment, Round, event};
use carat_model::watch::{EndCause, ProcessEnd, WatchedProcess};
use carat_model::{count, counted};
use carat_proc::observe::{group_folder, group_kills, is_ruby, oom_kills};
use carat_proc::process::{Identity, ProcError, ProcRoot, Stat};
use std::collections::{BTreeSet, HashMap};

/// Ends of one round that are said one by one.
const SAID: usize = 5;
/// Rounds in which the status of a zombie, which its parent has not asked for, is waited for.
const DEAD_ROUNDS: u32 = 3;

impl<S: Senses> Follower<S> {
    /// Takes up what an earlier watch followed: goes on with those that still run, and ends the others.
    pub fn resume(
        &mut self,
        unfinished: Vec<(WatchedProcess, bool)>,
        alive_ms: Option<u64>,
        now: Moment,
    ) -> Round {
        let mut round = Round::default();
        round.batch.at_ms = now.wall_ms;
        round.batch.boot = self.options.boot.clone();
        for (process, is_of_this_boot) in unfinished {
            let identity = Identity { pid: process.pid, start_ticks: process.start_ticks };
            if is_of_this_boot && !has_ended(&self.root, identity) {
                let folder = group_folder(&self.root, process.pid).map(|found| found.folder);
                self.senses.attend(identity);
                self.followed.insert(identity, Followed::new(process, identity, folder));
                continue;
            }
            let in_log = is_of_this_boot.then(|| self.senses.in_log(identity)).flatten();
            let mut evidence = vec![match alive_ms {
                Some(_) => "it was there at the last round of an earlier watch, and gone when this one began".into(),
                None => "no round was complete before its end".into(),
            }];
            if !is_of_this_boot {
                evidence.push("the machine was started anew since, or is another".into());
            }
            let cause = match in_log {
                Some(true) => {
                    evidence.push("the kernel's log names it as killed for lack of memory".into());
                    EndCause::Oom
                }
                _ => EndCause::Unwatched,
            };
            // A clock that was set back must not put the end after this moment.
            let at_ms = alive_ms.unwrap_or(now.wall_ms).min(now.wall_ms);
            let end = Some(ProcessEnd { at_ms, cause, evidence });
            round.batch.processes.push(WatchedProcess { end, ..process });
        }
        round
    }

    /// Ends the processes that are gone.
    pub(super) fn find_gone(&mut self, stats: &HashMap<u32, Stat>, now: Moment, round: &mut Round) {
        let is_there = |identity: &Identity| {
            stats.get(&identity.pid).filter(|stat| stat.identity() == *identity)
        };
        let (mut gone, mut unreadable) = (Vec::new(), 0);
        for one in self.followed.values_mut() {
            match is_there(&one.identity) {
                None if has_ended(&self.root, one.identity) => {
                    gone.push((one.identity, self.senses.status(one.identity)));
                }
                None => unreadable += 1,
                Some(stat) if stat.is_dead() => {
                    // The kernel tells the status only once its parent has asked for it.
                    one.dead_rounds += 1;
                    if one.dead_rounds >= DEAD_ROUNDS {
                        gone.push((one.identity, self.senses.status(one.identity)));
                    }
                }
                Some(_) => {}
            }
        }
        self.say("unreadable", unreadable > 0, now, round, || {
            let processes = count(unreadable, "process");
            format!("the kernel says nothing of {processes} now, as where too many files are open: they count as running")
        });
        let machine = oom_kills(&self.root);
        // One that exited by itself is none of those that the group counted.
        let group_of = |identity: &Identity| {
            self.followed.get(identity).and_then(|one| one.process.group.clone())
        };
        let killed: Vec<Option<String>> = gone
            .iter()
            .filter(|(_, status)| matches!(status, None | Some(ExitStatus::Signal(9))))
            .map(|(identity, _)| group_of(identity))
            .collect();
        let together: Vec<usize> = gone
            .iter()
            .map(|(identity, _)| {
                let group = group_of(identity);
                killed.iter().filter(|other| **other == group).count()
            })
            .collect();
        for ((identity, status), vanished_together) in gone.into_iter().zip(together) {
            let Some(one) = self.followed.remove(&identity) else { continue };
            let kills = one.folder.as_deref().and_then(group_kills);
            let signs = EndSigns {
                status,
                in_kernel_log: self.senses.in_log(identity),
                group_kills: one.kills.zip(kills),
                machine_kills: self.machine_kills.zip(machine),
                vanished_together,
                is_replaced: false,
            };
            let cause = cause(&signs);
            self.count_end(&one.process.server.program, cause.0);
            end(one.process, cause, now, round);
        }
    }

    /// Says the ends of a round: a few by name, the others by number.
    pub(super) fn say_ends(round: &mut Round) {
        let others = round.ends.len().saturating_sub(SAID);
        round.says.extend(round.ends.drain(..).take(SAID));
        if others > 0 {
            round.says.push(format!("{others} other {} ended", counted(&others, "process")));
        }
    }

    /// Ends those that run another program now.
    pub(super) fn replaced(&mut self, there: &BTreeSet<Identity>, now: Moment, round: &mut Round) {
        let gone: Vec<Identity> =
            self.followed.keys().filter(|identity| !there.contains(identity)).copied().collect();
        for identity in gone {
            // One that ended since the list was read is found by the next round.
            if is_ruby(&self.root, identity.pid) != Some(false)
                || !has_mappings(&self.root, identity.pid)
                || !self.root.alive(identity)
            {
                continue;
            }
            let Some(one) = self.followed.remove(&identity) else { continue };
            // Its handle is given back: the end of the other program would wake the watch again and again.
            self.senses.status(identity);
            let signs = EndSigns { is_replaced: true, ..EndSigns::default() };
            let cause = cause(&signs);
            self.count_end(&one.process.server.program, cause.0);
            end(one.process, cause, now, round);
        }
    }
}

/// Whether a process is gone for certain. Where the kernel only refuses to say, as without a descriptor left, it is not.
fn has_ended(root: &ProcRoot, process: Identity) -> bool {
    match root.identify(process.pid) {
        Ok(found) => found != process,
        Err(error) => matches!(error, ProcError::Ended(_)),
    }
}

/// Whether it can be read what a process runs. Otherwise it is judged by a title, which a Ruby changes.
fn has_mappings(root: &ProcRoot, pid: u32) -> bool {
    root.read(pid, "maps").is_ok_and(|maps| !maps.is_empty())
}

fn end(
    process: WatchedProcess,
    (cause, evidence): (EndCause, Vec<String>),
    now: Moment,
    round: &mut Round,
) {
    event(round, now, Some(process.number), cause.words());
    // The store has all of them; a server whose jobs are processes would fill a log with normal ends.
    if cause != EndCause::Exited(0) {
        let text = format!("process {} ({}) {}", process.pid, process.title, cause.words());
        round.ends.push(text);
    }
    let end = Some(ProcessEnd { at_ms: now.wall_ms, cause, evidence });
    round.batch.processes.push(WatchedProcess { end, ..process });
}
