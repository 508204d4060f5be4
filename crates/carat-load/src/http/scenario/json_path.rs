//! Paths into JSON: `$.items[0].id`.

use serde_json::Value;

/// A path of keys and indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<JsonKey>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum JsonKey {
    Name(String),
    Index(usize),
}

impl JsonPath {
    /// # Errors
    /// If the text is not a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`{text}` is not a path into JSON: write for example `$.items[0].id`");
        let mut rest = text.strip_prefix('$').ok_or_else(refused)?;
        let mut keys = Vec::new();
        while !rest.is_empty() {
            let (key, after) = next_key(rest).ok_or_else(refused)?;
            keys.push(key);
            rest = after;
        }
        Ok(Self(keys))
    }

    /// The text, number or truth value at the path; `None` if there is nothing, null, a list or an object.
    pub fn find(&self, body: &[u8]) -> Option<String> {
        let whole: Value = serde_json::from_slice(body).ok()?;
        let found = self.0.iter().try_fold(&whole, |value, key| match key {
            JsonKey::Name(name) => value.get(name),
            JsonKey::Index(index) => value.get(index),
        })?;
        match found {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(found.to_string()),
            // There is no single way to write these into a request.
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

fn next_key(text: &str) -> Option<(JsonKey, &str)> {
    if let Some(after) = text.strip_prefix('.') {
        let end = after.find(['.', '[']).unwrap_or(after.len());
        let (name, rest) = after.split_at(end);
        return (!name.is_empty()).then(|| (JsonKey::Name(name.to_owned()), rest));
    }
    let inside = text.strip_prefix('[')?;
    if let Some(quote @ ('"' | '\'')) = inside.chars().next() {
        let (name, rest) = inside[1..].split_once(quote)?;
        return Some((JsonKey::Name(name.to_owned()), rest.strip_prefix(']')?));
    }
    let (index, rest) = inside.split_once(']')?;
    Some((JsonKey::Index(index.parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_texts_and_numbers() {
        let body = br#"{"a": {"b": [{"c": "x"}, 7]}, "d.e": true, "n": null}"#;
        for (path, expected) in [
            ("$.a.b[0].c", Some("x")),
            ("$.a.b[1]", Some("7")),
            ("$['d.e']", Some("true")),
            ("$[\"a\"].b[2]", None),
            ("$.n", None),
            ("$.a", None),
            ("$", None),
        ] {
            let found = JsonPath::parse(path).unwrap().find(body);
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        assert_eq!(JsonPath::parse("$.a").unwrap().find(b"no json"), None);
    }

    #[test]
    fn text_that_is_not_a_path_is_refused() {
        for text in ["", "a.b", "$a", "$.", "$..a", "$[", "$[x]", "$['a", "$['a'", "$[-1]"] {
            assert!(JsonPath::parse(text).unwrap_err().contains("not a path into JSON"), "{text}");
        }
    }
}
