//! Which characters of a foreign text can be shown: the one notion that Carat has of it.

/// Characters that no terminal or page shows, or that change how their neighbours are shown: those that Unicode 16 calls
/// format characters (`Cf`), line and paragraph separators, or `Default_Ignorable_Code_Point`. Control characters are
/// not in the table.
const INVISIBLE: [(char, char); 28] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    // What has no character at all.
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{10fffe}', '\u{10ffff}'),
];

/// Whether a character has a shape of its own: it is neither a control character nor an invisible one, such as those that
/// reverse the direction of writing.
pub fn is_printable(c: char) -> bool {
    !c.is_control() && !INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// A name with U+FFFD for every character that cannot be shown: a process can give itself and its classes any name.
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_every_script_are_printable_and_what_has_no_shape_is_not() {
        for shown in ['a', ' ', 'é', '\u{301}', 'א', 'ب', '日', '…', '\u{fffd}', '😀'] {
            assert!(is_printable(shown), "{shown:?}");
        }
        for hidden in [
            '\0',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200f}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e01ef}',
        ] {
            assert!(!is_printable(hidden), "{hidden:?}");
        }
        assert_eq!(printable("User\u{1b}[31m\u{202e}"), "User\u{fffd}[31m\u{fffd}");
    }
}
