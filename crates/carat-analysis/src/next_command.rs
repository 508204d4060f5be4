//! The one command that helps most with a Ruby tree, by what is cheap to know of it.

use carat_model::Bytes;
use carat_model::host::{ProcessRole, RubyTree};

/// A share of a limit from which on the end is near.
const NEAR: f64 = 0.85;
/// A share of the tree in swap that matters.
const SWAPPED: f64 = 0.05;
/// A share of the tree that workers have for themselves, from which on sharing is the question.
const UNSHARED: f64 = 0.6;
/// Private memory of a worker below which sharing is no question.
const MUCH: Bytes = Bytes(20_000_000);
/// As many arenas as glibc makes for one core by default.
const MANY_ARENAS: u32 = 8;

/// The command without the name of the program, and why.
pub fn next_command(tree: &RubyTree) -> (String, String) {
    let explain = format!("explain {}", tree.pid);
    // Not allowed to read is the first problem: everything below rests on figures.
    if tree.pss.is_none() && !tree.missing.is_empty() {
        return (explain, "what may not be read of it, and what helps".into());
    }
    // Then in order of urgency: the limit, kills, swap, sharing, arenas.
    let limit = tree.group.as_ref().and_then(|group| group.nearest_limit());
    if let Some(limit) = limit.filter(|limit| limit.share() >= NEAR) {
        let why = format!("{:.0} % of its limit of {} is used", limit.share() * 100.0, limit.limit);
        return (explain, why);
    }
    let killed = tree.group.as_ref().and_then(|group| group.oom_kills).filter(|kills| *kills > 0);
    if let Some(kills) = killed {
        return (explain, format!("the kernel has killed {kills} of its group for lack of memory"));
    }
    let total = tree.pss.unwrap_or_default();
    if let Some(swap) = tree.swap.filter(|swap| share(*swap, total) >= SWAPPED) {
        return (explain, format!("{swap} of it is in swap"));
    }
    if let Some((worker, part)) = unshared(tree, total) {
        let why = format!("workers have {:.0} % of it for themselves", part * 100.0);
        return (format!("explain {worker} --unshared"), why);
    }
    if let Some(arenas) = tree.arenas.filter(|arenas| *arenas >= MANY_ARENAS) {
        return (explain, format!("{arenas} malloc arenas: how much of them is free"));
    }
    (explain, "where its memory is".into())
}

fn share(part: Bytes, total: Bytes) -> f64 {
    part.0 as f64 / total.0.max(1) as f64
}

/// The worker with most memory of its own, and the share that all workers have for themselves.
fn unshared(tree: &RubyTree, total: Bytes) -> Option<(u32, f64)> {
    let workers =
        tree.processes.iter().filter(|one| one.role == ProcessRole::Worker && one.is_ruby);
    // Forked from a Ruby of the tree: others never shared anything.
    let workers: Vec<_> = workers.filter(|one| one.forked_from.is_some()).collect();
    let private = workers.iter().map(|one| one.private).sum::<Option<Bytes>>()?;
    let most = workers.iter().max_by_key(|one| one.private)?;
    // A single worker has nobody to share with but its parent.
    let is_much = most.private >= Some(MUCH) && workers.len() > 1;
    (is_much && share(private, total) >= UNSHARED).then(|| (most.pid, share(private, total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::host::TreeProcess;
    use carat_model::{GroupLimit, GroupUse, LimitKind};

    fn cluster(private: u64) -> RubyTree {
        let worker = |pid, private| TreeProcess {
            pid,
            role: ProcessRole::Worker,
            is_ruby: true,
            forked_from: Some(10),
            private: Some(Bytes(private * 1_000_000)),
            ..TreeProcess::default()
        };
        RubyTree {
            pid: 10,
            workers: 2,
            pss: Some(Bytes(300_000_000)),
            processes: vec![worker(11, private), worker(12, private + 1)],
            ..RubyTree::default()
        }
    }

    fn group(used: u64, oom_kills: u64) -> Option<GroupUse> {
        let limit = GroupLimit {
            group: "/a".into(),
            kind: LimitKind::Max,
            limit: Bytes(512_000_000),
            used: Bytes(used),
        };
        Some(GroupUse { limits: vec![limit], oom_kills: Some(oom_kills), ..GroupUse::default() })
    }

    #[test]
    fn the_nearest_trouble_comes_first() {
        let with = |edit: fn(&mut RubyTree)| {
            let mut tree = cluster(120);
            edit(&mut tree);
            next_command(&tree)
        };
        for (edit, command, why) in [
            ((|_| {}) as fn(&mut RubyTree), "explain 12 --unshared", "80 %"),
            (
                |tree| tree.group = group(490_000_000, 1),
                "explain 10",
                "96 % of its limit of 512.0 MB",
            ),
            (|tree| tree.group = group(1, 1), "explain 10", "killed 1"),
            (|tree| tree.swap = Some(Bytes(30_000_000)), "explain 10", "30.00 MB"),
            (|tree| *tree = cluster(10), "explain 10", "where"),
            (
                |tree| *tree = RubyTree { arenas: Some(17), ..cluster(10) },
                "explain 10",
                "17 malloc arenas",
            ),
            (
                |tree| (tree.pss, tree.missing) = (None, vec!["x".into()]),
                "explain 10",
                "may not be read",
            ),
        ] {
            let found = with(edit);
            assert_eq!(found.0, command);
            assert!(found.1.contains(why), "{found:?}");
        }
    }
}
