//! Lograge's lines: `method=GET path=/x format=html status=200 …`, or an object of JSON. Heroku's router writes such pairs too.
//! Other lines are about something else.

use crate::http::replay::collector::FoundRequest;
use crate::http::replay::rails_log::prefix_time;
use crate::http::replay::shown::json_error;
use crate::http::replay::times::iso_time;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct LogrageRow {
    method: Option<String>,
    path: Option<String>,
    status: Option<Value>,
    #[serde(rename = "@timestamp")]
    logstash_time: Option<Value>,
    timestamp: Option<Value>,
    time: Option<Value>,
}

pub(super) fn read_lograge(line: &str) -> Result<Option<FoundRequest>, String> {
    // A logger's prefix may precede the object; an object may be a value of pairs.
    let is_pairs = !line.starts_with('{') && pair(line, "method=").is_some();
    match line.find("{\"") {
        Some(start) if line.ends_with('}') && !is_pairs => {
            read_object(&line[start..], &line[..start])
        }
        // A cut line, as logs have at their rotation; it counts as unreadable, not as no request.
        _ if line.starts_with('{') => Err("the JSON is incomplete".to_owned()),
        _ => read_pairs(line),
    }
}

fn read_object(text: &str, prefix: &str) -> Result<Option<FoundRequest>, String> {
    let row: LogrageRow = serde_json::from_str(text).map_err(|error| json_error(&error))?;
    // Some formatters write the status as a text.
    let status = row.status.as_ref().and_then(|status| match status {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let times = [row.logstash_time, row.timestamp, row.time];
    let at = times.iter().flatten().find_map(|time| time.as_str().and_then(iso_time));
    let at = at.or_else(|| prefix_time(prefix));
    request(row.method, row.path, status.and_then(|status| u16::try_from(status).ok()), at)
}

fn read_pairs(line: &str) -> Result<Option<FoundRequest>, String> {
    let status = pair(line, "status=").and_then(|status| status.parse().ok());
    let (method, path) = (pair(line, "method="), pair(line, "path="));
    request(method.map(str::to_owned), path.map(str::to_owned), status, prefix_time(line))
}

/// The value of a pair, which ends at a space, without the quotes of Heroku's router.
fn pair<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let value = line.split(' ').find_map(|word| word.strip_prefix(name))?;
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    Some(quoted.unwrap_or(value))
}

fn request(
    method: Option<String>,
    path: Option<String>,
    status: Option<u16>,
    at: Option<i64>,
) -> Result<Option<FoundRequest>, String> {
    match (method, path) {
        (Some(method), Some(target)) => {
            let method = method.to_ascii_uppercase();
            Ok(Some(FoundRequest { method, target, status, at, ..FoundRequest::default() }))
        }
        // Other lines of the log: nothing to read, and no error.
        (None, None) => Ok(None),
        (Some(_), None) => Err("it has a `method` but no `path`".to_owned()),
        (None, Some(_)) => Err("it has a `path` but no `method`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: i64 = 1_795_341_600_000_000_000;
    const PAIRS: &str = "method=GET path=/issues/7.json format=json controller=IssuesController action=show status=404 duration=5.4 view=0.0 db=1.1";

    #[test]
    fn pairs_and_objects_are_read() {
        let prefixed = format!("I, [2026-11-22T10:00:00.5 #1]  INFO -- : {PAIRS}");
        let object = r#"{"method":"GET","path":"/issues/7.json","format":"json","status":404,"duration":5.4,"@timestamp":"2026-11-22T10:00:00.500Z","@version":"1","message":"[404] GET /issues/7.json"}"#;
        let with_object = format!("{PAIRS} params={{\"id\"=>\"7\"}}");
        let heroku = r#"2026-11-22T10:00:00.500000+00:00 heroku[router]: at=info method=GET path="/issues/7.json" host=app.test fwd="10.0.0.7" connect=1ms status=404"#;
        for (line, at) in [
            (PAIRS, None),
            (heroku, Some(TEN + 500_000_000)),
            (with_object.as_str(), None),
            (prefixed.as_str(), Some(TEN + 500_000_000)),
            (object, Some(TEN + 500_000_000)),
            (
                r#"I, [2026-11-22T10:00:00 #1]  INFO -- : {"path":"/issues/7.json","status":"404","method":"get"}"#,
                Some(TEN),
            ),
        ] {
            let found = read_lograge(line).unwrap().unwrap();
            let read = (found.method.as_str(), found.target.as_str(), found.status);
            assert_eq!(read, ("GET", "/issues/7.json", Some(404)), "{line}");
            assert_eq!(found.at, at, "{line}");
        }
    }

    #[test]
    fn other_lines_are_about_something_else_and_half_a_request_is_unreadable() {
        for line in ["Enqueued MailJob", r#"{"level":"info","message":"method=GET"}"#, "a?method=b"]
        {
            assert!(read_lograge(line).unwrap().is_none(), "{line}");
        }
        for (line, expected) in [
            ("method=GET status=200", "no `path`"),
            (r#"{"path":"/"}"#, "no `method`"),
            (r#"{"method":"GET","path":"/"#, "incomplete"),
            (r#"{"method":["GET"],"path":"/"}"#, "invalid type"),
            (r#"{"method":"GET" "path":"/"}"#, "expected"),
        ] {
            let error = read_lograge(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
