//! Which processes of a tree do the work that the tree was started for, whoever started them.

/// What decides whether a process serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingSigns {
    pub pid: u32,
    /// Its parent's pid.
    pub parent: u32,
    /// What it shares with every process that was forked from it and with none that executed a program since: the place of
    /// the program in memory. `None` where it cannot be read.
    pub image: Option<u64>,
    /// Whether it is a Ruby.
    pub is_ruby: bool,
    /// Whether it listens on a socket; `None` where that cannot be read.
    pub listens: Option<bool>,
    /// Whether it is known to only start servers, although it listens itself.
    pub is_launcher: bool,
}

/// How the processes that serve were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingBy {
    /// They listen, or were forked from one that does.
    Listening,
    /// Nothing listens: they are the Rubies that started no other Ruby, and what was forked with them.
    Working,
    /// Nothing yet: what listens is no Ruby, and it has started none that does.
    Nothing,
}

/// The pids of the processes that serve. Where the tree has a Ruby, only Rubies are among them: what another program listens
/// for, such as a proxy or a watchdog, says nothing about settings.
pub fn serving(processes: &[ServingSigns]) -> (ServingBy, Vec<u32>) {
    let any_ruby = processes.iter().any(|one| one.is_ruby);
    let of_kind: Vec<&ServingSigns> =
        processes.iter().filter(|one| one.is_ruby || !any_ruby).collect();
    let listening: Vec<&ServingSigns> =
        of_kind.iter().copied().filter(|one| one.listens == Some(true)).collect();
    let serving: Vec<&ServingSigns> =
        listening.into_iter().filter(|one| !one.is_launcher).collect();
    if !serving.is_empty() {
        return (ServingBy::Listening, of_same_images(&of_kind, &serving));
    }
    // A proxy that listens says nothing of its Rubies, which may be about to start.
    if processes.iter().any(|one| one.listens == Some(true) && !one.is_launcher) {
        return (ServingBy::Nothing, Vec::new());
    }
    let working = leaf_most(processes, &of_kind);
    match working.is_empty() {
        true => (ServingBy::Nothing, Vec::new()),
        false => (ServingBy::Working, of_same_images(&of_kind, &working)),
    }
}

/// The pids of `found` and of all that share an image with one of them.
fn of_same_images(among: &[&ServingSigns], found: &[&ServingSigns]) -> Vec<u32> {
    let of_one = among.iter().filter(|one| found.iter().any(|found| one.is_fork_of(found)));
    of_one.map(|one| one.pid).collect()
}

/// Those of no image that has started another one among them.
fn leaf_most<'a>(all: &[ServingSigns], among: &[&'a ServingSigns]) -> Vec<&'a ServingSigns> {
    let launchers = among.iter().filter(|one| one.is_launcher || started_another(one, among, all));
    let launchers: Vec<&&ServingSigns> = launchers.collect();
    let workers = among.iter().filter(|one| !launchers.iter().any(|other| one.is_fork_of(other)));
    workers.copied().collect()
}

fn started_another(one: &ServingSigns, among: &[&ServingSigns], all: &[ServingSigns]) -> bool {
    // A master and its workers share an image, so a master is no launcher.
    among.iter().any(|other| !other.is_fork_of(one) && descends(other, one.pid, all))
}

impl ServingSigns {
    /// Whether it is this process, was forked from it, or both from a third.
    fn is_fork_of(&self, other: &Self) -> bool {
        self.pid == other.pid || self.image.is_some() && self.image == other.image
    }
}

fn descends(from: &ServingSigns, ancestor: u32, all: &[ServingSigns]) -> bool {
    let mut at = from;
    // The depth is bounded because parents read at different times can form a cycle.
    for _ in 0..all.len() {
        if at.parent == ancestor {
            return true;
        }
        let Some(parent) = all.iter().find(|one| one.pid == at.parent) else { return false };
        at = parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, image, and what it is: R a Ruby, L listens, ? cannot be read, K a known launcher.
    type Row = (u32, u32, u64, &'static str);

    fn found(rows: &[Row]) -> (ServingBy, Vec<u32>) {
        let signs = rows.iter().map(|&(pid, parent, image, kind)| ServingSigns {
            pid,
            parent,
            image: (image != 0).then_some(image),
            is_ruby: kind.contains('R'),
            listens: (!kind.contains('?')).then(|| kind.contains('L')),
            is_launcher: kind.contains('K'),
        });
        serving(&signs.collect::<Vec<_>>())
    }

    #[test]
    fn what_listens_serves_with_all_that_was_forked_from_it() {
        use ServingBy::Listening;
        for (what, rows, expected) in [
            ("puma", &[(2, 1, 7, "RL")][..], &[2][..]),
            ("a cluster", &[(2, 1, 7, "RL"), (3, 2, 7, "RL"), (4, 2, 7, "R")], &[2, 3, 4]),
            ("behind a shell", &[(2, 1, 5, ""), (3, 2, 7, "RL")], &[3]),
            (
                "thin, whose launcher has ended",
                &[(4, 1, 7, "RL"), (5, 1, 8, "RL"), (6, 5, 9, "")],
                &[4, 5],
            ),
            (
                "passenger: launcher, watchdog, core, preloader, two workers, tail",
                &[
                    (2, 1, 5, "R"),
                    (3, 1, 6, "L"),
                    (4, 3, 6, "L"),
                    (5, 4, 7, "RL"),
                    (6, 5, 7, "RL"),
                    (7, 5, 7, "R"),
                    (8, 2, 8, ""),
                ],
                &[5, 6, 7],
            ),
            ("a worker's own Ruby job", &[(2, 1, 7, "RL"), (3, 2, 8, "R")], &[2]),
            ("god, which listens", &[(2, 1, 5, "RLK"), (3, 2, 7, "RL")], &[3]),
            ("a worker without readable maps", &[(2, 1, 7, "RL"), (3, 2, 0, "R?")], &[2]),
            ("a server in C", &[(2, 1, 5, "L"), (3, 2, 6, "")], &[2]),
        ] {
            assert_eq!(found(rows), (Listening, expected.to_vec()), "{what}");
        }
    }

    #[test]
    fn where_nothing_listens_the_rubies_work_that_started_no_other() {
        use ServingBy::Working;
        for (what, rows, expected) in [
            ("sidekiq", &[(2, 1, 7, "R")][..], &[2][..]),
            (
                "resque with two children",
                &[(2, 1, 7, "R"), (3, 2, 7, "R"), (4, 2, 7, "R")],
                &[2, 3, 4],
            ),
            ("foreman and two jobs", &[(2, 1, 5, "R"), (3, 2, 7, "R"), (4, 2, 8, "R")], &[3, 4]),
            ("a launcher through a shell", &[(2, 1, 5, "R"), (3, 2, 6, ""), (4, 3, 7, "R")], &[4]),
            (
                "a launcher that forked a monitor",
                &[(2, 1, 5, "R"), (3, 2, 5, "R"), (4, 3, 7, "R")],
                &[4],
            ),
            ("no Ruby at all", &[(2, 1, 5, ""), (3, 2, 6, "")], &[3]),
        ] {
            assert_eq!(found(rows), (Working, expected.to_vec()), "{what}");
        }
    }

    #[test]
    fn a_launcher_alone_is_no_server() {
        let nothing = (ServingBy::Nothing, Vec::new());
        assert_eq!(
            found(&[(2, 1, 5, "R"), (3, 1, 6, "L")]),
            nothing,
            "passenger before its preloader"
        );
        assert_eq!(found(&[(2, 1, 5, "RLK")]), nothing, "god before its server");
        assert_eq!(found(&[]), nothing);
    }
}
