//! Figures of the machine.

use crate::core::Bytes;
use crate::process::ProcRoot;
use std::fs;

/// Memory available to new programs without swapping (`MemAvailable`, proc_meminfo(5)); `None` if the kernel does not
/// say.
pub fn available(root: &ProcRoot) -> Option<Bytes> {
    let text = fs::read_to_string(root.path().join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// Processes that the kernel killed because memory ran out, since boot and in any control group (`oom_kill` of
/// `/proc/vmstat`); `None` if the kernel does not say.
pub fn oom_kills(root: &ProcRoot) -> Option<u64> {
    let text = fs::read_to_string(root.path().join("vmstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_unknown_if_the_kernel_does_not_say() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!(available(&root), None);
        let text = "MemTotal:       24000 kB\nMemAvailable:      12 kB\n";
        std::fs::write(folder.path().join("meminfo"), text).unwrap();
        assert_eq!(available(&root), Some(Bytes(12_288)));
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
