//! Which format a file has, and its requests.

use crate::http::replay::access_log::read_access;
use crate::http::replay::collector::{OwnServer, ReplayRules, TrafficCollector};
use crate::http::replay::har::read_har;
use crate::http::replay::lines::{LineReader, lines, read_list, read_log};
use crate::http::replay::lograge::read_lograge;
use crate::http::replay::openapi::read_openapi;
use crate::http::replay::rails_log::read_started;
use crate::http::replay::shown::{json_error, shown};
use crate::http::replay::traffic::RecordedTraffic;
use crate::http::replay::url_list::read_url;
use carat_model::load::ReplayFormat;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Lines by which the format is found out.
const LINES_TRIED: usize = 1000;
/// Bytes in which a byte of zero shows that a file is no text.
const START: usize = 64 * 1024;

/// The formats of lines. Of those that read equally many, the first counts.
const LINE_FORMATS: [(ReplayFormat, LineReader); 4] = [
    (ReplayFormat::AccessLog, read_access),
    (ReplayFormat::Lograge, read_lograge),
    (ReplayFormat::Rails, read_started),
    (ReplayFormat::Urls, read_url),
];

/// Keys of a row that a message names.
const KEYS_SHOWN: usize = 12;

/// What to do where nothing is recognized.
const NAME_IT: &str = "name the format with `replay_format`";
const OLD_OPENAPI: &str = "it is OpenAPI 2 (Swagger), and version 3 is read: convert it";

/// Reads the requests of a file in the given format, or in the one that its content shows.
///
/// # Errors
/// If the content has no known format, is malformed or has no request; the message says where and what was found.
pub fn read_traffic(
    content: &[u8],
    format: Option<ReplayFormat>,
    rules: ReplayRules,
) -> Result<RecordedTraffic, String> {
    // Windows editors write a byte order mark, which is no part of the first line.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    check_text(content)?;
    let format = match format {
        Some(format) => format,
        None => found_format(content)?,
    };
    let own = match format {
        // Only these formats name servers of their own; a log's server is where it was written.
        ReplayFormat::Urls | ReplayFormat::Har => OwnServer::First,
        _ => OwnServer::Unnamed,
    };
    let mut all = TrafficCollector::new(rules, own);
    let read = match format {
        ReplayFormat::Urls => read_list(content, read_url, &mut all),
        ReplayFormat::AccessLog => read_log(content, read_access, &mut all),
        ReplayFormat::Rails => read_log(content, read_started, &mut all),
        ReplayFormat::Lograge => read_log(content, read_lograge, &mut all),
        ReplayFormat::Har => read_har(content, &mut all),
        ReplayFormat::OpenApi => read_openapi(content, &mut all),
    };
    read.map_err(|what| format!("the {format} cannot be read: {what}"))?;
    all.traffic(format)
}

/// Refuses what no text begins with.
fn check_text(content: &[u8]) -> Result<(), String> {
    if content.trim_ascii().is_empty() {
        return Err("it is empty".to_owned());
    }
    if content.starts_with(b"\x1f\x8b") {
        return Err("it is compressed: use gunzip first".to_owned());
    }
    if content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff") {
        return Err("it is UTF-16: save it as UTF-8".to_owned());
    }
    let start = &content[..content.len().min(START)];
    match start.iter().position(|byte| *byte == 0) {
        Some(place) => Err(format!("it is not text: byte {place} is zero")),
        None => Ok(()),
    }
}

fn found_format(content: &[u8]) -> Result<ReplayFormat, String> {
    // HAR and OpenAPI in JSON are one object, but so is each line of a JSON log.
    if content.trim_ascii_start().starts_with(b"{") {
        return format_of_json(content);
    }
    let mut counts = FormatCounts::default();
    let mut first = None;
    for (number, line) in lines(content).take(LINES_TRIED) {
        let Ok(line) = line else { continue };
        // YAML shows itself by its first key; comments and `---` may precede it.
        match line.split_once(':').map_or("", |(key, _)| key.trim_matches(['"', '\''])) {
            "openapi" => return Ok(ReplayFormat::OpenApi),
            "swagger" => return Err(OLD_OPENAPI.to_owned()),
            _ => {}
        }
        first.get_or_insert((number, line));
        counts.try_line(line);
    }
    counts.most().ok_or_else(|| match first {
        Some((number, line)) => format!(
            "it is no list of URLs, log, HAR or OpenAPI file; line {number} is `{}`; {NAME_IT}",
            shown(line)
        ),
        None => "it is not text in UTF-8".to_owned(),
    })
}

/// How many lines each of [`LINE_FORMATS`] reads.
#[derive(Debug, Default)]
struct FormatCounts([u32; LINE_FORMATS.len()]);

impl FormatCounts {
    fn try_line(&mut self, line: &str) {
        for (count, (_, reader)) in self.0.iter_mut().zip(LINE_FORMATS) {
            *count += u32::from(matches!(reader(line), Ok(Some(_))));
        }
    }

    /// The format that reads most lines; `None` if none reads any.
    fn most(&self) -> Option<ReplayFormat> {
        // No line was readable: guessing the first format would blame the wrong line.
        let most = self.0.iter().copied().max().filter(|most| *most > 0)?;
        let place = self.0.iter().position(|count| *count == most)?;
        Some(LINE_FORMATS[place].0)
    }
}

/// The keys by which documents differ.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonKeys {
    log: Option<IgnoredAny>,
    openapi: Option<IgnoredAny>,
    swagger: Option<IgnoredAny>,
}

/// The format of a file that begins with an object: one document, or an object per line.
fn format_of_json(content: &[u8]) -> Result<ReplayFormat, String> {
    let mut all = content.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = all.next().unwrap_or_default();
    // More lines of objects make a log, whatever keys the first one has.
    let has_more = all.next().is_some();
    let is_row = serde_json::from_slice::<IgnoredAny>(first).is_ok();
    let keys: JsonKeys = match serde_json::from_slice(content) {
        Ok(keys) => keys,
        // Further lines are further objects.
        Err(_) if is_row && has_more => JsonKeys::default(),
        Err(error) => return Err(format!("it is not JSON: {}", json_error(&error))),
    };
    match (keys.log.is_some(), keys.openapi.is_some(), keys.swagger.is_some()) {
        (true, ..) => Ok(ReplayFormat::Har),
        (_, true, _) => Ok(ReplayFormat::OpenApi),
        (.., true) => Err(OLD_OPENAPI.to_owned()),
        _ if is_row => format_of_rows(content),
        _ => Err(format!("it is JSON, but neither a HAR nor an OpenAPI file: {NAME_IT}")),
    }
}

/// The format of a log with an object per line.
fn format_of_rows(content: &[u8]) -> Result<ReplayFormat, String> {
    let mut counts = FormatCounts::default();
    let mut keys = Vec::new();
    for line in lines(content).take(LINES_TRIED).filter_map(|(_, line)| line.ok()) {
        counts.try_line(line);
        if let (true, Ok(row)) = (keys.is_empty(), serde_json::from_str::<Map<String, Value>>(line))
        {
            keys = row.keys().take(KEYS_SHOWN).map(|key| format!("`{}`", shown(key))).collect();
        }
    }
    counts.most().ok_or_else(|| {
        format!(
            "it is JSON, but no line has a request: neither `method` and `path` (Lograge), nor `request`, nor `request_method` and `request_uri` (nginx); the keys of the first line are {}",
            keys.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Result<ReplayFormat, String> {
        found_format(text.as_bytes())
    }

    #[test]
    fn the_format_is_that_of_most_lines() {
        let access = "127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5";
        let rails = "Started GET \"/\" for 127.0.0.1 at 2026-11-22 10:00:00 +0000\nProcessing by HomeController#index as HTML\nCompleted 200 OK";
        let pairs = "method=GET path=/ format=html status=200";
        let row = "{\"method\":\"GET\",\"path\":\"/\",\"status\":200}";
        for (text, expected) in [
            (access.to_owned(), ReplayFormat::AccessLog),
            (format!("=> Booting Puma\n{rails}"), ReplayFormat::Rails),
            (format!("starting\n{pairs}\n{pairs}"), ReplayFormat::Lograge),
            (row.to_owned(), ReplayFormat::Lograge),
            (format!("{row}\n\n{row}\n"), ReplayFormat::Lograge),
            (format!("I, [x]  INFO -- : {row}"), ReplayFormat::Lograge),
            (r#"{"request":"GET / HTTP/1.1","status":"200"}"#.to_owned(), ReplayFormat::AccessLog),
            (format!("{{\"level\":\"info\"}}\n{row}"), ReplayFormat::Lograge),
            ("# pages\n/\n/posts 3\n".to_owned(), ReplayFormat::Urls),
            ("https://app.test/\n".to_owned(), ReplayFormat::Urls),
            ("\n{\n\"log\": {}}".to_owned(), ReplayFormat::Har),
            ("{\"log\":{}}\n".to_owned(), ReplayFormat::Har),
            ("{ \"openapi\": \"3.0.0\",\n\"paths\": {} }".to_owned(), ReplayFormat::OpenApi),
            ("\n---\n# API\nopenapi: 3.0.0".to_owned(), ReplayFormat::OpenApi),
            ("info: {}\n\"openapi\": 3.0.0".to_owned(), ReplayFormat::OpenApi),
        ] {
            assert_eq!(format(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_known_format_says_what_it_is() {
        for (text, expected) in [
            ("<html>\x1b[2J", "line 1 is `<html>`; name the format"),
            ("---\nswagger: '2.0'", "OpenAPI 2 (Swagger)"),
            ("{\"swagger\":\"2.0\"}", "OpenAPI 2 (Swagger)"),
            ("{\n\"a\": 1\n}", "neither a HAR nor"),
            (
                "{\"level\":\"info\",\"msg\":\"x\"}\n{}",
                "the keys of the first line are `level`, `msg`",
            ),
            ("{\n\"log\": {", "it is not JSON: EOF while parsing an object at line 2"),
        ] {
            let error = format(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn files_that_are_no_text_are_refused() {
        for (content, expected) in [
            (&b""[..], "it is empty"),
            (b"\xef\xbb\xbf \n", "it is empty"),
            (b"\x1f\x8b\x08\x00", "use gunzip"),
            (b"\xff\xfe/\x00", "UTF-16"),
            (b"\x7fELF\x00", "byte 4 is zero"),
            (b"\xc3\x28\n\xff", "not text in UTF-8"),
        ] {
            let error = read_traffic(content, None, ReplayRules::default()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_given_format_counts_and_a_byte_order_mark_does_not() {
        let traffic = read_traffic(b"\xef\xbb\xbf/a\n", None, ReplayRules::default()).unwrap();
        assert_eq!(traffic.requests[0].path, "/a");
        let given = Some(ReplayFormat::AccessLog);
        let error = read_traffic(b"/a\n", given, ReplayRules::default()).unwrap_err();
        assert!(error.starts_with("the access log cannot be read: 1 of 1 requests"), "{error}");
    }
}
