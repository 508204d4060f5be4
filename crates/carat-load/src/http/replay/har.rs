//! HAR files, which browsers export (HTTP Archive 1.2). Contents of responses are skipped.

use crate::http::replay::collector::{FoundRequest, ReplayRules, TrafficCollector, check_method};
use crate::http::replay::shown::{json_error, shown};
use crate::http::replay::times::iso_time;
use crate::http::scenario::{Encoding, encode};
use serde::Deserialize;
use serde_json::Value;

/// Headers of a connection (RFC 9110, 7.6.1), of a message's length, and those that name the recorded server.
const NOT_REPLAYED: [&str; 13] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    // The generator reads no compressed body.
    "accept-encoding",
    "origin",
    "referer",
];

/// With one of these headers many applications take the request for one of another method (Rack's `MethodOverride` and others).
const OTHER_METHOD: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];

/// A header whose name contains one of these has a secret.
const CREDENTIALS: [&str; 10] = [
    "cookie", "auth", "token", "csrf", "xsrf", "api-key", "apikey", "secret", "session", "password",
];

/// Fewest bytes of a secret; shorter values are in any text.
const SECRET_MIN: usize = 6;

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct HarFile {
    log: HarLog,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct HarLog {
    entries: Vec<HarEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct HarEntry {
    started_date_time: Option<String>,
    request: Option<HarRequest>,
    response: Option<HarResponse>,
    /// `memory` or `disk` if Chrome's cache answered.
    #[serde(rename = "_fromCache")]
    from_cache: Option<Value>,
    /// `websocket` if Chrome opened one.
    #[serde(rename = "_resourceType")]
    resource_type: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct HarRequest {
    method: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: Vec<HarPair>,
    #[serde(default)]
    cookies: Vec<HarPair>,
    post_data: Option<HarBody>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct HarPair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct HarBody {
    mime_type: Option<String>,
    text: Option<String>,
    #[serde(default)]
    params: Vec<HarPair>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct HarResponse {
    status: Option<f64>,
}

pub(super) fn read_har(content: &[u8], all: &mut TrafficCollector) -> Result<(), String> {
    let file: HarFile = serde_json::from_slice(content).map_err(|error| json_error(&error))?;
    for (number, entry) in (1..).zip(file.log.entries) {
        let read = read_entry(entry, all).map_err(|why| format!("entry {number}: {why}"));
        all.tolerate("entry", number, read);
    }
    all.check_readable()
}

/// Adds a request, or counts why it is not sent.
fn read_entry(entry: HarEntry, all: &mut TrafficCollector) -> Result<(), String> {
    let HarEntry { started_date_time, request, response, from_cache, resource_type } = entry;
    let request = request.ok_or("it has no request")?;
    let url = request.url.as_deref().ok_or("it has no URL")?;
    // Some browsers record no method of a WebSocket.
    match scheme(url)?.as_str() {
        "http" | "https" if resource_type != Some("websocket".into()) => {}
        "http" | "https" | "ws" | "wss" => {
            all.left_out.websockets += 1;
            return Ok(());
        }
        other => {
            all.leave_out_scheme(other);
            return Ok(());
        }
    }
    // No server got this request, so replaying it would add load that there was not.
    if from_cache.is_some_and(|cache| cache.is_string()) {
        all.left_out.cached += 1;
        return Ok(());
    }
    let method = request.method.as_deref().unwrap_or_default().to_ascii_uppercase();
    check_method(&method)?;
    let is_sent = all.sends(&method);
    let mut headers = headers(&request, all.rules);
    let Some(body) = body(request.post_data, &mut headers) else {
        // A request that is not sent anyway is counted by its method.
        if is_sent {
            all.left_out.without_body += 1;
        } else {
            all.leave_out_method(&method);
        }
        return Ok(());
    };
    let status = response.and_then(|response| response.status);
    all.add(FoundRequest {
        method,
        target: url.to_owned(),
        // Browsers write 0 for a request that was blocked or given up.
        unanswered: status == Some(0.0),
        headers,
        body,
        // 0 and negative numbers stand for "no response" and must not become a status.
        status: status.filter(|status| (100.0..600.0).contains(status)).map(|status| status as u16),
        at: started_date_time.as_deref().and_then(iso_time),
        ..FoundRequest::default()
    })
}

/// The scheme of a URL in lower case; `data` is that of an image inside the page.
fn scheme(url: &str) -> Result<String, String> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let scheme = scheme.ok_or_else(|| format!("`{}` is no URL", shown(url)))?;
    Ok(scheme.to_ascii_lowercase())
}

/// The secrets in a header, if it has some: the value, each cookie, and what follows the scheme of an authorization.
pub fn secrets<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    if !is_credential(&name.to_ascii_lowercase()) {
        return Vec::new();
    }
    let cookies = value.split("; ").filter_map(|cookie| Some(cookie.split_once('=')?.1));
    // Anything short occurs in ordinary text, and masking it would destroy the message.
    let last = value.rsplit(' ').next();
    let all = std::iter::once(value).chain(cookies).chain(last);
    all.filter(|secret| secret.len() >= SECRET_MIN).collect()
}

fn is_credential(lower_case: &str) -> bool {
    CREDENTIALS.iter().any(|word| lower_case.contains(word))
}

/// The headers that are sent again.
fn headers(request: &HarRequest, rules: ReplayRules) -> Vec<(String, String)> {
    let pairs = request.headers.iter().filter(|pair| is_replayed(&pair.name, rules));
    // A control character could end the header and begin another one (request splitting).
    let pairs = pairs.filter(|pair| !pair.value.chars().any(char::is_control));
    let mut headers: Vec<(String, String)> =
        pairs.map(|pair| (pair.name.clone(), pair.value.clone())).collect();
    let has_cookies = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    if rules.private_headers && !has_cookies && !request.cookies.is_empty() {
        let cookies = request.cookies.iter().map(|pair| format!("{}={}", pair.name, pair.value));
        let cookies = cookies.filter(|cookie| !cookie.contains(char::is_control));
        headers.push(("Cookie".to_owned(), cookies.collect::<Vec<_>>().join("; ")));
    }
    headers
}

/// Whether a header is sent again: one with a valid name (RFC 9110, 5.6.2) that is neither about the connection nor a
/// condition, a secret only if those are wanted, and another method only if every method is.
pub(super) fn is_replayed(name: &str, rules: ReplayRules) -> bool {
    let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    let name = name.to_ascii_lowercase();
    let is_allowed = rules.all_methods || !OTHER_METHOD.contains(&name.as_str());
    // A condition would be answered by 304 without the work that is to be measured.
    let kept = is_allowed && !NOT_REPLAYED.contains(&name.as_str()) && !name.starts_with("if-");
    !name.is_empty() && valid && kept && (rules.private_headers || !is_credential(&name))
}

/// The body that is sent again; `None` if it was not recorded.
fn body(recorded: Option<HarBody>, headers: &mut Vec<(String, String)>) -> Option<String> {
    let Some(HarBody { mime_type, text, params }) = recorded else { return Some(String::new()) };
    let mime_type = mime_type.unwrap_or_default();
    let is_form = mime_type.starts_with("application/x-www-form-urlencoded");
    let body = match text {
        Some(text) => text,
        None if is_form => form(&params),
        // The text was not recorded, and an empty body would be another request.
        None => return None,
    };
    let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !has_type && !mime_type.is_empty() && !mime_type.contains(char::is_control) {
        headers.push(("Content-Type".to_owned(), mime_type));
    }
    Some(body)
}

fn form(params: &[HarPair]) -> String {
    let mut out = Vec::new();
    for (number, pair) in params.iter().enumerate() {
        if number > 0 {
            out.push(b'&');
        }
        encode(&pair.name, Encoding::Form, &mut out);
        out.push(b'=');
        encode(&pair.value, Encoding::Form, &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::replay::collector::OwnServer;
    use crate::http::replay::traffic::RecordedTraffic;
    use carat_model::load::ReplayFormat;

    /// What a browser writes, shortened, with a page, a font of another server, an image in the page and a form.
    const HAR: &str = r#"{"log":{"version":"1.2","creator":{"name":"WebInspector","version":"537.36"},"pages":[],"entries":[
{"startedDateTime":"2026-11-22T10:00:00.000Z","time":52.1,"request":{"method":"GET","url":"http://app.test/issues?page=2","httpVersion":"http/2.0","headers":[
 {"name":":authority","value":"app.test"},{"name":"Host","value":"app.test"},{"name":"Accept","value":"text/html"},{"name":"Accept-Encoding","value":"gzip"},
 {"name":"If-None-Match","value":"W/\"1\""},{"name":"Cookie","value":"session=s3cret"},{"name":"X-CSRF-Token","value":"s3cret"},{"name":"Authorization","value":"Bearer s3cret"},
 {"name":"Evil","value":"a\r\nX: y"},{"name":"Bad name","value":"a"},{"name":"Referer","value":"http://app.test/?token=s3cret"}],
 "queryString":[],"cookies":[{"name":"session","value":"s3cret","httpOnly":true}],"headersSize":-1,"bodySize":0},"response":{"status":200,"content":{"text":"<html>"}},"cache":{},"timings":{}},
{"startedDateTime":"2026-11-22T10:00:00.250Z","request":{"method":"GET","url":"https://fonts.test/f.woff2","headers":[]},"response":{"status":0}},
{"request":{"method":"GET","url":"data:image/png;base64,AAAA","headers":[]}},
{"startedDateTime":"2026-11-22T10:00:01.500Z","request":{"method":"POST","url":"http://app.test/login","headers":[],"postData":{"mimeType":"application/x-www-form-urlencoded","params":[{"name":"user","value":"ann b"},{"name":"password","value":"s3cret&"}]}},"response":{"status":422}},
{"startedDateTime":"2026-11-22T10:00:02.500Z","request":{"method":"POST","url":"http://app.test/upload","headers":[],"postData":{"mimeType":"multipart/form-data; boundary=x","params":[{"name":"file","fileName":"a.pdf"}]}},"response":{"status":201}}
]}}"#;

    fn read(text: &str, rules: ReplayRules) -> Result<RecordedTraffic, String> {
        let mut all = TrafficCollector::new(rules, OwnServer::First);
        read_har(text.as_bytes(), &mut all).and_then(|()| all.traffic(ReplayFormat::Har))
    }

    #[test]
    fn reads_of_one_server_are_replayed_without_credentials() {
        let traffic = read(HAR, ReplayRules::default()).unwrap();
        let page = &traffic.requests[0];
        assert_eq!((traffic.requests.len(), page.path.as_str()), (1, "/issues?page=2"));
        assert_eq!(page.headers, [("Accept".to_owned(), "text/html".to_owned())]);
        assert_eq!(traffic.times, [1_795_341_600_000_000_000]);
        assert_eq!(
            traffic.left_out.text().unwrap(),
            "POST ×2 (`all_methods` sends every method), 1 to other servers, data: ×1"
        );
        assert!(!format!("{traffic:?}").contains("s3cret"));
    }

    #[test]
    fn bodies_and_credentials_are_replayed_when_they_are_wanted() {
        let traffic = read(HAR, ReplayRules { all_methods: true, private_headers: true }).unwrap();
        let [page, login] = &traffic.requests[..] else { panic!("{traffic:?}") };
        let names: Vec<&str> = page.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Accept", "Cookie", "X-CSRF-Token", "Authorization"]);
        assert_eq!(login.body, "user=ann+b&password=s3cret%26");
        assert_eq!(login.headers[0].1, "application/x-www-form-urlencoded");
        assert_eq!(login.refused, Some(422));
        assert_eq!(traffic.left_out.without_body, 1);
    }

    #[test]
    fn a_request_that_only_calls_itself_a_read_is_sent_only_with_every_method() {
        let entry = |request: &str| {
            format!(r#"{{"request":{{"method":"GET","url":"http://a/x","headers":[]{request}}}}}"#)
        };
        let with_body = r#","postData":{"mimeType":"application/json","text":"{\"delete\":1}"}"#;
        let text = format!(
            r#"{{"log":{{"entries":[{},{},{}]}}}}"#,
            entry(""),
            entry(with_body),
            r#"{"request":{"method":"GET","url":"http://a/y","headers":[{"name":"X-HTTP-Method-Override","value":"DELETE"}]}}"#
        );
        let traffic = read(&text, ReplayRules::default()).unwrap();
        let sent: Vec<&str> = traffic.requests.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(sent, ["/x", "/y"]);
        assert!(traffic.requests.iter().all(|one| one.headers.is_empty() && one.body.is_empty()));
        let left_out = traffic.left_out.text().unwrap();
        assert_eq!(left_out, "GET with a body ×1 (`all_methods` sends every method)");
        let all = read(&text, ReplayRules { all_methods: true, ..ReplayRules::default() }).unwrap();
        assert_eq!(all.requests.len(), 3);
        assert_eq!(all.requests[2].headers.len(), 1);
    }

    #[test]
    fn cookies_without_a_header_are_one_header() {
        let text = r#"{"log":{"entries":[{"request":{"method":"get","url":"http://a/","cookies":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}}]}}"#;
        let rules = ReplayRules { private_headers: true, ..ReplayRules::default() };
        let headers = &read(text, rules).unwrap().requests[0].headers;
        assert_eq!(headers, &[("Cookie".to_owned(), "a=1; b=2".to_owned())]);
        assert!(read(text, ReplayRules::default()).unwrap().requests[0].headers.is_empty());
    }

    #[test]
    fn the_secrets_of_a_header_are_its_parts_too() {
        assert_eq!(secrets("Cookie", "a=abcdefg; b=1"), ["a=abcdefg; b=1", "abcdefg"]);
        assert_eq!(secrets("AUTHORIZATION", "Bearer abcdefg"), ["Bearer abcdefg", "abcdefg"]);
        assert!(secrets("Accept", "text/html").is_empty());
    }

    /// A HAR of these methods, URLs and further keys of the entry.
    fn entries(all: &[(&str, &str, &str)]) -> String {
        let entries: Vec<String> = all
            .iter()
            .map(|(method, url, more)| {
                format!(r#"{{"request":{{"method":"{method}","url":"{url}"}}{more}}}"#)
            })
            .collect();
        format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","))
    }

    #[test]
    fn what_is_no_request_of_http_is_counted_by_its_reason_wherever_it_stands() {
        let own = ("GET", "https://app.test/", "");
        for (entry, reason) in [
            (("", "ws://app.test/cable", ""), "1 for WebSockets"),
            (("GET", "wss://app.test/cable", r#","response":{"status":101}"#), "1 for WebSockets"),
            (("", "https://app.test/cable", r#","_resourceType":"websocket""#), "1 for WebSockets"),
            (
                ("GET", "https://app.test/cable", r#","response":{"status":101}"#),
                "1 for WebSockets",
            ),
            (("GET", "data:image/png;base64,AAAA", ""), "data: ×1"),
            (("GET", "blob:https://app.test/1-2", ""), "blob: ×1"),
            (("GET", "chrome-extension://abc/x.js", ""), "chrome-extension: ×1"),
            (
                ("GET", "https://app.test/a.css", r#","_fromCache":"disk""#),
                "1 from the browser's cache",
            ),
        ] {
            for all in [[own, entry], [entry, own]] {
                let traffic = read(&entries(&all), ReplayRules::default()).unwrap();
                let paths: Vec<_> = traffic.requests.iter().map(|one| one.path.as_str()).collect();
                assert_eq!(paths, ["/"], "{entry:?}");
                assert_eq!(traffic.left_out.text().as_deref(), Some(reason), "{entry:?}");
            }
        }
    }

    #[test]
    fn an_unreadable_entry_is_counted_and_a_request_without_a_response_is_sent() {
        let own = ("GET", "https://app.test/", "");
        let aborted = ("GET", "https://app.test/slow", r#","response":{"status":0}"#);
        let text = entries(&[own, ("", "https://app.test/x", ""), ("GET", "x", ""), aborted]);
        let traffic = read(&text, ReplayRules::default()).unwrap();
        assert_eq!(
            traffic.summary("a.har"),
            "a.har (HAR) with 2 requests, 2 different, 1 recorded without a response; not sent: 2 unreadable, first entry 2"
        );
    }

    #[test]
    fn malformed_files_are_refused_with_the_place() {
        for (text, expected) in [
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("7", "invalid type: integer `7`, expected an object at line 1"),
            ("{\"log\":{}}", "missing field `entries` at line 1"),
            ("{\"log\":{\"entries\":[]}}", "no request that can be sent"),
            (
                "{\"log\":{\"entries\":\n[{\"request\":7}]}}",
                "invalid type: integer `7`, expected an object at line 2",
            ),
            (
                "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\"}}]}}",
                "entry 1: it has no URL",
            ),
            ("{\"log\":{\"entries\":[{}]}}", "entry 1: it has no request"),
            (
                "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\",\"url\":\"issues\"}}]}}",
                "entry 1: `issues` is no URL",
            ),
            (
                "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GE T\",\"url\":\"http://a/\"}}]}}",
                "entry 1: `GE T` is not a method",
            ),
        ] {
            let error = read(text, ReplayRules::default()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
