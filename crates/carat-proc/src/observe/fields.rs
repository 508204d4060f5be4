//! Lines of `name: number`, the form of most files in `/proc`.

/// The named numbers of a text, line by line. Lines of another form are left out.
///
/// Accepts `Name:   12 kB` as in `/proc` and `name 12` as in control groups.
pub(super) fn numbers(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let end = line.iter().position(|&byte| byte == b':' || byte == b' ')?;
        Some((&line[..end], leading_number(&line[end + 1..])?))
    })
}

/// The decimal number at the start of a text, after blanks.
pub(super) fn leading_number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    // A number that overflows is no number: a wrapped one would be a plausible wrong figure.
    text[..digits].iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed_and_other_lines_left_out() {
        let text = b"Name:\truby\nVmRSS:\t   1776 kB\nanon 4096\n\n7f00-7fff ---p 0 00:00 0\nThreads:\t3\n";
        let found: Vec<_> = numbers(text).map(|(name, n)| (name.to_vec(), n)).collect();
        let expected = [(&b"VmRSS"[..], 1776), (b"anon", 4096), (b"Threads", 3)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, number), (expected_name, expected_number)) in found.iter().zip(expected) {
            assert_eq!((name.as_slice(), *number), (expected_name, expected_number));
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_unknown_and_does_not_wrap() {
        assert_eq!(leading_number(b" 18446744073709551616"), None);
        assert_eq!(leading_number(b" 18446744073709551615 kB"), Some(u64::MAX));
        assert_eq!(leading_number(b"kB"), None);
    }
}
