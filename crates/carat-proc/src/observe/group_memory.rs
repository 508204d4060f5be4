//! Limits of memory of the control groups that this process is in, versions 1 and 2.
//!
//! A container sees a part of the hierarchy: its own group may be the root of the mount, and the path in `/proc/self/cgroup`
//! may be the host's. `mountinfo` says which group the root of the mount is (cgroups(7), proc_pid_mountinfo(5)).

use crate::observe::cgroup::{CgroupVersion, amount, field, parse_groups};
use crate::process::ProcRoot;
use carat_model::{Bytes, GroupLimit, LimitKind};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Version 1 shows the largest number of pages where there is no limit.
const NO_LIMIT: Bytes = Bytes(1 << 60);
/// Files with a limit of version 1 and with what counts against it. The second counts swap too.
const ONE: [(&str, &str); 2] = [
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
];
/// Those of version 2. Above `high` its processes are slowed down, the server too.
const TWO: [(&str, &str); 2] =
    [("memory.max", "memory.current"), ("memory.high", "memory.current")];

/// A control group with a limit of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupMemory {
    /// Its path, as far as it is visible here.
    pub name: String,
    /// Its limit, or that of a group above that cannot be seen.
    pub limit: Bytes,
    /// What counts against the limit, without pages of files that the kernel can drop at once.
    pub used: Bytes,
    /// Whether the kernel ends every process of a group if one of them must be killed at this limit (`memory.oom.group`, as
    /// Kubernetes sets it): then it spares no server by killing Carat first.
    pub kills_all: bool,
}

impl GroupMemory {
    /// What is left of the limit.
    pub(super) fn left(&self) -> Bytes {
        self.limit.saturating_sub(self.used)
    }
}

/// The limits of this process's group and of every group above. Empty if there is none or if nothing can be seen.
pub(super) fn group_memory(root: &ProcRoot) -> Vec<GroupMemory> {
    let own = root.path().join("self");
    let texts = ["cgroup", "mountinfo"].map(|name| fs::read_to_string(own.join(name)));
    let [Ok(groups), Ok(mounts)] = texts else { return Vec::new() };
    let mounts = parse_mounts(&mounts);
    let beside = root.path().parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    for (version, group) in parse_groups(&groups) {
        let mut of_version = mounts.iter().filter(|mount| mount.version == version);
        if let Some(mount) = of_version.next() {
            let folder = beside.join(mount.folder.trim_start_matches('/'));
            found.extend(of_hierarchy(mount, &folder, &group));
        }
    }
    found
}

/// Where a hierarchy is mounted, and which of its groups the root of the mount is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CgroupMount {
    version: CgroupVersion,
    group: String,
    folder: String,
}

/// The mounts of control groups that may limit memory.
fn parse_mounts(mountinfo: &str) -> Vec<CgroupMount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        // The optional fields before the dash vary in number (proc_pid_mountinfo(5)).
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => CgroupVersion::Two,
            ("cgroup", options) if options.split(',').any(|one| one == "memory") => {
                CgroupVersion::One
            }
            _ => return None,
        };
        Some(CgroupMount { version, group: mount.next()?.into(), folder: mount.next()?.into() })
    });
    mounts.collect()
}

/// The path of a group below the root of the mount; empty where it is the root, or not visible in the mount.
fn below_mount(mount: &CgroupMount, group: &str) -> PathBuf {
    // A path outside of the mount, as `/../other`, is a group that this namespace does not show.
    let below = Path::new(group).strip_prefix(&mount.group).unwrap_or(Path::new(""));
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    if plain { below.to_owned() } else { PathBuf::new() }
}

fn of_hierarchy(mount: &CgroupMount, folder: &Path, group: &str) -> Vec<GroupMemory> {
    let below = below_mount(mount, group);
    let mut found = Vec::new();
    let mut kills_all = false;
    for level in below.ancestors() {
        let place = folder.join(level);
        // The kernel looks from the group of the victim up to that of the limit (mm/memcontrol.c, `mem_cgroup_get_oom_group`).
        kills_all |= amount(&place, "memory.oom.group") == Some(Bytes(1));
        // In version 1 a group above counts what is below it only with this setting.
        let counts = level == below || amount(&place, "memory.use_hierarchy") != Some(Bytes(0));
        if !counts {
            break;
        }
        // A path that ends with a slash would be another name.
        let name: PathBuf = Path::new(&mount.group).join(level).components().collect();
        let limits = of_group(mount.version, &place, &name.display().to_string());
        found.extend(limits.into_iter().map(|limit| GroupMemory { kills_all, ..limit }));
    }
    found
}

/// The limits of one group.
fn of_group(version: CgroupVersion, folder: &Path, name: &str) -> Vec<GroupMemory> {
    let limits = limits_of_group(version, folder, name).into_iter();
    let memory = limits.map(|one| GroupMemory {
        name: one.group,
        limit: one.limit,
        used: one.used,
        kills_all: false,
    });
    memory.collect()
}

/// The limits of one group, with what they do.
fn limits_of_group(version: CgroupVersion, folder: &Path, name: &str) -> Vec<GroupLimit> {
    let stat = fs::read(folder.join("memory.stat")).unwrap_or_default();
    let (files, kinds, droppable) = match version {
        CgroupVersion::One => {
            (ONE, [LimitKind::Max, LimitKind::WithSwap], field(&stat, b"total_inactive_file"))
        }
        CgroupVersion::Two => {
            (TWO, [LimitKind::Max, LimitKind::High], field(&stat, b"inactive_file"))
        }
    };
    let droppable = droppable.unwrap_or_default();
    let mut limits: Vec<GroupLimit> = files
        .into_iter()
        .zip(kinds)
        .filter_map(|((limit, used), kind)| {
            let used = amount(folder, used)?.saturating_sub(droppable);
            let limit = amount(folder, limit)?;
            Some(GroupLimit { group: name.to_owned(), kind, limit, used })
        })
        .collect();
    // The least limit of all groups above, also of those that a container does not see; they hold at least as much.
    if let (Some(first), Some(limit)) =
        (limits.first().cloned(), field(&stat, b"hierarchical_memory_limit"))
    {
        limits.push(GroupLimit { limit, ..first });
    }
    limits.retain(|group| group.limit < NO_LIMIT);
    limits
}

/// A group whose files can be read: where they are, and its limits.
pub(super) struct SeenGroup {
    pub version: CgroupVersion,
    pub folder: PathBuf,
    /// Its path, as far as it is visible here.
    pub name: String,
    pub limits: Vec<GroupLimit>,
}

/// The memory group of a process, by our own view of the hierarchies or by that of the process, as beside a container; `None`
/// where neither shows it.
pub(super) fn seen_group(root: &ProcRoot, pid: u32) -> Option<SeenGroup> {
    let groups = String::from_utf8_lossy(&root.read(pid, "cgroup").ok()?).into_owned();
    let beside = root.path().parent().unwrap_or(Path::new("/")).to_owned();
    let views = [
        (root.path().join("self/mountinfo"), beside),
        // Through `/proc/PID/root` a container's files can be read from the host.
        (root.file(pid, "mountinfo"), root.file(pid, "root")),
    ];
    views.into_iter().find_map(|(mountinfo, beside)| {
        let mounts = parse_mounts(&fs::read_to_string(mountinfo).ok()?);
        parse_groups(&groups).into_iter().find_map(|(version, group)| {
            let mut of_version = mounts.iter().filter(|mount| mount.version == version);
            of_version.find_map(|mount| seen_in(mount, &beside, &group))
        })
    })
}

/// Where a control group of memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFolder {
    pub folder: PathBuf,
    /// Its path, as far as it is visible here.
    pub name: String,
    /// The name of the file with the highest amount that was charged, in bytes.
    pub peak: &'static str,
    /// Whether limits of this group hold for groups below it.
    pub limits_below: bool,
}

/// The memory group of a process; `None` if it cannot be seen.
pub fn group_folder(root: &ProcRoot, pid: u32) -> Option<GroupFolder> {
    let SeenGroup { version, folder, name, .. } = seen_group(root, pid)?;
    let (peak, limits_below) = match version {
        CgroupVersion::One => {
            ("memory.max_usage_in_bytes", amount(&folder, "memory.use_hierarchy") != Some(Bytes(0)))
        }
        CgroupVersion::Two => ("memory.peak", true),
    };
    Some(GroupFolder { folder, name, peak, limits_below })
}

/// Processes of a group and of those below it that the kernel killed because memory ran out, at whatever limit: `memory.events`
/// in version 2, `memory.oom_control` in version 1 since Linux 4.13. `None` if the group is gone or the kernel does not count.
pub fn group_kills(folder: &Path) -> Option<u64> {
    let texts = ["memory.events", "memory.oom_control"].map(|name| fs::read(folder.join(name)));
    texts.iter().flatten().find_map(|text| field(text, b"oom_kill")).map(|kills| kills.0)
}

/// The share of the last ten seconds in which some process waited for memory, in percent (`some avg10`, PSI, Linux 4.20): of the
/// group, or of the machine where that does not say. `None` where the kernel does not count it.
pub fn memory_pressure(root: &ProcRoot, folder: Option<&Path>) -> Option<f64> {
    let of_group =
        folder.and_then(|folder| fs::read_to_string(folder.join("memory.pressure")).ok());
    let text = of_group.or_else(|| fs::read_to_string(root.path().join("pressure/memory")).ok())?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// The limits of the groups of a process; `None` if its own group cannot be seen.
pub fn group_limits(root: &ProcRoot, pid: u32) -> Option<Vec<GroupLimit>> {
    seen_group(root, pid).map(|group| group.limits)
}

/// The one that they reach first; `None` if there is none or if its own group cannot be seen.
pub fn nearest_limit(root: &ProcRoot, pid: u32) -> Option<GroupLimit> {
    group_limits(root, pid)?.into_iter().min_by_key(GroupLimit::left)
}

fn seen_in(mount: &CgroupMount, beside: &Path, group: &str) -> Option<SeenGroup> {
    // Another group than that of the process would have another limit.
    let below = Path::new(group).strip_prefix(&mount.group).ok()?;
    if !below.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let top = beside.join(mount.folder.trim_start_matches('/'));
    // A group for which the memory controller is off has no such file: version 2 charges its processes to the nearest one above for
    // which it is on (cgroup-v2.rst, "Enabling and Disabling").
    let below = below.ancestors().find(|level| top.join(level).join("memory.stat").is_file())?;
    let folder = top.join(below);
    let mut limits: Vec<GroupLimit> = Vec::new();
    for level in below.ancestors() {
        let place = top.join(level);
        // In version 1 a group above counts what is below it only with this setting.
        if level != below && amount(&place, "memory.use_hierarchy") == Some(Bytes(0)) {
            break;
        }
        let name: PathBuf = Path::new(&mount.group).join(level).components().collect();
        limits.extend(limits_of_group(mount.version, &place, &name.display().to_string()));
    }
    // Version 1 says the least limit of all above again in each group, and groups may have equal limits: a group above has used more.
    let mut known: Vec<GroupLimit> = Vec::new();
    for limit in limits {
        let same = |one: &&mut GroupLimit| (one.kind, one.limit) == (limit.kind, limit.limit);
        match known.iter_mut().find(same) {
            Some(one) if limit.used > one.used => *one = limit,
            Some(_) => {}
            None => known.push(limit),
        }
    }
    let name: PathBuf = Path::new(&mount.group).join(below).components().collect();
    Some(SeenGroup {
        version: mount.version,
        folder,
        name: name.display().to_string(),
        limits: known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_MOUNTED: &str = "30 24 0:26 /docker/7f /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup rw,memory\n\
        31 24 0:27 /docker/7f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n";
    const TWO_MOUNTED: &str =
        "42 32 0:29 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn machine(group: &str, mounts: &str, files: &[(&str, &str)]) -> Vec<(String, u64, u64)> {
        let found = groups(group, mounts, files);
        found.into_iter().map(|one| (one.name, one.limit.0, one.used.0)).collect()
    }

    /// A machine on which this process has these groups and mounts; files of groups are named from `/sys/fs/cgroup` on.
    fn groups(group: &str, mounts: &str, files: &[(&str, &str)]) -> Vec<GroupMemory> {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("proc/self");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cgroup"), group).unwrap();
        fs::write(own.join("mountinfo"), mounts).unwrap();
        for (name, text) in files {
            let file = folder.path().join("sys/fs/cgroup").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        group_memory(&ProcRoot::new(folder.path().join("proc")))
    }

    fn said(expected: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        expected.iter().map(|(name, limit, used)| ((*name).to_owned(), *limit, *used)).collect()
    }

    #[test]
    fn every_group_above_counts_and_pages_of_files_that_can_be_dropped_do_not() {
        let found = machine(
            "0::/kubepods/pod1/app\n",
            TWO_MOUNTED,
            &[
                ("kubepods/pod1/app/memory.max", "200000000\n"),
                ("kubepods/pod1/app/memory.high", "max\n"),
                ("kubepods/pod1/app/memory.current", "150000000\n"),
                ("kubepods/pod1/app/memory.stat", "anon 1\ninactive_file 20000000\n"),
                ("kubepods/pod1/memory.max", "max\n"),
                ("kubepods/pod1/memory.high", "180000000\n"),
                ("kubepods/pod1/memory.current", "170000000\n"),
                ("kubepods/memory.max", "max\n"),
                ("kubepods/memory.current", "170000000\n"),
            ],
        );
        let expected = [
            ("/kubepods/pod1/app", 200_000_000, 130_000_000),
            ("/kubepods/pod1", 180_000_000, 170_000_000),
        ];
        assert_eq!(found, said(&expected));
    }

    #[test]
    fn a_limit_at_which_a_whole_group_is_killed_is_known_from_that_group_on() {
        let limited = |group: &str| {
            [(format!("{group}memory.max"), "50\n"), (format!("{group}memory.current"), "20\n")]
        };
        let kills_all = |place: &str| {
            let mut files: Vec<(String, &str)> =
                ["a/b/c/", "a/b/", "a/"].into_iter().flat_map(limited).collect();
            files.push((format!("{place}memory.oom.group"), "1\n"));
            let files: Vec<(&str, &str)> =
                files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
            let found = groups("0::/a/b/c\n", TWO_MOUNTED, &files);
            found.iter().map(|one| one.kills_all).collect::<Vec<bool>>()
        };
        assert_eq!(kills_all("a/b/"), [false, true, true]);
        assert_eq!(kills_all("a/b/c/"), [true; 3]);
        assert_eq!(kills_all("other/"), [false; 3]);
    }

    #[test]
    fn in_a_container_the_root_of_the_mount_is_the_own_group() {
        let two = [("memory.max", "50\n"), ("memory.current", "20\n")];
        assert_eq!(machine("0::/\n", TWO_MOUNTED, &two), said(&[("/", 50, 20)]));
        // Version 1 shows the path of the host, of which the mount is a part.
        let one = [
            ("memory/memory.limit_in_bytes", "50\n"),
            ("memory/memory.usage_in_bytes", "20\n"),
            ("memory/memory.stat", "hierarchical_memory_limit 40\ntotal_inactive_file 5\n"),
            ("memory/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.memsw.usage_in_bytes", "20\n"),
        ];
        let groups = "5:cpu,cpuacct:/docker/7f\n4:memory:/docker/7f\n0::/\n";
        let expected = [("/docker/7f", 50, 15), ("/docker/7f", 40, 15)];
        assert_eq!(machine(groups, ONE_MOUNTED, &one), said(&expected));
        // Of another group than the one that is mounted nothing but the mount's root can be seen.
        let other = "4:memory:/docker/99\n";
        assert_eq!(machine(other, ONE_MOUNTED, &one), said(&expected));
    }

    #[test]
    fn a_group_of_version_1_that_does_not_count_those_below_limits_nothing_for_them() {
        let files = [
            ("memory/app/memory.limit_in_bytes", "50\n"),
            ("memory/app/memory.usage_in_bytes", "20\n"),
            ("memory/memory.limit_in_bytes", "30\n"),
            ("memory/memory.usage_in_bytes", "29\n"),
            ("memory/memory.use_hierarchy", "0\n"),
        ];
        let mounted = ONE_MOUNTED.replace("/docker/7f", "/");
        let found = machine("4:memory:/app\n", &mounted, &files);
        assert_eq!(found, said(&[("/app", 50, 20)]));
    }

    #[test]
    fn without_limits_or_without_control_groups_there_is_nothing() {
        assert_eq!(machine("0::/\n", "", &[]), []);
        let unlimited = [
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.usage_in_bytes", "20\n"),
        ];
        assert_eq!(machine("4:memory:/docker/7f\n", ONE_MOUNTED, &unlimited), []);
        assert_eq!(machine("0::/../../other\n", TWO_MOUNTED, &[("memory.max", "max\n")]), []);
    }

    #[test]
    fn captured_lines_of_mountinfo_are_parsed_and_others_left_out() {
        let text = "24 30 0:22 / /proc rw,nosuid - proc proc rw\n\
            35 32 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            nonsense\n40 1 0:3 /a\n";
        assert_eq!(parse_mounts(text), []);
        let both = parse_mounts(&(ONE_MOUNTED.to_owned() + TWO_MOUNTED));
        assert_eq!(both.len(), 2);
        assert_eq!((both[0].group.as_str(), both[1].group.as_str()), ("/docker/7f", "/"));
        assert_eq!(both[1].folder, "/sys/fs/cgroup");
    }
}
