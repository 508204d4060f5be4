//! The machine's own figures.

use crate::core::Bytes;
use crate::process::ProcRoot;
use std::fs;

/// Memory that new programs could have without swapping (`MemAvailable`, proc_meminfo(5)); `None`
/// where the kernel does not say.
pub fn available(root: &ProcRoot) -> Option<Bytes> {
    let text = fs::read_to_string(root.path().join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::from_kib)
}

/// Processes that the kernel killed for want of memory since boot, in any control group (`oom_kill` of
/// `/proc/vmstat`); `None` where the kernel does not say.
pub fn oom_kills(root: &ProcRoot) -> Option<u64> {
    let text = fs::read_to_string(root.path().join("vmstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_and_absent_where_the_kernel_does_not_say() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!(available(&root), None);
        let text = "MemTotal:       24000 kB\nMemAvailable:      12 kB\n";
        std::fs::write(folder.path().join("meminfo"), text).unwrap();
        assert_eq!(available(&root), Some(Bytes(12_288)));
    }

    #[test]
    fn kills_for_want_of_memory_are_counted_by_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        assert_eq!(oom_kills(&root), None);
        std::fs::write(folder.path().join("vmstat"), "oom_kill_x 9\noom_kill 3\n").unwrap();
        assert_eq!(oom_kills(&root), Some(3));
    }
}
