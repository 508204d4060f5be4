//! Words: the 64-bit numbers that the page is made of.

use std::sync::atomic::{AtomicU64, Ordering};

/// Stands for a number that is not known.
pub const UNKNOWN: u64 = u64::MAX;

/// Words that a section has room for.
pub const VALUES: usize = 61;

/// The words of one section: a closed list with names.
pub trait Word: Copy + 'static {
    /// Every word in the order of the page.
    const ALL: &'static [Self];
    /// Its place within its section or row.
    fn index(self) -> usize;
    /// Its name in JSON.
    fn name(self) -> &'static str;
    /// What it means, for the documentation.
    fn meaning(self) -> &'static str;
}

/// Writes as many bytes as there is room for.
pub(crate) fn set_text(words: &[AtomicU64], text: &[u8]) {
    // Every word is written, so that a shorter text leaves no end of a longer one.
    for (place, word) in words.iter().enumerate() {
        let rest = text.get(place * 8..).unwrap_or_default();
        let mut bytes = [0; 8];
        let length = rest.len().min(8);
        bytes[..length].copy_from_slice(&rest[..length]);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

/// The text that [`set_text`] wrote.
pub(crate) fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // Nothing guards a text; half of a character becomes a replacement character.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
