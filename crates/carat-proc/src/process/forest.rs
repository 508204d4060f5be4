//! Which Rubies of a machine belong together: those that were forked from one another, and what they started.
//!
//! A Ruby that another one started as a program of its own, as `foreman` does, is a tree of its own. A worker whose parent is no Ruby
//! (Passenger's workers are children of its watchdog, a daemon's of process 1) belongs to the Ruby that shares its image.

use carat_model::host::ProcessRole;
use std::collections::HashMap;

/// What decides where a process belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForestSigns {
    pub pid: u32,
    pub parent: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    pub is_ruby: bool,
    /// The place of the program in memory, which a fork keeps and an exec changes; `None` where it is unknown or where the
    /// kernel does not choose it at random.
    pub image: Option<u64>,
    /// The role that its title says.
    pub role: Option<ProcessRole>,
}

/// One process in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    pub pid: u32,
    pub role: ProcessRole,
    /// The Ruby that it was forked from, where that is left: its parent, or the oldest one with its image.
    pub forked_from: Option<u32>,
}

/// One tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RubyGroup {
    /// The process that started the others, or the oldest.
    pub leader: u32,
    /// All processes in the order of their start.
    pub members: Vec<Grown>,
}

/// The groups of the Rubies among these processes, and the programs that they started.
pub fn groups(all: &[ForestSigns]) -> Vec<RubyGroup> {
    let by_pid: HashMap<u32, &ForestSigns> = all.iter().map(|one| (one.pid, one)).collect();
    let mut belongs: HashMap<u32, u32> = HashMap::new();
    let mut by_image: HashMap<u64, u32> = HashMap::new();
    let mut sorted: Vec<&ForestSigns> = all.iter().collect();
    // Parents come first, so that theirs is known when a child is decided.
    sorted.sort_by_key(|one| (one.start_ticks, one.pid));
    for &one in sorted.iter().filter(|one| one.is_ruby || is_agent(one)) {
        let parent = parent_of(one, &by_pid).filter(|parent| belongs_together(one, parent));
        let with_parent = parent.and_then(|parent| belongs.get(&parent.pid));
        let with_image = one.image.filter(|_| one.is_ruby).and_then(|image| by_image.get(&image));
        let leader = with_parent.or(with_image).copied().unwrap_or(one.pid);
        belongs.insert(one.pid, leader);
        if let Some(image) = one.image.filter(|_| one.is_ruby) {
            by_image.entry(image).or_insert(leader);
        }
    }
    // A watchdog without a Ruby is no tree of Rubies.
    let with_ruby: Vec<u32> = all
        .iter()
        .filter(|one| one.is_ruby)
        .filter_map(|one| belongs.get(&one.pid))
        .copied()
        .collect();
    belongs.retain(|_, leader| with_ruby.contains(leader));
    // Once more from the oldest on, so that what a program started in turn comes along.
    for &one in &sorted {
        if !belongs.contains_key(&one.pid)
            && let Some(leader) =
                parent_of(one, &by_pid).and_then(|parent| belongs.get(&parent.pid))
        {
            belongs.insert(one.pid, *leader);
        }
    }
    grown(&sorted, &belongs)
}

fn parent_of<'a>(
    one: &ForestSigns,
    by_pid: &HashMap<u32, &'a ForestSigns>,
) -> Option<&'a ForestSigns> {
    let parent = *by_pid.get(&one.parent)?;
    // A pid that was reused since is no parent.
    // Not strictly less: a tick is 10 ms, and a child is often forked in the same one.
    (parent.pid != one.pid && parent.start_ticks <= one.start_ticks).then_some(parent)
}

fn is_agent(one: &ForestSigns) -> bool {
    !one.is_ruby && matches!(one.role, Some(ProcessRole::Watchdog | ProcessRole::Core))
}

/// Whether a Ruby or an agent belongs to its parent's tree.
fn belongs_together(one: &ForestSigns, parent: &ForestSigns) -> bool {
    is_agent(parent) || parent.is_ruby && one.is_ruby && is_fork(one, parent)
}

/// Whether one was forked from the other without another program since; an unknown image speaks for it.
fn is_fork(one: &ForestSigns, other: &ForestSigns) -> bool {
    one.image.zip(other.image).is_none_or(|(one, other)| one == other)
}

fn grown(sorted: &[&ForestSigns], belongs: &HashMap<u32, u32>) -> Vec<RubyGroup> {
    let mut groups: Vec<RubyGroup> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut members: Vec<Vec<&ForestSigns>> = Vec::new();
    for &one in sorted {
        let Some(leader) = belongs.get(&one.pid) else { continue };
        let place = *places.entry(*leader).or_insert_with(|| {
            groups.push(RubyGroup { leader: *leader, members: Vec::new() });
            members.push(Vec::new());
            groups.len() - 1
        });
        members[place].push(one);
    }
    for (group, members) in groups.iter_mut().zip(members) {
        let origins: Vec<Option<u32>> = members.iter().map(|one| origin(one, &members)).collect();
        group.members = members
            .iter()
            .zip(&origins)
            .map(|(one, forked_from)| Grown {
                pid: one.pid,
                role: role(one, *forked_from, &origins),
                forked_from: *forked_from,
            })
            .collect();
    }
    groups
}

fn origin(one: &ForestSigns, members: &[&ForestSigns]) -> Option<u32> {
    let rubies = members.iter().filter(|other| other.is_ruby && other.pid != one.pid);
    if !one.is_ruby {
        return None;
    }
    // The parent first: it shares more pages than an older process with the same image.
    let parent = rubies.clone().find(|other| other.pid == one.parent && is_fork(one, other));
    let mut older = rubies.filter(|other| other.start_ticks < one.start_ticks);
    // Sorted by start, so the first of one image is the one that loaded what all of it have.
    parent
        .or_else(|| older.find(|other| one.image.is_some() && one.image == other.image))
        .map(|other| other.pid)
}

fn role(one: &ForestSigns, forked_from: Option<u32>, origins: &[Option<u32>]) -> ProcessRole {
    match (one.is_ruby, one.role) {
        // The title is the server's own claim, so the shape of the tree counts only without one.
        (_, Some(role)) => role,
        (false, None) => ProcessRole::Other,
        (true, None) if forked_from.is_some() => ProcessRole::Worker,
        (true, None) if origins.contains(&Some(one.pid)) => ProcessRole::Master,
        (true, None) => ProcessRole::Single,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProcessRole::{Core, Master, Other, Preloader, Single, Watchdog, Worker};

    fn ruby(pid: u32, parent: u32, image: u64) -> ForestSigns {
        let image = Some(image);
        ForestSigns { pid, parent, start_ticks: u64::from(pid), is_ruby: true, image, role: None }
    }

    fn other(pid: u32, parent: u32) -> ForestSigns {
        ForestSigns { is_ruby: false, image: Some(99), ..ruby(pid, parent, 0) }
    }

    fn titled(signs: ForestSigns, role: ProcessRole) -> ForestSigns {
        ForestSigns { role: Some(role), ..signs }
    }

    /// Pid, role and origin of the members of each group.
    fn found(all: &[ForestSigns]) -> Vec<Vec<(u32, ProcessRole, Option<u32>)>> {
        let members = |group: RubyGroup| {
            group.members.iter().map(|one| (one.pid, one.role, one.forked_from)).collect()
        };
        groups(all).into_iter().map(members).collect()
    }

    #[test]
    fn a_master_and_what_it_forked_are_one_tree_and_what_it_started_as_a_program_is_another() {
        let all = [
            other(1, 0),
            ruby(10, 1, 5),
            ruby(11, 10, 5),
            ruby(12, 10, 5),
            other(13, 12),
            ruby(20, 10, 6),
            other(30, 1),
        ];
        let cluster = vec![
            (10, Master, None),
            (11, Worker, Some(10)),
            (12, Worker, Some(10)),
            (13, Other, None),
        ];
        assert_eq!(found(&all), [cluster, vec![(20, Single, None)]]);
    }

    #[test]
    fn workers_of_passenger_were_forked_from_the_preloader_and_never_from_the_watchdog() {
        let all = [
            titled(other(5, 1), Watchdog),
            titled(other(6, 5), Core),
            titled(ruby(10, 6, 7), Preloader),
            titled(ruby(11, 6, 7), Worker),
            // An orphan.
            titled(ruby(12, 1, 7), Worker),
        ];
        let tree = vec![
            (5, Watchdog, None),
            (6, Core, None),
            (10, Preloader, None),
            (11, Worker, Some(10)),
            (12, Worker, Some(10)),
        ];
        assert_eq!(found(&all), [tree]);
        assert_eq!(found(&all[..2]), [] as [Vec<_>; 0], "without a Ruby");
    }

    #[test]
    fn a_parent_of_unknown_image_is_taken_for_the_one_that_forked_and_a_reused_pid_is_not() {
        let unknown = |pid, parent| ForestSigns { image: None, ..ruby(pid, parent, 0) };
        let group = vec![(10, Master, None), (11, Worker, Some(10))];
        assert_eq!(found(&[unknown(10, 1), unknown(11, 10)]), [group]);
        let younger_parent = [ruby(30, 1, 3), ForestSigns { parent: 30, ..ruby(20, 30, 4) }];
        assert_eq!(found(&younger_parent).len(), 2);
        // Parents that were read at different times can form a circle.
        let circle = [
            ForestSigns { start_ticks: 1, ..other(40, 41) },
            ForestSigns { start_ticks: 1, ..other(41, 40) },
        ];
        assert_eq!(found(&circle), [] as [Vec<_>; 0]);
    }
}
