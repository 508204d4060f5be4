//! The machine's own figures.

use crate::model::Bytes;
use crate::process::ProcRoot;
use std::fs;

/// Memory that new programs could have without swapping (`MemAvailable`, proc_meminfo(5)); `None`
/// where the kernel does not say.
pub fn available(root: &ProcRoot) -> Option<Bytes> {
    let text = fs::read_to_string(root.path().join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::from_kib)
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
}
