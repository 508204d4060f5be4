//! A subset of CSS selectors: one element by its tag, id, classes and attributes.

use crate::http::scenario::html::{HtmlTag, TagReader, text_of};

/// A selector such as `input[name=token]`, `#main`, `a.next` or `meta[name="csrf-token"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CssSelector {
    tag: Option<String>,
    conditions: Vec<CssCondition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CssCondition {
    Has(String),
    Equals(String, String),
    Class(String),
}

impl CssSelector {
    /// # Errors
    /// If the text is not in the subset.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{text}` is not a selector that carat knows: write a tag, `#id`, `.class`, `[attribute]` or `[attribute=value]`, or several without a space between them"
            )
        };
        let trimmed = text.trim();
        // `*` selects any tag, as no tag does.
        let (tag, mut rest) = name(trimmed.strip_prefix('*').unwrap_or(trimmed));
        let mut selector =
            Self { tag: (!tag.is_empty()).then(|| tag.to_owned()), conditions: Vec::new() };
        while let Some(kind) = rest.chars().next() {
            let (condition, after) =
                condition(kind, &rest[kind.len_utf8()..]).ok_or_else(refused)?;
            selector.conditions.push(condition);
            rest = after;
        }
        let empty = trimmed.is_empty();
        if empty { Err(refused()) } else { Ok(selector) }
    }

    /// The attribute, or without one the text, of the first element that is selected and has it.
    // A closing tag has no attributes, so it is never the element.
    pub fn find(&self, page: &[u8], attribute: Option<&str>) -> Option<String> {
        let mut selected = TagReader::new(page, 0).filter(|tag| !tag.closes && self.selects(tag));
        match attribute {
            Some(name) => selected.find_map(|tag| tag.attribute(name)).map(String::from),
            None => selected.next().map(|tag| text_of(page, &tag)),
        }
    }

    fn selects(&self, tag: &HtmlTag<'_>) -> bool {
        let named = self.tag.as_ref();
        named.is_none_or(|name| tag.name.eq_ignore_ascii_case(name.as_bytes()))
            && self.conditions.iter().all(|condition| condition.holds(tag))
    }
}

impl CssCondition {
    fn holds(&self, tag: &HtmlTag<'_>) -> bool {
        match self {
            Self::Has(name) => tag.attribute(name).is_some(),
            Self::Equals(name, value) => tag.attribute(name).is_some_and(|own| own == *value),
            Self::Class(class) => tag
                .attribute("class")
                .is_some_and(|own| own.split_ascii_whitespace().any(|one| one == class)),
        }
    }
}

/// A name at the start of a text, perhaps empty, and the rest.
fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'));
    text.split_at(end.unwrap_or(text.len()))
}

/// A condition that begins with `kind`, and the rest.
fn condition(kind: char, text: &str) -> Option<(CssCondition, &str)> {
    let (named, rest) = name(text);
    if named.is_empty() {
        return None;
    }
    match kind {
        '#' => Some((CssCondition::Equals("id".to_owned(), named.to_owned()), rest)),
        '.' => Some((CssCondition::Class(named.to_owned()), rest)),
        '[' => {
            if let Some(after) = rest.strip_prefix(']') {
                return Some((CssCondition::Has(named.to_owned()), after));
            }
            let value = rest.strip_prefix('=')?;
            let (value, after) = match value.chars().next()? {
                quote @ ('"' | '\'') => {
                    let (value, after) = value[1..].split_once(quote)?;
                    (value, after.strip_prefix(']')?)
                }
                _ => value.split_once(']').filter(|(value, _)| !value.is_empty())?,
            };
            Some((CssCondition::Equals(named.to_owned(), value.to_owned()), after))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html><head><meta name=csrf-token content='m+1='></head>\
        <form id=f class='a  b'><input type=hidden name=\"user[x]\" value=no>\
        <input name='token' value=\"t&amp;1\"></form><p class=b>text</p></html>";

    #[test]
    fn a_selector_finds_the_first_element_that_has_everything() {
        for (selector, attribute, expected) in [
            ("input[name=token]", Some("value"), Some("t&1")),
            ("meta[name=\"csrf-token\"]", Some("content"), Some("m+1=")),
            ("[name='user[x]']", Some("value"), Some("no")),
            ("input", Some("name"), Some("user[x]")),
            ("#f.a.b", Some("id"), Some("f")),
            (".b", None, Some("")),
            ("p.b", None, Some("text")),
            ("*[content]", Some("name"), Some("csrf-token")),
            ("INPUT[name=token]", Some("VALUE"), Some("t&1")),
            ("input[name=none]", Some("value"), None),
            ("input", Some("none"), None),
        ] {
            let found = CssSelector::parse(selector).unwrap().find(PAGE.as_bytes(), attribute);
            assert_eq!(found.as_deref(), expected, "{selector}");
        }
    }

    #[test]
    fn other_selectors_are_refused() {
        for text in
            ["", " ", "form input", "a > b", "a:first-child", "[a^=b]", "[a=", "#", "a,b", "[a=]"]
        {
            let error = CssSelector::parse(text).unwrap_err();
            assert!(error.contains("is not a selector that carat knows"), "{text}: {error}");
        }
    }
}
