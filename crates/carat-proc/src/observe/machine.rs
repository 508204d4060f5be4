//! Figures of the machine.

use crate::process::ProcRoot;
use carat_model::Bytes;
use std::fs;

/// Memory available to new programs without swapping (`MemAvailable`, proc_meminfo(5)); `None` if the kernel does not
/// say.
pub fn available(root: &ProcRoot) -> Option<Bytes> {
    memory_figure(root, "MemAvailable:")
}

/// All memory that the kernel can use (`MemTotal`, proc_meminfo(5)); `None` if the kernel does not say.
pub fn total_memory(root: &ProcRoot) -> Option<Bytes> {
    memory_figure(root, "MemTotal:")
}

/// The kernel writes kB and means 1,024 bytes.
fn memory_figure(root: &ProcRoot, name: &str) -> Option<Bytes> {
    let text = fs::read_to_string(root.path().join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// Processes that the kernel killed because memory ran out, since boot and in any control group (`oom_kill` of
/// `/proc/vmstat`); `None` if the kernel does not say.
pub fn oom_kills(root: &ProcRoot) -> Option<u64> {
    let text = fs::read_to_string(root.path().join("vmstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Whether the kernel merges equal pages: 1 while it does.
const MERGING: &str = "/sys/kernel/mm/ksm/run";

/// Processor time since boot of the kernel's thread that merges equal pages, in clock ticks; `None` where it does not merge
/// or is hidden, as in a container.
pub fn merging_ticks(root: &ProcRoot) -> Option<u64> {
    let merges = fs::read_to_string(MERGING).is_ok_and(|run| run.trim() == "1");
    if merges { kernel_thread_ticks(root, "ksmd") } else { None }
}

/// Only threads of the kernel are children of its process 2.
fn kernel_thread_ticks(root: &ProcRoot, name: &str) -> Option<u64> {
    let mut stats = root.pids().ok()?.into_iter().filter_map(|pid| root.stat(pid).ok());
    stats.find(|stat| stat.comm == name && stat.parent == 2).map(|stat| stat.own_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_unknown_if_the_kernel_does_not_say() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!((available(&root), total_memory(&root)), (None, None));
        let text = "MemTotal:       24000 kB\nMemAvailable:      12 kB\n";
        std::fs::write(folder.path().join("meminfo"), text).unwrap();
        assert_eq!(available(&root), Some(Bytes(12_288)));
        assert_eq!(total_memory(&root), Some(Bytes(24_576_000)));
    }

    #[test]
    fn the_time_of_a_kernel_thread_is_not_that_of_a_process_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!(kernel_thread_ticks(&root, "ksmd"), None);
        for (pid, parent, system) in [(70, 1, 9), (71, 2, 250)] {
            let stat = format!(
                "{pid} (ksmd) S {parent} 0 0 0 -1 2129984 0 0 0 0 5 {system} 0 0 25 5 1 0 31 0 0"
            );
            fs::create_dir(folder.path().join(pid.to_string())).unwrap();
            fs::write(folder.path().join(format!("{pid}/stat")), stat).unwrap();
        }
        assert_eq!(kernel_thread_ticks(&root, "ksmd"), Some(255));
    }

    #[test]
    fn oom_kills_are_those_that_the_kernel_counted() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!(oom_kills(&root), None);
        std::fs::write(folder.path().join("vmstat"), "oom_kill_x 9\noom_kill 3\n").unwrap();
        assert_eq!(oom_kills(&root), Some(3));
    }
}
