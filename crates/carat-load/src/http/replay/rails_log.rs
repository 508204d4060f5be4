//! Rails' own log: `Started GET "/x" for 127.0.0.1 at 2026-11-22 10:00:00 +0000`, with or without a prefix. All other lines
//! are about something else.

use crate::http::replay::collector::{FoundRequest, is_method};
use crate::http::replay::times::iso_time;

pub(super) fn read_started(line: &str) -> Result<Option<FoundRequest>, String> {
    let Some((prefix, started)) = line.split_once("Started ") else { return Ok(None) };
    let Some((method, rest)) = started.split_once(" \"") else { return Ok(None) };
    // The line of a WebSocket follows that of its request.
    if !is_method(method) || rest.contains("\"[WebSocket]") {
        return Ok(None);
    }
    // From the right: a path may contain the same words, the address cannot.
    let (target, after) = rest.rsplit_once("\" for ").ok_or("no `\" for` follows the path")?;
    let written = after.split_once(" at ").and_then(|(_, time)| iso_time(time));
    Ok(Some(FoundRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        // The prefix has microseconds, the line itself whole seconds.
        at: prefix_time(prefix).or(written),
        ..FoundRequest::default()
    }))
}

/// The time of a logger's prefix such as `I, [2026-11-22T10:00:00.123456 #42]  INFO -- :`, which has microseconds.
pub(super) fn prefix_time(prefix: &str) -> Option<i64> {
    prefix.split_once('[').and_then(|(_, rest)| iso_time(rest)).or_else(|| iso_time(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: i64 = 1_795_341_600_000_000_000;

    #[test]
    fn lines_of_rails_are_read_with_the_more_exact_time() {
        for (line, target, at) in [
            ("Started GET \"/\" for 127.0.0.1 at 2026-11-22 10:00:00 +0000", "/", TEN),
            (
                "I, [2026-11-22T10:00:00.123456 #42]  INFO -- : [8f14-ab] Started GET \"/issues?q=a\" for ::1 at 2026-11-22 10:00:00 +0000",
                "/issues?q=a",
                TEN + 123_456_000,
            ),
            (
                "[8f14-ab] Started GET \"/a\"b\" for 10.0.0.1 at 2026-11-22 11:00:00 +0100",
                "/a\"b",
                TEN,
            ),
        ] {
            let found = read_started(line).unwrap().unwrap();
            assert_eq!((found.method.as_str(), found.target.as_str()), ("GET", target), "{line}");
            assert_eq!(found.at, Some(at), "{line}");
        }
    }

    #[test]
    fn other_lines_are_about_something_else_and_a_cut_one_is_unreadable() {
        for line in [
            "Processing by IssuesController#index as HTML",
            "Completed 200 OK in 12ms (Views: 8.0ms | ActiveRecord: 1.2ms)",
            "Started worker \"a\" for jobs",
            "Started GET \"/cable\"[WebSocket] for ::1 at 2026-11-22 10:00:00 +0000",
            "Started GET",
            "",
        ] {
            assert!(read_started(line).unwrap().is_none(), "{line}");
        }
        let error = read_started("Started GET \"/issues").unwrap_err();
        assert!(error.contains("no `\" for`"), "{error}");
    }
}
