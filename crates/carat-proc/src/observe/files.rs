//! Files whose memory a process uses: mapped files of data, and files in memory that it only holds open.

use crate::observe::Mapping;
use crate::process::ProcRoot;
use carat_model::Bytes;
use carat_model::ledger::FileUse;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Smaller files are left out.
const LEAST: Bytes = Bytes(1_000_000);
/// Files of each kind that are kept, the largest first. With the least size above, more have gigabytes.
const KEPT: usize = 4_096;
/// Open files that are looked at.
const OPEN_FILES: usize = 65_536;
/// What memory that processes share without a file is named in `maps` (`shmem_zero_setup`, mm/shmem.c).
const SHARED_ANONYMOUS: &str = "/dev/zero (deleted)";
/// The type of a file system whose files lie in memory (`TMPFS_MAGIC`, linux/magic.h); memfds have it, too.
const IN_MEMORY: i64 = 0x0102_1994;
/// Bytes of a block of `stat` (stat(2)).
const BLOCK: u64 = 512;

/// The largest files of a process, those that are mapped first.
pub(super) fn files_in_use(root: &ProcRoot, pid: u32, mappings: &[Mapping]) -> Vec<FileUse> {
    let mut mapped: BTreeMap<&str, Bytes> = BTreeMap::new();
    let is_file = |name: &str| name.starts_with('/') && name != SHARED_ANONYMOUS;
    let files = mappings.iter().filter(|mapping| is_file(&mapping.name));
    for mapping in files.clone() {
        let sum = mapped.entry(&mapping.name).or_default();
        *sum = *sum + mapping.pss;
    }
    let open = open_files_in_memory(root, pid);
    let open = open.into_iter().filter(|(name, _)| !mapped.contains_key(name.as_str()));
    let open = largest(open.map(|(name, bytes)| FileUse { name, bytes, mapped: false }).collect());
    // Code is a part of its own kind.
    // A library is mapped in pieces, and only one of them may be executed: all are left out.
    for code in files.filter(|mapping| mapping.access.execute) {
        mapped.remove(code.name.as_str());
    }
    let data = mapped.into_iter();
    let data = data.map(|(name, bytes)| FileUse { name: name.to_owned(), bytes, mapped: true });
    let mut all = largest(data.collect());
    all.extend(open);
    all
}

fn largest(mut files: Vec<FileUse>) -> Vec<FileUse> {
    files.retain(|file| file.bytes >= LEAST);
    files.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    files.truncate(KEPT);
    files
}

/// Name and bytes of each open file that lies in memory, once for each inode. Nothing is opened.
fn open_files_in_memory(root: &ProcRoot, pid: u32) -> BTreeMap<String, Bytes> {
    let mut found: BTreeMap<(u64, u64), (String, Bytes)> = BTreeMap::new();
    let Ok(entries) = fs::read_dir(root.file(pid, "fd")) else { return BTreeMap::new() };
    for entry in entries.filter_map(Result::ok).take(OPEN_FILES) {
        let path = entry.path();
        // `stat` through the link follows it to the open file, also to a deleted one.
        let Ok(status) = fs::metadata(&path) else { continue };
        // Asked last: it is one more call for each of many descriptors.
        let is_in_memory =
            || rustix::fs::statfs(&path).is_ok_and(|system| system.f_type == IN_MEMORY);
        if !status.is_file() || !is_in_memory() {
            continue;
        }
        if let Ok(name) = fs::read_link(&path) {
            // Blocks, not the size: a sparse file in memory occupies what was written.
            let bytes = Bytes(status.blocks().saturating_mul(BLOCK));
            let name = name.to_string_lossy().into_owned();
            found.insert((status.dev(), status.ino()), (name, bytes));
        }
    }
    let mut by_name: BTreeMap<String, Bytes> = BTreeMap::new();
    // Several deleted files or memfds can have one name.
    for (name, bytes) in found.into_values() {
        let sum = by_name.entry(name).or_default();
        *sum = *sum + bytes;
    }
    by_name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Access;
    use std::io::Write;

    fn mapping(name: &str, megabytes: u64, execute: bool) -> Mapping {
        Mapping {
            name: name.into(),
            pss: Bytes(megabytes * 1_000_000),
            access: Access { execute, ..Access::default() },
            ..Mapping::default()
        }
    }

    #[test]
    fn mapped_files_of_data_are_named_and_code_and_small_files_are_not() {
        let mappings = [
            mapping("/srv/counter-1.db", 3, false),
            mapping("/srv/counter-1.db", 4, false),
            mapping("/srv/counter-2.db", 9, false),
            mapping("/usr/lib/libruby.so", 5, true),
            mapping("/usr/lib/libruby.so", 5, false),
            mapping("/etc/small", 0, false),
            mapping("[heap]", 50, false),
            mapping("/dev/zero (deleted)", 50, false),
        ];
        let files = files_in_use(&ProcRoot::new("/nonexistent"), 1, &mappings);
        let names: Vec<(&str, u64)> =
            files.iter().map(|file| (file.name.as_str(), file.bytes.0 / 1_000_000)).collect();
        assert_eq!(names, [("/srv/counter-2.db", 9), ("/srv/counter-1.db", 7)]);
        assert!(files.iter().all(|file| file.mapped));
    }

    #[test]
    fn an_open_file_in_memory_is_named_with_its_bytes_unless_it_is_mapped() {
        let flags = rustix::fs::MemfdFlags::empty();
        let memory = rustix::fs::memfd_create("carat-metrics", flags).unwrap();
        let mut memory = fs::File::from(memory);
        memory.write_all(&vec![1; 3 << 20]).unwrap();
        let (root, own) = (ProcRoot::default(), std::process::id());
        let files = files_in_use(&root, own, &[]);
        let found = files.iter().find(|file| file.name.contains("carat-metrics")).unwrap();
        assert!(found.bytes.0 >= 3 << 20 && found.bytes.0 < 6 << 20 && !found.mapped, "{found:?}");
        let mapped = [mapping(&found.name, 3, false)];
        let files = files_in_use(&root, own, &mapped);
        assert!(files.iter().all(|file| file.mapped || file.name != found.name), "{files:?}");
    }
}
