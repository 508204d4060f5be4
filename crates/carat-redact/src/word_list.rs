//! Lists of words in files of their own.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Words of a file. They are separated by white space, and what follows `#` in a line is a comment.
pub(crate) type WordList = LazyLock<HashSet<&'static str>>;

pub(crate) fn words(text: &'static str) -> HashSet<&'static str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect()
}
