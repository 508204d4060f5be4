//! The tags of an HTML page, read without a tree: enough to find an element, and fast enough for every response.

use memchr::{memchr, memmem};
use std::borrow::Cow;

/// Elements whose content has no tags.
const RAW: [&[u8]; 4] = [b"script", b"style", b"textarea", b"title"];

#[derive(Debug, Clone, Copy)]
pub(super) struct HtmlTag<'a> {
    pub(super) name: &'a [u8],
    pub(super) closes: bool,
    attributes: &'a [u8],
    /// Where it begins in the page.
    pub(super) start: usize,
    /// Where the text after it begins.
    pub(super) end: usize,
}

/// Reads a page's tags in their order.
#[derive(Debug)]
pub(super) struct TagReader<'a> {
    page: &'a [u8],
    at: usize,
}

impl<'a> TagReader<'a> {
    pub(super) fn new(page: &'a [u8], at: usize) -> Self {
        Self { page, at }
    }
}

impl<'a> Iterator for TagReader<'a> {
    type Item = HtmlTag<'a>;

    fn next(&mut self) -> Option<HtmlTag<'a>> {
        loop {
            let start = self.at + memchr(b'<', self.page.get(self.at..)?)?;
            let rest = &self.page[start + 1..];
            // A comment may contain tags, and they are none.
            if rest.starts_with(b"!--") {
                self.at = start + 4 + memmem::find(&rest[3..], b"-->")? + 3;
                continue;
            }
            let closes = rest.first() == Some(&b'/');
            let inside = &rest[usize::from(closes)..];
            // A `<` that no letter follows is text (HTML, 13.2.5.6).
            if !inside.first().is_some_and(u8::is_ascii_alphabetic) {
                self.at = start + 1;
                continue;
            }
            let length = tag_length(inside)?;
            let inside = &inside[..length];
            let name_end =
                inside.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/');
            let (name, attributes) = inside.split_at(name_end.unwrap_or(length));
            let end = start + 1 + usize::from(closes) + length + 1;
            self.at = end;
            // Inside a script `<` is code, so the reading goes on at its end tag.
            if !closes && RAW.iter().any(|raw| name.eq_ignore_ascii_case(raw)) {
                // Without an end tag the rest of the page is inside.
                self.at = end + closing(&self.page[end..], name).unwrap_or(self.page.len() - end);
            }
            return Some(HtmlTag { name, closes, attributes, start, end });
        }
    }
}

/// Bytes until the `>` that ends a tag; one inside a quoted value does not.
fn tag_length(inside: &[u8]) -> Option<usize> {
    let (mut quote, mut after_equals) = (None, false);
    for (at, byte) in inside.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == *byte => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return Some(at),
            // Only a value may be quoted; an apostrophe elsewhere is part of a name.
            (None, b'"' | b'\'') if after_equals => quote = Some(*byte),
            (None, _) => {}
        }
        after_equals = *byte == b'=' || (after_equals && byte.is_ascii_whitespace());
    }
    None
}

/// Where the end tag of an element without tags inside begins.
fn closing(text: &[u8], name: &[u8]) -> Option<usize> {
    memmem::find_iter(text, b"</").find(|at| {
        text.get(at + 2..at + 2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
    })
}

impl<'a> HtmlTag<'a> {
    /// The value of an attribute, empty if it has none; `None` if the tag does not have the attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.attributes;
        while let Some((own, value, after)) = next_attribute(rest) {
            if own.eq_ignore_ascii_case(name.as_bytes()) {
                return Some(decoded(value));
            }
            rest = after;
        }
        None
    }
}

/// The next attribute's name and value, and what follows.
fn next_attribute(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'/')?;
    let text = &text[begin..];
    // A name has at least one byte, so that a stray `=` does not stop the reading.
    let length = text[1..].iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'=' | b'/'));
    let (name, rest) = text.split_at(length.map_or(text.len(), |length| length + 1));
    let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else {
        return Some((name, b"", rest));
    };
    let value = value.trim_ascii_start();
    let (value, rest) = match value.first() {
        Some(quote @ (b'"' | b'\'')) => {
            // A value without its closing quote ends with the tag.
            let end = memchr(*quote, &value[1..]).map_or(value.len(), |at| at + 1);
            (&value[1..end], value.get(end + 1..).unwrap_or_default())
        }
        _ => {
            let end = value.iter().position(u8::is_ascii_whitespace);
            value.split_at(end.unwrap_or(value.len()))
        }
    };
    Some((name, value, rest))
}

/// The text of an element, without the tags inside and without spaces around it.
pub(super) fn text_of(page: &[u8], tag: &HtmlTag<'_>) -> String {
    let (mut text, mut depth, mut from) = (Vec::new(), 1, tag.end);
    for inner in TagReader::new(page, tag.end) {
        text.extend_from_slice(&page[from..inner.start]);
        from = inner.end;
        // Elements of the same name may be nested, and the first end tag is then not ours.
        if inner.name.eq_ignore_ascii_case(tag.name) {
            depth += if inner.closes { -1 } else { 1 };
        }
        if depth == 0 {
            break;
        }
    }
    decoded(text.trim_ascii()).into_owned()
}

/// Text with its character references replaced; only the common ones are known.
fn decoded(raw: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(raw);
    // Most texts have no reference and are not copied.
    if memchr(b'&', raw).is_none() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest known reference has ten characters; anything else is a plain `&`.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((end, character(&rest[1..end])?))) {
            Some((end, c)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(page: &str) -> Vec<String> {
        let all = TagReader::new(page.as_bytes(), 0);
        all.map(|tag| {
            let name = String::from_utf8_lossy(tag.name);
            format!("{}{name}", if tag.closes { "/" } else { "" })
        })
        .collect()
    }

    #[test]
    fn tags_are_found_between_comments_scripts_and_quotes() {
        for (page, expected) in [
            ("a < b <p>x</p>", &["p", "/p"][..]),
            ("<!-- <i> --><b/>", &["b"]),
            ("<script>if (a<b) '<i>'</script><b>", &["script", "/script", "b"]),
            ("<a title='x > y' href=\"/\"><br>", &["a", "br"]),
            ("<a title=don't><br>", &["a", "br"]),
            ("<!DOCTYPE html><html", &[]),
            ("<!-- open", &[]),
            ("<script><b>", &["script"]),
        ] {
            assert_eq!(tags(page), expected, "{page}");
        }
    }

    #[test]
    fn attributes_are_read_with_and_without_quotes() {
        let page = b"<input A=1 b = 'x y' c=\"&lt;&#39;&#x41;&unknown;&\" checked /d==e>";
        let tag = TagReader::new(page, 0).next().unwrap();
        for (name, expected) in [
            ("a", Some("1")),
            ("b", Some("x y")),
            ("c", Some("<'A&unknown;&")),
            ("checked", Some("")),
            ("d", Some("=e")),
            ("none", None),
        ] {
            assert_eq!(tag.attribute(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_text_of_an_element_has_no_tags() {
        for (page, expected) in [
            ("<p> a <b>b</b> &amp; c </p>d", "a b & c"),
            ("<div>a<div>b</div>c</div>d", "abc"),
            ("<title>a &lt; b</title>", "a < b"),
            ("<p>never closed", ""),
        ] {
            let tag = TagReader::new(page.as_bytes(), 0).next().unwrap();
            assert_eq!(text_of(page.as_bytes(), &tag), expected, "{page}");
        }
    }
}
