//! Counts with their nouns.

use std::fmt::Display;

/// A count with its noun: `1 trial`, `2 trials`, `3 processes`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let noun = counted(&number, noun);
    format!("{number} {noun}")
}

/// A count with commas between thousands: `3,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The noun after a number: `trial` after one, otherwise `trials`, or `processes` where it ends with `s`.
pub fn counted<N: PartialEq + From<u8>>(number: &N, noun: &str) -> String {
    // `process` and `class` end with `s`; no noun here is irregular otherwise.
    let ending = match (*number == N::from(1), noun.ends_with('s')) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{noun}{ending}")
}

/// The first names, at most so many, and how many more there are: `a, b and 2 more`.
pub fn first_names(names: impl IntoIterator<Item: Display>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(most).map(|name| name.to_string()).collect();
    let shown = shown.join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_most_are_counted() {
        for (most, expected) in [(1, "7 and 2 more"), (2, "7, 8 and 1 more"), (3, "7, 8, 9")] {
            assert_eq!(first_names([7, 8, 9], most), expected);
        }
        assert_eq!(first_names([""; 0], 3), "");
    }

    #[test]
    fn only_one_is_singular() {
        for (number, noun, expected) in [
            (0, "trial", "0 trials"),
            (1, "trial", "1 trial"),
            (2, "more block", "2 more blocks"),
            (1, "process", "1 process"),
            (3, "process", "3 processes"),
        ] {
            assert_eq!(count(number, noun), expected);
        }
        assert_eq!(count(2.5, "full collection"), "2.5 full collections");
    }
}
