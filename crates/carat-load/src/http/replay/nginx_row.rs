//! An access log with an object of JSON per line, as nginx and Caddy write it. Of nginx the keys are the user's own; those that
//! have the names of its variables are read (`log_format … escape=json`).

use crate::http::replay::collector::{FoundRequest, request_line};
use crate::http::replay::shown::json_error;
use crate::http::replay::times::{access_log_time, iso_time};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct NginxRow {
    /// The line of the request; of Caddy, an object.
    request: Option<Value>,
    request_method: Option<String>,
    request_uri: Option<String>,
    status: Option<Value>,
    time_iso8601: Option<String>,
    time_local: Option<String>,
    /// Seconds since 1970: of nginx, and of Caddy.
    msec: Option<Value>,
    ts: Option<Value>,
}

/// Reads a line that is an object; `None` if no key is about a request.
pub(super) fn read_row(line: &str) -> Result<Option<FoundRequest>, String> {
    let row: NginxRow = serde_json::from_str(line).map_err(|error| json_error(&error))?;
    let at = row.at();
    let (method, target) = match (row.request, row.request_method, row.request_uri) {
        // nginx's own variables before `request`, which Caddy also uses but as an object.
        (_, Some(method), Some(target)) => (method, target),
        (Some(Value::String(request)), ..) => request_line(&request)?,
        (Some(Value::Object(request)), ..) => {
            match ["method", "uri"].map(|key| request.get(key).and_then(Value::as_str)) {
                [Some(method), Some(target)] => (method.to_owned(), target.to_owned()),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let status = row.status.as_ref().and_then(number).map(|status| status as u16);
    Ok(Some(FoundRequest { method, target, status, at, ..FoundRequest::default() }))
}

impl NginxRow {
    fn at(&self) -> Option<i64> {
        let seconds = [&self.msec, &self.ts].into_iter().flatten().find_map(number);
        // Milliseconds and microseconds are exact in the number, nanoseconds are not.
        let exact = seconds.and_then(|seconds| ((seconds * 1e6).round() as i64).checked_mul(1_000));
        exact
            .or_else(|| iso_time(self.time_iso8601.as_deref()?))
            .or_else(|| access_log_time(self.time_local.as_deref()?))
    }
}

/// A number, which nginx writes as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: i64 = 1_795_341_600_000_000_000;

    #[test]
    fn rows_of_nginx_and_caddy_are_read() {
        for (line, at) in [
            (
                r#"{"time_local":"22/Nov/2026:10:00:00 +0000","request":"GET /a?b=1 HTTP/1.1","status":"404"}"#,
                TEN,
            ),
            (
                r#"{"msec":"17953441600.5","time_local":"22/Nov/2026:10:00:00 +0000","request":"GET /a?b=1 HTTP/1.1","status":"404"}"#,
                TEN,
            ),
            (
                r#"{"time_iso8601":"2026-11-22T10:00:00+00:00","request_method":"GET","request_uri":"/a?b=1","status":404}"#,
                TEN,
            ),
            (
                r#"{"msec":"1795341600.250","request":"GET /a?b=1 HTTP/2.0","status":404}"#,
                TEN + 250_000_000,
            ),
            (
                r#"{"level":"info","ts":1795341600.5,"msg":"handled request","request":{"method":"GET","uri":"/a?b=1"},"status":404}"#,
                TEN + 500_000_000,
            ),
        ] {
            let found = read_row(line).unwrap().unwrap();
            let read = (found.method.as_str(), found.target.as_str(), found.status);
            assert_eq!(read, ("GET", "/a?b=1", Some(404)), "{line}");
            assert_eq!(found.at, Some(at), "{line}");
        }
    }

    #[test]
    fn other_rows_are_about_something_else_and_half_a_request_is_unreadable() {
        for line in [r#"{"level":"info","msg":"started"}"#, r#"{"request":{"id":1}}"#] {
            assert!(read_row(line).unwrap().is_none(), "{line}");
        }
        for (line, expected) in [
            (r#"{"request":""}"#, "no method"),
            (r#"{"request":"GET /a b HTTP/1.1"}"#, "not `METHOD PATH VERSION`"),
            (r#"{"request":"GET"#, "EOF"),
        ] {
            let error = read_row(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
