//! What the kernel counts of a process, without a right that reading its memory takes.

use crate::memory::PAGE;
use std::fs;
use std::path::Path;

/// Bytes that the kernel's count of resident pages may lag behind: each thread counts up to 64 pages by itself before it
/// adds them (`TASK_RSS_EVENTS_THRESH`, mm/memory.c, up to Linux 6.1; later each processor some).
const UNCOUNTED: u64 = 64 << 20;

/// Bytes of addresses beside those of resident pages that the kernel may walk over for `smaps`: about a second.
const COVERED: u64 = 128 << 30;

/// Bytes of addresses that page tables of so many bytes (`VmPTE`, proc_pid_status(5)) cover: an entry of eight bytes for each page.
pub fn covered(page_tables: u64) -> u64 {
    page_tables.saturating_mul(PAGE / 8)
}

/// Whether the kernel walks over page tables that cover so many bytes, of which so many are resident, within about a second.
/// It does for `smaps`, `smaps_rollup` and `pagemap`, and meanwhile the process can map no memory.
pub fn is_walked_in_time(covered: u64, resident: u64) -> bool {
    covered.saturating_sub(resident) <= COVERED
}

/// Counts of `/proc/PID/status` (proc_pid_status(5)), in bytes; `None` for a process without memory, such as one that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KernelCounts {
    /// Resident memory. Pages of hugetlbfs are included, which `VmRSS` leaves out; the zero page is not.
    pub(crate) resident: Option<u64>,
    /// Page tables: a page of them for each 2 MiB in which any page is present or in swap.
    pub(crate) page_tables: Option<u64>,
}

impl KernelCounts {
    /// Those of the process with this folder.
    pub(crate) fn read(folder: &Path) -> Self {
        fs::read_to_string(folder.join("status"))
            .map_or_else(|_| Self::default(), |text| Self::of(&text))
    }

    /// The most pages that may be present without one of them being the kernel's zero page, which is present wherever a
    /// page was read and never written, and costs the process nothing. With room for growth meanwhile.
    pub(crate) fn most_pages(&self) -> u64 {
        self.resident.map_or(u64::MAX, |bytes| {
            bytes.saturating_add(bytes / 8).saturating_add(UNCOUNTED) / PAGE
        })
    }

    /// Whether the kernel walks over all page tables in time; also where neither figure is known.
    pub(crate) fn is_walked_in_time(&self) -> bool {
        is_walked_in_time(covered(self.page_tables.unwrap_or(0)), self.resident.unwrap_or(0))
    }

    fn of(status: &str) -> Self {
        let huge = bytes_of(status, "HugetlbPages:").unwrap_or(0);
        let resident = bytes_of(status, "VmRSS:").map(|resident| resident.saturating_add(huge));
        Self { resident, page_tables: bytes_of(status, "VmPTE:") }
    }
}

/// The bytes of the first line that begins with this name.
pub(crate) fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_bytes_and_unknown_where_the_process_has_no_memory() {
        let text =
            "Name:\truby\nVmRSS:\t    8 kB\nVmPTE:\t     44 kB\nHugetlbPages:\t    2048 kB\n";
        let counts = KernelCounts::of(text);
        assert_eq!(counts.resident, Some((2048 + 8) << 10));
        assert_eq!(counts.page_tables, Some(44 << 10));
        assert_eq!(counts.most_pages(), (((2048 + 8) << 10) / 8 * 9 + UNCOUNTED) / PAGE);
        assert_eq!(KernelCounts::default().most_pages(), u64::MAX);
        assert_eq!(KernelCounts::of("Name:\tkthreadd\n"), KernelCounts::default());
        assert_eq!(KernelCounts::of("VmRSS:\tmany kB\n"), KernelCounts::default());
        for (kibibytes, is_walked) in [(262_146, true), (262_148, false)] {
            let text = format!("VmRSS:\t1024 kB\nVmPTE:\t{kibibytes} kB\n");
            assert_eq!(KernelCounts::of(&text).is_walked_in_time(), is_walked, "{kibibytes}");
        }
    }

    #[test]
    fn this_process_has_some_of_both() {
        let counts = KernelCounts::read(Path::new("/proc/self"));
        assert!(counts.resident > Some(0) && counts.page_tables > Some(0), "{counts:?}");
    }
}
