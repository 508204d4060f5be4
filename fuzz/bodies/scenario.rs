//! What a scenario reads of a response, and its file of data, is read or refused without a panic and within its limits.
//!
//! The first line of an input is the selector, path or location; the rest is the body.

use carat_load::http::scenario::cookies::{CookieJar, CookieUrl};
use carat_load::http::scenario::css::CssSelector;
use carat_load::http::scenario::json_path::JsonPath;
use carat_load::http::scenario::location::Origin;
use carat_load::http::scenario::read_rows;

/// Panics if that does not hold.
pub(crate) fn check(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, body) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    if let Ok(selector) = CssSelector::parse(&line) {
        let text = selector.find(body, None);
        // A replaced byte becomes three.
        assert!(text.is_none_or(|text| text.len() <= 3 * body.len()));
        let _ = selector.find(body, Some("value"));
    }
    if let Ok(path) = JsonPath::parse(&line) {
        let _ = path.find(body);
    }
    let origin = Origin { tls: false, host: "app.test".to_owned() };
    if let Some(path) = origin.path_of(&line, "/a/b?c") {
        assert!(
            path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()),
            "{path}"
        );
    }
    let mut jar = CookieJar::default();
    let url = CookieUrl {
        host: line.as_bytes(),
        path: line.as_bytes(),
        secure: input.len().is_multiple_of(2),
    };
    if body.split(|byte| *byte == b'\n').all(|line| jar.store(line, &url, 0).is_ok()) {
        let mut header = Vec::new();
        jar.write(&url, 0, &mut header);
        assert!(header.len() < 20_000);
    }
    if let Ok(data) = read_rows(body) {
        assert!(data.is_rectangular());
    }
}
