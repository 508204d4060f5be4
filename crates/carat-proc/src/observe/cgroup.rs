//! What the kernel charges to the tree's own control group, versions 1 and 2.
//!
//! Only if the group holds the tree and nothing else: a container's group charges carat itself too.

use crate::observe::fields::{leading_number, numbers};
use crate::process::{Identity, ProcRoot};
use carat_model::{Bytes, CgroupSample};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The tree's own control group, if it has one.
#[derive(Debug)]
pub(super) struct Cgroup {
    mount: PathBuf,
    /// The members for which `group` was determined.
    members: Vec<Identity>,
    group: Option<CgroupPath>,
}

/// Where a group's files are, by version of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CgroupPath {
    One(PathBuf),
    Two(PathBuf),
}

impl Cgroup {
    /// Reads groups from `/sys/fs/cgroup` next to this `/proc`.
    pub(super) fn beside(root: &ProcRoot) -> Self {
        // A captured `/proc` has its `/sys` beside it, as the root of a file system does.
        let mount = root.path().parent().unwrap_or(Path::new("/")).join("sys/fs/cgroup");
        Self { mount, members: Vec::new(), group: None }
    }

    /// The group's figures. Finds the group again whenever the members have changed, and where that is asked for (`anew`): other
    /// processes may have joined it since.
    pub(super) fn read(
        &mut self,
        root: &ProcRoot,
        members: &[Identity],
        anew: bool,
    ) -> Option<CgroupSample> {
        // Listing the group's processes costs a read for each group below, so not in every sample.
        if anew || self.members != members {
            self.members = members.to_vec();
            self.group = self.own_group(root, members);
        }
        match self.group.as_ref()? {
            CgroupPath::One(path) => read_version_1(path),
            CgroupPath::Two(path) => read_version_2(path),
        }
    }

    fn own_group(&self, root: &ProcRoot, members: &[Identity]) -> Option<CgroupPath> {
        // One member is enough: if another is in a group elsewhere, the check below fails.
        let text = root.read(members.first()?.pid, "cgroup").ok()?;
        let group = parse_groups(&String::from_utf8_lossy(&text))
            .into_iter()
            .map(|(version, path)| self.place(version, &path))
            .find(|group| group.exists())?;
        let ours: HashSet<u32> = members.iter().map(|member| member.pid).collect();
        let inside = processes_below(group.path());
        // A list without even the member is of another group, by a path of another namespace.
        let is_ours = |pid: &u32| ours.contains(pid) || descends_from(root, *pid, &ours);
        (!inside.is_empty() && inside.iter().all(is_ours)).then_some(group)
    }

    fn place(&self, version: CgroupVersion, path: &str) -> CgroupPath {
        let path = path.trim_start_matches('/');
        match version {
            CgroupVersion::One => CgroupPath::One(self.mount.join("memory").join(path)),
            CgroupVersion::Two => CgroupPath::Two(self.mount.join(path)),
        }
    }
}

impl CgroupPath {
    fn path(&self) -> &Path {
        match self {
            Self::One(path) | Self::Two(path) => path,
        }
    }

    fn exists(&self) -> bool {
        let file = match self {
            Self::One(_) => "memory.usage_in_bytes",
            Self::Two(_) => "memory.current",
        };
        self.path().join(file).is_file()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    One,
    Two,
}

/// The memory groups named in `/proc/PID/cgroup`: both versions if the machine mounts both (cgroups(7)).
pub(super) fn parse_groups(text: &str) -> Vec<(CgroupVersion, String)> {
    text.lines()
        .filter_map(|line| {
            let (hierarchy, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let version = match (hierarchy, controllers) {
                // The unified hierarchy has the number 0 and names no controllers (cgroups(7)).
                ("0", "") => CgroupVersion::Two,
                _ if controllers.split(',').any(|one| one == "memory") => CgroupVersion::One,
                _ => return None,
            };
            Some((version, path.to_owned()))
        })
        .collect()
}

/// Generations between a program that a server has just started and the server.
const GENERATIONS: usize = 8;

/// Whether a process was started by one of the tree since its members were listed.
fn descends_from(root: &ProcRoot, pid: u32, tree: &HashSet<u32>) -> bool {
    let parent = |pid: &u32| root.stat(*pid).ok().map(|stat| stat.parent);
    std::iter::successors(Some(pid), parent).take(GENERATIONS).any(|pid| tree.contains(&pid))
}

/// Every process in the group and in the groups below it.
pub(super) fn processes_below(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes_below(&entry.path()));
        }
    }
    pids
}

fn read_version_2(path: &Path) -> Option<CgroupSample> {
    let current = amount(path, "memory.current")?;
    let stat = fs::read(path.join("memory.stat")).unwrap_or_default();
    Some(CgroupSample {
        current,
        // Linux 5.19 and later.
        peak: amount(path, "memory.peak"),
        // The kubelet evicts by this figure: what the kernel can drop at once is left out.
        working_set: field(&stat, b"inactive_file").map(|bytes| current.saturating_sub(bytes)),
        sockets: field(&stat, b"sock"),
        slab: field(&stat, b"slab"),
        oom_kills: fs::read(path.join("memory.events"))
            .ok()
            .and_then(|events| field(&events, b"oom_kill"))
            .map(|kills| kills.0),
    })
}

fn read_version_1(path: &Path) -> Option<CgroupSample> {
    let current = amount(path, "memory.usage_in_bytes")?;
    let stat = fs::read(path.join("memory.stat")).unwrap_or_default();
    // `total_` figures include the groups below, as `usage_in_bytes` does (cgroup-v1/memory.rst).
    let inactive = field(&stat, b"total_inactive_file");
    Some(CgroupSample {
        current,
        peak: amount(path, "memory.max_usage_in_bytes"),
        working_set: inactive.map(|bytes| current.saturating_sub(bytes)),
        sockets: amount(path, "memory.kmem.tcp.usage_in_bytes"),
        // `memory.kmem.usage_in_bytes` counts page tables and kernel stacks too.
        slab: None,
        oom_kills: fs::read(path.join("memory.oom_control"))
            .ok()
            .and_then(|control| field(&control, b"oom_kill"))
            .map(|kills| kills.0),
    })
}

/// The number in a file of a group, in bytes.
pub(super) fn amount(path: &Path, file: &str) -> Option<Bytes> {
    leading_number(&fs::read(path.join(file)).ok()?).map(Bytes)
}

/// A named number of a text, such as `memory.stat`.
pub(super) fn field(text: &[u8], name: &[u8]) -> Option<Bytes> {
    numbers(text).find(|(found, _)| *found == name).map(|(_, number)| Bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(pid: u32) -> Identity {
        Identity { pid, start_ticks: 1 }
    }

    /// A machine whose process 10 is in the group that `line` names, with the group's files.
    fn machine(line: &str, group: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, ProcRoot) {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("proc/10");
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("cgroup"), line).unwrap();
        let group = folder.path().join("sys/fs/cgroup").join(group);
        fs::create_dir_all(&group).unwrap();
        for (name, text) in files {
            fs::write(group.join(name), text).unwrap();
        }
        let root = ProcRoot::new(folder.path().join("proc"));
        (folder, root)
    }

    #[test]
    fn version_2_has_peak_kills_sockets_and_working_set() {
        let (_folder, root) = machine(
            "0::/system.slice/puma.service\n",
            "system.slice/puma.service",
            &[
                ("cgroup.procs", "10\n11\n"),
                ("memory.current", "1000000\n"),
                ("memory.peak", "2000000\n"),
                ("memory.stat", "anon 700000\ninactive_file 200000\nsock 4096\nslab 8192\n"),
                ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"),
            ],
        );
        let found = Cgroup::beside(&root).read(&root, &[who(10), who(11)], false).unwrap();
        assert_eq!((found.current, found.peak), (Bytes(1_000_000), Some(Bytes(2_000_000))));
        assert_eq!(found.working_set, Some(Bytes(800_000)));
        assert_eq!((found.sockets, found.slab), (Some(Bytes(4096)), Some(Bytes(8192))));
        assert_eq!(found.oom_kills, Some(1));
    }

    #[test]
    fn version_1_has_its_own_file_names() {
        let (_folder, root) = machine(
            "5:devices:/\n4:memory:/box\n0::/\n",
            "memory/box",
            &[
                ("cgroup.procs", "10\n"),
                ("memory.usage_in_bytes", "1000000\n"),
                ("memory.max_usage_in_bytes", "1500000\n"),
                ("memory.stat", "cache 5\ntotal_inactive_file 100000\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("memory.kmem.usage_in_bytes", "1261568\n"),
            ],
        );
        let found = Cgroup::beside(&root).read(&root, &[who(10)], false).unwrap();
        assert_eq!(found.working_set, Some(Bytes(900_000)));
        assert_eq!((found.oom_kills, found.sockets), (Some(2), None));
        assert_eq!(found.slab, None);
    }

    #[test]
    fn who_joins_the_group_later_ends_its_figures_unless_the_tree_has_started_it() {
        let files = [("cgroup.procs", "10\n"), ("memory.current", "1\n")];
        let (folder, root) = machine("0::/box\n", "box", &files);
        let mut group = Cgroup::beside(&root);
        assert!(group.read(&root, &[who(10)], true).is_some());
        fs::write(folder.path().join("sys/fs/cgroup/box/cgroup.procs"), "10\n99\n").unwrap();
        assert!(group.read(&root, &[who(10)], false).is_some(), "not looked at in every sample");
        for (parent, has_figures) in [(10, true), (1, false)] {
            let stat = format!("99 (ruby) S {parent} {}\n", ["0"; 48].join(" "));
            fs::create_dir_all(root.path().join("99")).unwrap();
            fs::write(root.path().join("99/stat"), stat).unwrap();
            let found = group.read(&root, &[who(10)], true);
            assert_eq!(found.is_some(), has_figures, "child of {parent}");
        }
    }

    #[test]
    fn a_group_with_other_processes_gives_no_figures() {
        let files = [("cgroup.procs", "10\n99\n"), ("memory.current", "1\n")];
        let (folder, root) = machine("0::/box\n", "box", &files);
        assert_eq!(Cgroup::beside(&root).read(&root, &[who(10)], false), None);
        fs::write(folder.path().join("sys/fs/cgroup/box/cgroup.procs"), "10\n").unwrap();
        assert!(Cgroup::beside(&root).read(&root, &[who(10)], false).is_some());
        let below = folder.path().join("sys/fs/cgroup/box/below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), "77\n").unwrap();
        assert_eq!(Cgroup::beside(&root).read(&root, &[who(10)], false), None);
    }
}
