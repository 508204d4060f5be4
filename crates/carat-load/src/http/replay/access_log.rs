//! Access logs in the common or combined format, as Apache and nginx write them, or with an object of JSON per line. Anything
//! may precede the time, and anything may follow the status.

use crate::http::replay::collector::{FoundRequest, request_line};
use crate::http::replay::nginx_row::read_row;
use crate::http::replay::times::access_log_time;

pub(super) fn read_access(line: &str) -> Result<Option<FoundRequest>, String> {
    if line.starts_with('{') {
        return read_row(line);
    }
    // The first `] "` ends the time; a quoted request may contain brackets.
    let (before, quoted) = line.split_once("] \"").ok_or("it has no `[time] \"request\"`")?;
    let time = before.rsplit_once('[').ok_or("it has no `[time]`")?.1;
    let end = closing_quote(quoted).ok_or("the request has no closing quote")?;
    let (request, after) = (&quoted[..end], &quoted[end + 1..]);
    let (method, target) = request_line(request)?;
    let status = after.split_whitespace().next().unwrap_or_default();
    let status: u16 = status.parse().map_err(|_| "no status follows the request".to_owned())?;
    Ok(Some(FoundRequest {
        method,
        target: unescaped(&target),
        status: Some(status),
        at: access_log_time(time),
        ..FoundRequest::default()
    }))
}

/// The place of the quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        // A backslash that is itself escaped does not escape the quote.
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// A text without the escapes of Apache and nginx: `\x22`, `\"` and `\\`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let value = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        let value = value.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let value = value.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        // Only a backslash begins an escape, whatever follows the byte.
        let (found, used) = match (*byte, value, after.first().copied()) {
            (b'\\', Some(value), _) => (value, 4),
            (b'\\', None, Some(quoted @ (b'"' | b'\\'))) => (quoted, 2),
            (byte, ..) => (byte, 1),
        };
        bytes.push(found);
        rest = &rest[used..];
    }
    // Logs of attacks contain bytes that are no text; the request is sent as far as it can be.
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_apache_and_nginx_are_read() {
        let tail = "2326 \"http://app.test/\" \"Mozilla/5.0 (X11; Linux x86_64)\"";
        for (line, method, target, status) in [
            (
                "127.0.0.1 - frank [22/Nov/2026:10:00:00 +0000] \"GET /apache_pb.gif HTTP/1.0\" 200 2326".to_owned(),
                "GET",
                "/apache_pb.gif",
                200,
            ),
            (
                format!("::1 - - [22/Nov/2026:10:00:00 +0000] \"POST /login?a=[1] HTTP/2.0\" 302 {tail}"),
                "POST",
                "/login?a=[1]",
                302,
            ),
            (
                format!("app.test:443 10.0.0.7 - - [22/Nov/2026:10:00:00 +0000] \"GET /a\\\"b\\x22\\\\c\\xC3\\xA9 HTTP/1.1\" 404 {tail} 0.012"),
                "GET",
                "/a\"b\"\\cé",
                404,
            ),
            (
                "1.2.3.4 - - [22/Nov/2026:10:00:00 +0000] \"GET /old\" 200 -".to_owned(),
                "GET",
                "/old",
                200,
            ),
        ] {
            let found = read_access(&line).unwrap().unwrap();
            assert_eq!((found.method.as_str(), found.target.as_str()), (method, target), "{line}");
            assert_eq!(found.status, Some(status), "{line}");
            assert_eq!(found.at, Some(1_795_341_600_000_000_000), "{line}");
        }
    }

    #[test]
    fn lines_without_a_request_say_what_they_lack() {
        let line = |request: &str| format!("h - - [22/Nov/2026:10:00:00 +0000] {request}");
        for (line, expected) in [
            ("hello".to_owned(), "no `[time] \"request\"`"),
            ("x] \"GET / HTTP/1.1\" 200".to_owned(), "no `[time]`"),
            (line("\"GET / HTTP/1.1 200 5"), "no closing quote"),
            (line("\"-\" 408 -"), "no method"),
            (line("\"\" 400 0"), "no method"),
            (line("\"\\x16\\x03\\x01\\x00\" 400 226"), "no method"),
            (line("\"GET /a b HTTP/1.1\" 200 5"), "not `METHOD PATH VERSION`"),
            (line("\"GET / HTTP/1.1\" - 5"), "no status"),
            (line("\"GET / HTTP/1.1\""), "no status"),
        ] {
            let error = read_access(&line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn a_time_in_another_form_is_unknown() {
        let line = "h - - [2026-11-22] \"GET / HTTP/1.1\" 200 5";
        assert_eq!(read_access(line).unwrap().unwrap().at, None);
    }
}
