//! `/proc/PID/status`: figures that take about ten microseconds to read.

use crate::observe::fields::numbers;
use carat_model::Bytes;
use carat_outside::counts;

/// The memory figures of `/proc/PID/status` (proc_pid_status(5)). A zombie has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Resident memory (`VmRSS`).
    pub rss: Option<Bytes>,
    /// Highest resident memory so far (`VmHWM`).
    pub rss_peak: Option<Bytes>,
    /// Resident memory without a file behind it (`RssAnon`, Linux 4.5).
    pub anonymous: Option<Bytes>,
    /// Resident pages of files (`RssFile`, Linux 4.5).
    pub files: Option<Bytes>,
    /// Resident shared memory (`RssShmem`, Linux 4.5).
    pub shared: Option<Bytes>,
    /// Memory in swap (`VmSwap`).
    pub swap: Option<Bytes>,
    /// Page tables (`VmPTE`), which are in no mapping.
    pub page_tables: Option<Bytes>,
    pub threads: Option<u32>,
    /// Whether transparent huge pages are allowed (`THP_enabled`, Linux 5.0). Ruby disables them for itself.
    pub huge_pages: Option<bool>,
}

impl Status {
    /// Whether the process has any memory; a zombie and a kernel thread have none.
    pub fn has_memory(&self) -> bool {
        self.rss.is_some()
    }

    /// Bytes of addresses that its page tables cover; none where that is unknown.
    pub fn covered(&self) -> Bytes {
        Bytes(counts::covered(self.page_tables.unwrap_or_default().0))
    }

    /// Whether the kernel walks over all page tables within about a second, during which the process can map no memory; also
    /// where neither figure is known.
    pub fn is_walked_in_time(&self) -> bool {
        counts::is_walked_in_time(self.covered().0, self.rss.unwrap_or_default().0)
    }
}

/// Parses the text of `/proc/PID/status`.
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for (name, number) in numbers(text) {
        let bytes = Some(Bytes::from_kib(number));
        match name {
            b"VmRSS" => status.rss = bytes,
            b"VmHWM" => status.rss_peak = bytes,
            b"RssAnon" => status.anonymous = bytes,
            b"RssFile" => status.files = bytes,
            b"RssShmem" => status.shared = bytes,
            b"VmSwap" => status.swap = bytes,
            b"VmPTE" => status.page_tables = bytes,
            b"Threads" => status.threads = u32::try_from(number).ok(),
            b"THP_enabled" => status.huge_pages = Some(number != 0),
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_server_are_found() {
        let text =
            b"Name:\tVmRSS: 9 kB\nVmHWM:\t  82000 kB\nVmRSS:\t  79136 kB\nRssAnon:\t   64000 kB\n\
            VmPTE:\t     208 kB\nVmSwap:\t       0 kB\nTHP_enabled:\t0\nThreads:\t7\n";
        let status = parse_status(text);
        assert_eq!(status.rss, Some(Bytes(79_136 * 1024)));
        assert_eq!(status.rss_peak, Some(Bytes(82_000 * 1024)));
        assert_eq!(status.anonymous, Some(Bytes(64_000 * 1024)));
        assert_eq!(status.swap, Some(Bytes(0)));
        assert_eq!((status.threads, status.huge_pages), (Some(7), Some(false)));
    }

    #[test]
    fn the_memory_of_a_zombie_is_unknown_and_not_zero() {
        let status = parse_status(b"Name:\truby\nState:\tZ (zombie)\nThreads:\t1\n");
        assert!(!status.has_memory());
        assert_eq!(status.rss, None);
    }
}
