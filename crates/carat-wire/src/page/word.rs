//! Words: the 64-bit numbers that the page is made of.

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
