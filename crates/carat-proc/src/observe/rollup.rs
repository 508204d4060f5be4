//! `/proc/PID/smaps_rollup`: the only source of proportional memory.

use crate::observe::fields::numbers;
use carat_model::Bytes;

/// The kernel's sums over all mappings of a process (proc_pid_smaps(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Resident memory.
    pub rss: Bytes,
    /// Resident memory, each page divided by the number of processes that map it.
    pub pss: Bytes,
    /// The part of `pss` without a file behind it (Linux 5.4).
    pub pss_anonymous: Option<Bytes>,
    /// Memory that only this process maps.
    pub private: Bytes,
    /// Memory that other processes map too, counted in full.
    pub shared: Bytes,
    /// Memory in swap, each page divided by the number of processes that map it (Linux 4.3).
    pub swap_pss: Option<Bytes>,
    /// Resident memory that the process freed with `MADV_FREE` and the kernel has not reclaimed yet.
    pub lazy_free: Option<Bytes>,
    /// Resident memory in transparent huge pages.
    pub huge: Option<Bytes>,
    /// Memory merged with identical pages (Linux 6.8).
    pub merged: Option<Bytes>,
}

/// Parses `smaps_rollup`, or sums the blocks of `smaps`; `None` if the text is neither.
pub fn parse_rollup(text: &[u8]) -> Option<Rollup> {
    let mut sums = Rollup::default();
    let mut has_pss = false;
    for (name, number) in numbers(text) {
        let bytes = Bytes::from_kib(number);
        match name {
            // Added, not set: `smaps` has each name once for every mapping.
            b"Rss" => add(&mut sums.rss, bytes),
            b"Pss" => {
                has_pss = true;
                add(&mut sums.pss, bytes);
            }
            b"Private_Clean" | b"Private_Dirty" => add(&mut sums.private, bytes),
            b"Shared_Clean" | b"Shared_Dirty" => add(&mut sums.shared, bytes),
            b"Pss_Anon" => add(sums.pss_anonymous.get_or_insert_default(), bytes),
            b"SwapPss" => add(sums.swap_pss.get_or_insert_default(), bytes),
            b"LazyFree" => add(sums.lazy_free.get_or_insert_default(), bytes),
            b"AnonHugePages" => add(sums.huge.get_or_insert_default(), bytes),
            b"KSM" => add(sums.merged.get_or_insert_default(), bytes),
            _ => {}
        }
    }
    // A text without this line is neither of the two.
    has_pss.then_some(sums)
}

fn add(sum: &mut Bytes, bytes: Bytes) {
    *sum = *sum + bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &[u8] = b"55a000-7fff00 ---p 00000000 00:00 0    [rollup]\nRss:   1776 kB\nPss:  375 kB\n\
        Pss_Dirty:  112 kB\nPss_Anon: 112 kB\nShared_Clean: 1576 kB\nShared_Dirty: 0 kB\nPrivate_Clean: 88 kB\n\
        Private_Dirty: 112 kB\nLazyFree: 4 kB\nSwapPss: 8 kB\n";

    #[test]
    fn the_kernels_sums_are_used_unchanged() {
        let rollup = parse_rollup(ROLLUP).unwrap();
        assert_eq!(rollup.rss, Bytes::from_kib(1776));
        assert_eq!(rollup.pss, Bytes::from_kib(375));
        assert_eq!(rollup.private, Bytes::from_kib(200));
        assert_eq!(rollup.shared, Bytes::from_kib(1576));
        assert_eq!(rollup.swap_pss, Some(Bytes::from_kib(8)));
        assert_eq!(rollup.huge, None, "this kernel does not say");
    }

    #[test]
    fn the_blocks_of_smaps_are_summed() {
        let twice = [ROLLUP, ROLLUP].concat();
        assert_eq!(parse_rollup(&twice).unwrap().pss, Bytes::from_kib(750));
    }

    #[test]
    fn any_other_text_is_rejected() {
        assert_eq!(parse_rollup(b""), None);
        assert_eq!(parse_rollup(b"Rss: 4 kB\n"), None);
    }
}
