//! Which characters of a foreign text can be shown.

/// Whether a character is neither a control character nor an invisible one that changes the order of the others.
pub(crate) fn is_printable(c: char) -> bool {
    let changes_order = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}');
    !c.is_control() && !changes_order
}
