//! Texts whose values are filled in for every request.

use crate::http::scenario::encoding::{Encoding, encode};
use carat_model::{TextPart, text_parts, unknown_placeholder};

/// A text with places for values, ready to be written many times.
#[derive(Debug, Default)]
pub(super) struct Template(Vec<TemplatePiece>);

#[derive(Debug)]
enum TemplatePiece {
    Text(Vec<u8>),
    Value(ValueSource, Encoding),
}

/// Where a value comes from when a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueSource {
    User,
    Column(usize),
    Taken(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct UserValues<'a> {
    /// From 1 on.
    pub(super) number: u64,
    pub(super) row: &'a [String],
    pub(super) taken: &'a [String],
}

/// The placeholders that a text can have.
#[derive(Clone, Copy)]
pub(super) struct KnownNames<'a> {
    pub(super) columns: &'a [String],
    /// Values that earlier steps took.
    pub(super) taken: &'a [String],
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
}

impl Template {
    /// # Errors
    /// If a placeholder is unknown, or a variable of the environment is not set.
    pub(super) fn compile(
        text: &str,
        encoding: Encoding,
        names: &KnownNames<'_>,
    ) -> Result<Self, String> {
        let mut template = Self::default();
        template.push(text, encoding, names)?;
        Ok(template)
    }

    /// A text without placeholders.
    pub(super) fn fixed(text: &str) -> Self {
        Self(vec![TemplatePiece::Text(text.as_bytes().to_vec())])
    }

    /// A path; values in its query are encoded like those of a form.
    pub(super) fn path(text: &str, names: &KnownNames<'_>) -> Result<Self, String> {
        // In the query a space is `+` and `&` separates, in the path neither is so.
        let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
        let mut template = Self::default();
        for (part, values) in [(path, Encoding::Path), (query, Encoding::Form)] {
            template.push_parts(part, (Encoding::Path, values), names)?;
        }
        Ok(template)
    }

    /// Appends a text whose literal parts stay as they are.
    pub(super) fn push(
        &mut self,
        text: &str,
        encoding: Encoding,
        names: &KnownNames<'_>,
    ) -> Result<(), String> {
        self.push_parts(text, (Encoding::Plain, encoding), names)
    }

    /// Appends a text; the encodings are those of its literal parts and of its values.
    pub(super) fn push_parts(
        &mut self,
        text: &str,
        (literals, values): (Encoding, Encoding),
        names: &KnownNames<'_>,
    ) -> Result<(), String> {
        for part in text_parts(text) {
            match part {
                TextPart::Literal(literal) => encode(literal, literals, self.end()),
                TextPart::Placeholder(name) => match names.source(name)? {
                    NameMeaning::Fixed(value) => encode(&value, values, self.end()),
                    NameMeaning::PerUser(source) => {
                        self.0.push(TemplatePiece::Value(source, values));
                    }
                },
            }
        }
        Ok(())
    }

    /// The bytes to append to.
    fn end(&mut self) -> &mut Vec<u8> {
        // Text is appended to the piece before, so that a request is few copies.
        if !matches!(self.0.last(), Some(TemplatePiece::Text(_))) {
            self.0.push(TemplatePiece::Text(Vec::new()));
        }
        match self.0.last_mut() {
            Some(TemplatePiece::Text(text)) => text,
            _ => unreachable!("a text was just appended"),
        }
    }

    /// Appends the text with a user's values.
    pub(super) fn render(&self, values: &UserValues<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => out.extend_from_slice(text),
                TemplatePiece::Value(ValueSource::User, encoding) => {
                    encode(&values.number.to_string(), *encoding, out);
                }
                TemplatePiece::Value(ValueSource::Column(column), encoding) => {
                    encode(&values.row[*column], *encoding, out);
                }
                TemplatePiece::Value(ValueSource::Taken(slot), encoding) => {
                    encode(&values.taken[*slot], *encoding, out);
                }
            }
        }
    }
}

enum NameMeaning {
    Fixed(String),
    PerUser(ValueSource),
}

impl KnownNames<'_> {
    fn source(&self, name: &str) -> Result<NameMeaning, String> {
        if name == "user" {
            return Ok(NameMeaning::PerUser(ValueSource::User));
        }
        if let Some(variable) = name.strip_prefix("env.") {
            return environment_value(variable, self.environment).map(NameMeaning::Fixed);
        }
        let taken = self.taken.iter().position(|taken| taken == name).map(ValueSource::Taken);
        let column = self.columns.iter().position(|column| column == name);
        taken.or(column.map(ValueSource::Column)).map(NameMeaning::PerUser).ok_or_else(|| {
            let own = self.columns.iter().chain(self.taken).map(String::as_str);
            unknown_placeholder(name, ["user", "env.NAME"].into_iter().chain(own))
        })
    }
}

/// The value of a variable of the environment.
///
/// # Errors
/// If it is not set.
pub(super) fn environment_value(
    variable: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    environment(variable).ok_or_else(|| {
        format!("the environment variable `{variable}` is not set: export it before carat starts")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "KEY").then(|| "{user} k".to_owned())
    }

    fn rendered(text: &str, encoding: Encoding) -> Result<String, String> {
        let columns = ["name".to_owned()];
        let taken = ["token".to_owned()];
        let names = KnownNames { columns: &columns, taken: &taken, environment: &environment };
        let template = match encoding {
            Encoding::Path => Template::path(text, &names)?,
            _ => Template::compile(text, encoding, &names)?,
        };
        let (row, taken) = (["Ann B".to_owned()], ["t/&".to_owned()]);
        let mut out = Vec::new();
        template.render(&UserValues { number: 7, row: &row, taken: &taken }, &mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_filled_in_and_never_expanded_again() {
        for (text, encoding, expected) in [
            ("u{user} {name} {token} {env.KEY}", Encoding::Plain, "u7 Ann B t/& {user} k"),
            ("{\"a\": \"{token}\"}", Encoding::Json, "{\"a\": \"t/&\"}"),
            ("/a b/{token}?q={token}&r={name}", Encoding::Path, "/a%20b/t/&?q=t%2F%26&r=Ann+B"),
        ] {
            assert_eq!(rendered(text, encoding).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_filled_in_is_an_error() {
        assert_eq!(
            rendered("{tokn}", Encoding::Plain).unwrap_err(),
            "unknown placeholder {tokn} (did you mean {token}?); known here: {user}, {env.NAME}, {name}, {token}"
        );
        let error = rendered("{env.NOT_SET}", Encoding::Plain).unwrap_err();
        assert!(error.contains("`NOT_SET` is not set"), "{error}");
    }
}
