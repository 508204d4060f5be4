//! How a value is written in each part of a request.

/// The part of a request that a text is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// A body, as it is.
    Plain,
    /// A header: on one line.
    Header,
    Path,
    /// A query or a form (application/x-www-form-urlencoded).
    Form,
    /// Inside a string of JSON.
    Json,
}

const HEX: [u8; 16] = *b"0123456789ABCDEF";

/// Appends a value.
pub fn encode(value: &str, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Plain => out.extend_from_slice(value.as_bytes()),
        // A line break in a value would begin another header.
        Encoding::Header => {
            out.extend(value.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        }
        Encoding::Path => value.bytes().for_each(|byte| push_path_byte(byte, out)),
        Encoding::Form => value.bytes().for_each(|byte| match byte {
            // The bytes that a form leaves as they are (URL Standard, 5.1); a space becomes `+`.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(byte),
            b' ' => out.push(b'+'),
            _ => push_escaped(byte, out),
        }),
        Encoding::Json => value.chars().for_each(|c| push_json(c, out)),
    }
}

/// Escapes only what no URL can contain, so a path from a page stays what it is.
fn push_path_byte(byte: u8, out: &mut Vec<u8>) {
    if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
        out.push(byte);
    } else {
        push_escaped(byte, out);
    }
}

fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

fn push_json(c: char, out: &mut Vec<u8>) {
    match c {
        '"' | '\\' => out.extend([b'\\', c as u8]),
        // Control characters must be escaped in JSON (RFC 8259, 7).
        c if c < ' ' => out.extend(format!("\\u{:04x}", c as u32).bytes()),
        c => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_as_each_part_of_a_request_needs_it() {
        for (encoding, value, expected) in [
            (Encoding::Plain, "a\r\n{", "a\r\n{"),
            (Encoding::Header, "a\r\nX: y", "a  X: y"),
            (Encoding::Path, "/a b/%20?c=d&é", "/a%20b/%20?c=d&%C3%A9"),
            (Encoding::Form, "a b&c=é+/", "a+b%26c%3D%C3%A9%2B%2F"),
            (Encoding::Json, "\"a\\\n é", "\\\"a\\\\\\u000a é"),
        ] {
            let mut out = Vec::new();
            encode(value, encoding, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{encoding:?}");
        }
    }
}
