//! Whatever stands in `stat`, `status`, `smaps_rollup` or `pagemap`, it is understood or not, and nothing panics.

use carat_proc::observe::{count_pages, parse_rollup, parse_status};
use carat_proc::process::parse_stat;

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(stat) = parse_stat(text)
    {
        assert!(text.contains(&stat.comm));
    }
    let _ = parse_status(input);
    let _ = parse_rollup(input);
    let (entries, _) = input.as_chunks();
    let entries: Vec<u64> = entries.iter().map(|entry| u64::from_le_bytes(*entry)).collect();
    let pages = count_pages(&entries, 4096);
    assert!(pages.exclusive <= pages.present);
    assert!(pages.present.0 <= entries.len() as u64 * 4096);
}
