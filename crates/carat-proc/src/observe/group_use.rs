//! What is charged to the control group of a server and what limits it, in versions 1 and 2.

use crate::observe::cgroup::{CgroupVersion, amount, field, processes_below};
use crate::observe::group_memory::seen_group;
use crate::process::ProcRoot;
use carat_model::{Bytes, GroupUse};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The parts of the kernel's own memory before Linux 5.18 summed them up (`kernel` of memory.stat, cgroup-v2.rst).
const KERNEL_PARTS: [&[u8]; 4] = [b"kernel_stack", b"pagetables", b"percpu", b"slab"];

/// The group of a process of which the tree has these processes; `None` where its group cannot be seen.
pub fn group_use(root: &ProcRoot, pid: u32, tree: &HashSet<u32>) -> Option<GroupUse> {
    let seen = seen_group(root, pid)?;
    let folder = seen.folder.as_path();
    let stat = fs::read(folder.join("memory.stat")).ok()?;
    let mut found = match seen.version {
        CgroupVersion::One => version_1(folder, &stat),
        CgroupVersion::Two => version_2(folder, &stat),
    };
    (found.name, found.limits) = (seen.name, seen.limits);
    // What others use counts against the same limit, so their number belongs to the figure.
    let inside = processes_below(folder);
    let others = inside.iter().filter(|pid| !tree.contains(pid)).count();
    // The process itself is in its group, so an empty list is one that cannot be seen.
    found.other_processes = (!inside.is_empty()).then_some(others as u64);
    Some(found)
}

fn version_2(folder: &Path, stat: &[u8]) -> GroupUse {
    let current = amount(folder, "memory.current");
    let inactive_files = field(stat, b"inactive_file");
    let sockets = field(stat, b"sock").unwrap_or_default();
    let parts: Option<Bytes> = KERNEL_PARTS.iter().map(|name| field(stat, name)).sum();
    let events = fs::read(folder.join("memory.events")).ok();
    GroupUse {
        current,
        working_set: current
            .zip(inactive_files)
            .map(|(all, inactive)| all.saturating_sub(inactive)),
        anonymous: field(stat, b"anon"),
        files: field(stat, b"file"),
        inactive_files,
        in_memory_files: field(stat, b"shmem"),
        // Buffers of sockets are the kernel's too, and in neither of the two (cgroup-v2.rst).
        kernel: field(stat, b"kernel").or(parts).map(|kernel| kernel + sockets),
        swap: amount(folder, "memory.swap.current"),
        oom_kills: events.and_then(|events| field(&events, b"oom_kill")).map(|kills| kills.0),
        ..GroupUse::default()
    }
}

fn version_1(folder: &Path, stat: &[u8]) -> GroupUse {
    let current = amount(folder, "memory.usage_in_bytes");
    let inactive_files = field(stat, b"total_inactive_file");
    let control = fs::read(folder.join("memory.oom_control")).ok();
    GroupUse {
        current,
        working_set: current
            .zip(inactive_files)
            .map(|(all, inactive)| all.saturating_sub(inactive)),
        // What version 1 calls `rss` is anonymous memory (cgroup-v1/memory.rst).
        anonymous: field(stat, b"total_rss"),
        files: field(stat, b"total_cache"),
        inactive_files,
        in_memory_files: field(stat, b"total_shmem"),
        kernel: amount(folder, "memory.kmem.usage_in_bytes"),
        swap: field(stat, b"total_swap"),
        oom_kills: control.and_then(|text| field(&text, b"oom_kill")).map(|kills| kills.0),
        ..GroupUse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::LimitKind;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const MOUNT_ONE: &str = "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const MOUNT_TWO: &str = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    #[test]
    fn buffers_of_sockets_are_the_kernels_whether_it_sums_its_parts_up_or_not() {
        for stat in
            ["kernel 40\nsock 2\n", "kernel_stack 10\npagetables 10\npercpu 10\nsock 2\nslab 10\n"]
        {
            let group = version_2(Path::new("/nowhere"), stat.as_bytes());
            assert_eq!(group.kernel, Some(Bytes(42)), "{stat}");
        }
        assert_eq!(version_2(Path::new("/nowhere"), b"sock 2\n").kernel, None);
    }

    const STAT_TWO: &str = "anon 300\nfile 500\nkernel 40\ninactive_file 200\nshmem 134\n";

    fn write(folder: &TempDir, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path: PathBuf = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn seen(folder: &TempDir) -> Option<GroupUse> {
        group_use(&ProcRoot::new(folder.path().join("proc")), 7, &HashSet::from([7]))
    }

    #[test]
    fn in_version_2_the_nearest_limit_may_be_that_of_a_group_above() {
        let folder = TempDir::new().unwrap();
        write(
            &folder,
            &[
                ("proc/self/mountinfo", MOUNT_TWO),
                ("proc/7/cgroup", "0::/pod/web\n"),
                ("sys/fs/cgroup/pod/web/memory.stat", STAT_TWO),
                ("sys/fs/cgroup/pod/web/memory.current", "840\n"),
                ("sys/fs/cgroup/pod/web/memory.max", "max\n"),
                ("sys/fs/cgroup/pod/web/memory.high", "2000\n"),
                ("sys/fs/cgroup/pod/web/memory.events", "oom 3\noom_kill 2\n"),
                ("sys/fs/cgroup/pod/web/cgroup.procs", "7\n8\n0\n"),
                ("sys/fs/cgroup/pod/memory.stat", "inactive_file 300\n"),
                ("sys/fs/cgroup/pod/memory.current", "1200\n"),
                ("sys/fs/cgroup/pod/memory.max", "1000\n"),
            ],
        );
        let group = seen(&folder).unwrap();
        assert_eq!((group.name.as_str(), group.current), ("/pod/web", Some(Bytes(840))));
        assert_eq!(
            (group.working_set, group.in_memory_files),
            (Some(Bytes(640)), Some(Bytes(134)))
        );
        assert_eq!((group.oom_kills, group.other_processes), (Some(2), Some(2)));
        let limits: Vec<_> = group
            .limits
            .iter()
            .map(|one| (one.group.as_str(), one.kind, one.limit.0, one.used.0))
            .collect();
        let expected =
            [("/pod/web", LimitKind::High, 2000, 640), ("/pod", LimitKind::Max, 1000, 900)];
        assert_eq!(limits, expected);
        assert_eq!(group.nearest_limit().map(|limit| limit.left()), Some(Bytes(100)));
    }

    #[test]
    fn of_groups_with_equal_limits_the_one_above_has_used_more() {
        // A container of a pod, and one of a version 1 group without a limit of its own.
        let equal = |version: &str, files: &[(&str, &str)]| {
            let folder = TempDir::new().unwrap();
            let (mount, line) = match version {
                "1" => (MOUNT_ONE, "9:memory:/pod/web\n"),
                _ => (MOUNT_TWO, "0::/pod/web\n"),
            };
            write(&folder, &[("proc/self/mountinfo", mount), ("proc/7/cgroup", line)]);
            write(&folder, files);
            let group = seen(&folder).unwrap();
            let nearest = group.nearest_limit().unwrap();
            assert_eq!(group.limits.len(), 1, "{:?}", group.limits);
            (nearest.group.clone(), nearest.left().0)
        };
        let two = equal(
            "2",
            &[
                ("sys/fs/cgroup/pod/web/memory.stat", "anon 300\n"),
                ("sys/fs/cgroup/pod/web/memory.current", "300\n"),
                ("sys/fs/cgroup/pod/web/memory.max", "1000\n"),
                ("sys/fs/cgroup/pod/memory.stat", "anon 950\n"),
                ("sys/fs/cgroup/pod/memory.current", "950\n"),
                ("sys/fs/cgroup/pod/memory.max", "1000\n"),
            ],
        );
        assert_eq!(two, ("/pod".to_owned(), 50));
        let stat = "hierarchical_memory_limit 1000\n";
        let one = equal(
            "1",
            &[
                ("sys/fs/cgroup/memory/pod/web/memory.stat", stat),
                ("sys/fs/cgroup/memory/pod/web/memory.usage_in_bytes", "300\n"),
                ("sys/fs/cgroup/memory/pod/web/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/pod/memory.stat", stat),
                ("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "950\n"),
                ("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "1000\n"),
            ],
        );
        assert_eq!(one, ("/pod".to_owned(), 50));
    }

    #[test]
    fn in_version_2_a_group_without_the_memory_controller_is_charged_to_the_nearest_one_that_has_it()
     {
        let folder = TempDir::new().unwrap();
        write(
            &folder,
            &[
                ("proc/self/mountinfo", MOUNT_TWO),
                ("proc/7/cgroup", "0::/pod/web/init/ruby\n"),
                ("sys/fs/cgroup/pod/web/init/ruby/cgroup.procs", "7\n"),
                ("sys/fs/cgroup/pod/web/memory.stat", STAT_TWO),
                ("sys/fs/cgroup/pod/web/memory.current", "840\n"),
                ("sys/fs/cgroup/pod/web/memory.max", "1000\n"),
            ],
        );
        let group = seen(&folder).unwrap();
        assert_eq!((group.name.as_str(), group.current), ("/pod/web", Some(Bytes(840))));
        assert_eq!(group.nearest_limit().map(|limit| limit.limit), Some(Bytes(1000)));
        assert_eq!(group.other_processes, Some(0));
    }

    #[test]
    fn in_version_1_swap_counts_against_a_limit_of_its_own_and_no_limit_is_none() {
        let folder = TempDir::new().unwrap();
        let group = "sys/fs/cgroup/memory/app";
        write(
            &folder,
            &[
                ("proc/self/mountinfo", MOUNT_ONE),
                ("proc/7/cgroup", "4:memory:/app\n0::/\n"),
                (
                    &format!("{group}/memory.stat"),
                    "total_rss 300\ntotal_cache 90\ntotal_inactive_file 50\nhierarchical_memory_limit 900\n",
                ),
                (&format!("{group}/memory.usage_in_bytes"), "400\n"),
                (&format!("{group}/memory.limit_in_bytes"), "900\n"),
                (&format!("{group}/memory.memsw.usage_in_bytes"), "410\n"),
                (&format!("{group}/memory.memsw.limit_in_bytes"), "9223372036854771712\n"),
            ],
        );
        let group = seen(&folder).unwrap();
        assert_eq!(
            (group.anonymous, group.kernel, group.other_processes),
            (Some(Bytes(300)), None, None)
        );
        assert_eq!(group.limits.len(), 1, "{:?}", group.limits);
        assert_eq!((group.limits[0].limit, group.limits[0].used), (Bytes(900), Bytes(350)));
    }

    #[test]
    fn beside_a_container_its_own_view_is_used_and_without_any_view_nothing_is_known() {
        let folder = TempDir::new().unwrap();
        write(
            &folder,
            &[
                ("proc/self/mountinfo", MOUNT_TWO),
                ("proc/7/cgroup", "0::/../app\n"),
                ("sys/fs/cgroup/memory.stat", STAT_TWO),
                ("sys/fs/cgroup/memory.max", "5\n"),
                ("sys/fs/cgroup/memory.current", "5\n"),
            ],
        );
        assert_eq!(seen(&folder), None, "the limit of our own group is another");
        let own = "proc/7/root/sys/fs/cgroup";
        write(
            &folder,
            &[
                ("proc/7/mountinfo", "30 20 0:26 /../app /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
                (&format!("{own}/memory.stat"), STAT_TWO),
                (&format!("{own}/memory.max"), "1000\n"),
                (&format!("{own}/memory.current"), "840\n"),
            ],
        );
        assert_eq!(seen(&folder).unwrap().nearest_limit().unwrap().left(), Bytes(360));
    }
}
