//! Files with a request per line.

use crate::http::replay::collector::{FoundRequest, TrafficCollector};
use crate::http::replay::shown::shown;

/// Longest line in bytes. A log has longer ones only for requests that no server accepts.
const LINE_MAX: usize = 64 * 1024;

/// Reads a line: a request, or `None` for a line about something else.
///
/// The error says why the line is no request although it should be one.
pub(super) type LineReader = fn(&str) -> Result<Option<FoundRequest>, String>;

/// The lines that are not blank, with their numbers from 1 on. The error says why a line is no text.
pub(super) fn lines(content: &[u8]) -> impl Iterator<Item = (usize, Result<&str, String>)> {
    let numbered = (1..).zip(content.split(|byte| *byte == b'\n'));
    numbered.map(|(number, line)| (number, line.trim_ascii())).filter_map(|(number, line)| {
        if line.is_empty() {
            return None;
        }
        let text = match std::str::from_utf8(line) {
            // Before it is decoded: a line without end could be the whole file.
            _ if line.len() > LINE_MAX => Err("it has more than 64 KiB".to_owned()),
            Ok(text) => Ok(text),
            Err(_) => Err(format!("it is not UTF-8: `{}`", shown(&String::from_utf8_lossy(line)))),
        };
        Some((number, text))
    })
}

/// Adds the requests of a log. Unreadable lines are counted.
///
/// # Errors
/// If more than half of the requests are unreadable; the message names the first one and what it is.
pub(super) fn read_log(
    content: &[u8],
    reader: LineReader,
    all: &mut TrafficCollector,
) -> Result<(), String> {
    for (number, line) in lines(content) {
        let found = line.clone().and_then(reader);
        let added = match found {
            Ok(None) => continue,
            Ok(Some(found)) => all.add(found),
            Err(why) => Err(why),
        };
        all.tolerate("line", number, added.map_err(|why| describe(number, line, &why)));
    }
    all.check_readable()
}

/// Adds the requests of a list that somebody wrote, in which every line must be readable.
///
/// # Errors
/// If a line is not; the message names it and what it is.
pub(super) fn read_list(
    content: &[u8],
    reader: LineReader,
    all: &mut TrafficCollector,
) -> Result<(), String> {
    for (number, line) in lines(content) {
        let found = line.clone().and_then(reader);
        let added = found.and_then(|found| found.map_or(Ok(()), |found| all.add(found)));
        added.map_err(|why| describe(number, line, &why))?;
    }
    Ok(())
}

fn describe(number: usize, line: Result<&str, String>, why: &str) -> String {
    match line {
        Ok(line) => format!("line {number}: {why}: `{}`", shown(line)),
        Err(_) => format!("line {number}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::replay::collector::{OwnServer, ReplayRules};

    fn get(line: &str) -> Result<Option<FoundRequest>, String> {
        match line.strip_prefix("GET ") {
            Some(target) => {
                let (method, target) = ("GET".to_owned(), target.to_owned());
                Ok(Some(FoundRequest { method, target, ..FoundRequest::default() }))
            }
            None if line.starts_with('-') => Ok(None),
            None => Err("it is not a GET".to_owned()),
        }
    }

    fn collector() -> TrafficCollector {
        TrafficCollector::new(ReplayRules::default(), OwnServer::First)
    }

    #[test]
    fn unreadable_lines_of_a_log_are_counted_and_the_first_is_named() {
        let mut all = collector();
        let text = b"GET /a\r\n\n- other\nnot\nGET /b\nGET x\nGET /c\n";
        read_log(text, get, &mut all).unwrap();
        assert_eq!(
            (all.left_out.unreadable, all.left_out.first_unreadable),
            (2, Some(("line", 4)))
        );
    }

    #[test]
    fn a_log_of_which_more_than_half_is_unreadable_is_refused_with_the_first_line() {
        for (text, expected) in [
            (
                &b"GET /\n- a\n\xff\xfe\nno"[..],
                "2 of 3 requests cannot be read; the first: line 3: it is not UTF-8: `\u{fffd}\u{fffd}`",
            ),
            (b"\x1b[31mx", "line 1: it is not a GET: `x`"),
            (b"GET x", "line 1: `x` is neither a path nor a URL: `GET x`"),
        ] {
            let error = read_log(text, get, &mut collector()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let long = format!("GET /{}", "x".repeat(LINE_MAX));
        let error = read_log(long.as_bytes(), get, &mut collector()).unwrap_err();
        assert!(error.ends_with("line 1: it has more than 64 KiB"), "{error}");
    }

    #[test]
    fn one_unreadable_line_of_a_list_is_an_error() {
        read_list(b"GET /\n- a comment\n", get, &mut collector()).unwrap();
        let error = read_list(b"GET /\nx\n", get, &mut collector()).unwrap_err();
        assert_eq!(error, "line 2: it is not a GET: `x`");
    }
}
