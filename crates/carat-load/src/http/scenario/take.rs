//! Values taken from a response.

use crate::http::scenario::css::CssSelector;
use crate::http::scenario::json_path::JsonPath;
use carat_model::load::TakeFrom;
use regex::bytes::Regex;

/// Longest value in bytes.
const VALUE_MAX: usize = 64 * 1024;

/// Finds one value in a response.
#[derive(Debug)]
pub(super) enum ValueFinder {
    Css { selector: CssSelector, attribute: Option<String>, text: String },
    Regex(Box<Regex>),
    Json(JsonPath, String),
    Header(String),
}

impl ValueFinder {
    /// # Errors
    /// If the selector, the expression or the path is malformed.
    pub(super) fn compile(from: &TakeFrom) -> Result<Self, String> {
        match from {
            TakeFrom::Css { selector, attribute } => Ok(Self::Css {
                selector: CssSelector::parse(selector)?,
                attribute: attribute.clone(),
                text: selector.clone(),
            }),
            TakeFrom::Regex(text) => {
                let refused = |error| format!("`{text}` is not a regular expression: {error}");
                Ok(Self::Regex(Box::new(Regex::new(text).map_err(refused)?)))
            }
            TakeFrom::Json(text) => Ok(Self::Json(JsonPath::parse(text)?, text.clone())),
            TakeFrom::Header(name) => Ok(Self::Header(name.clone())),
        }
    }

    /// Whether the value is in the body.
    pub(super) fn needs_body(&self) -> bool {
        !matches!(self, Self::Header(_))
    }

    /// The value.
    ///
    /// # Errors
    /// What was not found.
    pub(super) fn find(&self, head: &[u8], body: &[u8]) -> Result<String, String> {
        let found = match self {
            Self::Css { selector, attribute, .. } => selector.find(body, attribute.as_deref()),
            Self::Regex(regex) => regex.captures(body).and_then(|found| {
                // The first group if there is one, so that the context is not part of the value.
                let matched = found.get(1).or_else(|| found.get(0))?;
                Some(String::from_utf8_lossy(matched.as_bytes()).into_owned())
            }),
            Self::Json(path, _) => path.find(body),
            Self::Header(name) => {
                header(head, name).next().map(|value| String::from_utf8_lossy(value).into_owned())
            }
        };
        match found {
            Some(value) if value.len() <= VALUE_MAX => Ok(value),
            Some(value) => Err(format!("a value of {} bytes, more than 64 KiB", value.len())),
            None => Err(self.missing()),
        }
    }

    fn missing(&self) -> String {
        match self {
            Self::Css { attribute: Some(attribute), text, .. } => {
                format!("no element `{text}` with the attribute `{attribute}`")
            }
            Self::Css { text, .. } => format!("no element `{text}`"),
            Self::Regex(regex) => format!("no match of `{regex}`"),
            Self::Json(_, text) => format!("no value at `{text}`"),
            Self::Header(name) => format!("no header `{name}`"),
        }
    }
}

/// Every value of a header, in the order of the response.
pub(super) fn header<'a>(head: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    // The first line is the status.
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(move |line| {
        let (own, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        own.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie:b=2\r\nX-Long: x\r\n";

    fn found(from: &TakeFrom, body: &str) -> Result<String, String> {
        ValueFinder::compile(from).unwrap().find(HEAD, body.as_bytes())
    }

    #[test]
    fn a_value_is_found_or_the_message_says_what_is_missing() {
        let css = |attribute: Option<&str>| TakeFrom::Css {
            selector: "p".to_owned(),
            attribute: attribute.map(str::to_owned),
        };
        let long = "y".repeat(VALUE_MAX + 1);
        for (from, body, expected) in [
            (css(None), "<p>x</p>", Ok("x")),
            (css(None), "<b>", Err("no element `p`")),
            (css(Some("id")), "<p>", Err("no element `p` with the attribute `id`")),
            (TakeFrom::Regex("n=(\\d+)".into()), "n=42;", Ok("42")),
            (TakeFrom::Regex("y+".into()), "xyyz", Ok("yy")),
            (TakeFrom::Regex("z".into()), "x", Err("no match of `z`")),
            (
                TakeFrom::Regex("y+".into()),
                long.as_str(),
                Err("a value of 65537 bytes, more than 64 KiB"),
            ),
            (TakeFrom::Json("$.a".into()), "{\"a\":1}", Ok("1")),
            (TakeFrom::Json("$.b".into()), "{\"a\":1}", Err("no value at `$.b`")),
            (TakeFrom::Header("x-long".into()), "", Ok("x")),
            (TakeFrom::Header("X-Lon".into()), "", Err("no header `X-Lon`")),
        ] {
            let found = found(&from, body);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{from:?}");
        }
        assert_eq!(header(HEAD, "Set-Cookie").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
    }

    #[test]
    fn what_cannot_be_compiled_is_refused_with_a_reason() {
        for (from, expected) in [
            (TakeFrom::Regex("(".into()), "is not a regular expression"),
            (TakeFrom::Json("a".into()), "not a path into JSON"),
            (TakeFrom::Css { selector: "a b".into(), attribute: None }, "not a selector"),
        ] {
            let error = ValueFinder::compile(&from).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
