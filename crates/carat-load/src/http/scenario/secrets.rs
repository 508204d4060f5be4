//! Values of variables of the environment and recorded credentials, which no message and no file may have.

use crate::http::scenario::encoding::{Encoding, encode};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest bytes of a value that are hidden where a text was cut off in its middle; fewer can be any word.
const BEGINNING: usize = 3;

/// Stands for a value that has no name.
const HIDDEN: &str = "[hidden]";

/// Collects the variables that a load uses, and other values that are not shown.
#[derive(Debug, Default)]
pub struct UsedVariables {
    named: RefCell<BTreeMap<String, String>>,
    hidden: RefCell<BTreeSet<String>>,
}

impl UsedVariables {
    /// Remembers a variable that is set, and returns its value.
    pub fn used(&self, name: &str, value: Option<String>) -> Option<String> {
        let value = value?;
        self.named.borrow_mut().insert(name.to_owned(), value.clone());
        Some(value)
    }

    /// Remembers a value that is no variable's.
    pub fn hide(&self, value: &str) {
        // Checked first: a HAR repeats the same cookie in every request.
        if !self.hidden.borrow().contains(value) {
            self.hidden.borrow_mut().insert(value.to_owned());
        }
    }

    /// Values that must not be printed, with the placeholder that is printed instead.
    pub fn secrets(&self) -> SecretValues {
        let mut forms = Vec::new();
        for (name, value) in self.named.borrow().iter() {
            let shown = format!("{{env.{name}}}");
            forms.extend(written_forms(value).into_iter().map(|form| (shown.clone(), form)));
        }
        for value in self.hidden.borrow().iter() {
            let shown = HIDDEN.to_owned();
            forms.extend(written_forms(value).into_iter().map(|form| (shown.clone(), form)));
        }
        // The longest first, so that no part of one stays.
        forms.sort_by_key(|(_, form)| Reverse(form.len()));
        SecretValues(forms)
    }
}

/// What is shown instead of values, each with a form in which a request or a page may have one.
#[derive(Debug, Default)]
pub struct SecretValues(Vec<(String, String)>);

impl SecretValues {
    /// A text from the server with the names of the variables instead of their values, and without other secrets.
    pub fn masked(&self, text: String) -> String {
        let whole = self.0.iter().fold(text, |text, (shown, form)| {
            // Most texts have no secret, and `replace` would copy each of them for every form.
            let found = text.contains(form.as_str());
            if found { text.replace(form.as_str(), shown) } else { text }
        });
        self.cut_masked(&whole).unwrap_or(whole)
    }

    /// The text without a value that begins where the text was cut off.
    fn cut_masked(&self, text: &str) -> Option<String> {
        // A cut text may end in the first part of a secret, which no whole form matches.
        let (kept, rest) = text.split_at(text.rfind('…')?);
        let kept = kept.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let (shown, length) = self.0.iter().find_map(|(shown, form)| {
            // The longest beginning first, so that nothing of it stays.
            let mut lengths = (BEGINNING..form.len()).rev();
            let length = lengths
                .find(|end| form.get(..*end).is_some_and(|beginning| kept.ends_with(beginning)))?;
            Some((shown, length))
        })?;
        Some(format!("{}{shown}{rest}", &kept[..kept.len() - length]))
    }
}

/// A value as it is, as the parts of a request and a page of HTML write it, and on one line; none if it is empty.
fn written_forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    // A server may echo a value in any of the forms in which it was sent or shown.
    for encoding in [Encoding::Header, Encoding::Path, Encoding::Form, Encoding::Json] {
        let mut out = Vec::new();
        encode(value, encoding, &mut out);
        forms.extend(String::from_utf8(out).ok());
    }
    let html = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    forms.insert(html.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to)));
    forms.insert(value.split_whitespace().collect::<Vec<_>>().join(" "));
    // An empty form would be found between any two characters.
    forms.remove("");
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> SecretValues {
        let used = UsedVariables::default();
        for (name, value) in values {
            used.used(name, Some((*value).to_owned()));
        }
        used.secrets()
    }

    #[test]
    fn the_values_of_variables_are_not_shown_in_any_form() {
        let secrets =
            secrets(&[("KEY", "s3c&r t\""), ("LONG", "s3c&r t\" and more"), ("NONE", "")]);
        for (text, expected) in [
            ("a s3c&r t\" b", "a {env.KEY} b"),
            ("q=s3c%26r+t%22", "q={env.KEY}"),
            ("/s3c&r%20t%22/", "/{env.KEY}/"),
            (r#"{"key":"s3c&r t\""}"#, r#"{"key":"{env.KEY}"}"#),
            ("<p>s3c&amp;r t&quot;</p>", "<p>{env.KEY}</p>"),
            ("s3c&r t\" and more", "{env.LONG}"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(secrets.masked(text.to_owned()), expected);
        }
    }

    #[test]
    fn a_value_without_a_name_is_hidden() {
        let used = UsedVariables::default();
        ["id=s3cret", "s3cret", "s3cret"].iter().for_each(|value| used.hide(value));
        let secrets = used.secrets();
        let text = "id=s3cret, token=s3cret, cut off: s3cr…".to_owned();
        assert_eq!(secrets.masked(text), "[hidden], token=[hidden], cut off: [hidden]…");
    }

    #[test]
    fn a_value_that_is_cut_off_is_not_shown_either() {
        let secrets = secrets(&[("KEY", "s3cret-value"), ("SHORT", "ab")]);
        for (text, expected) in [
            ("the key is s3cret-v…", "the key is {env.KEY}…"),
            ("the body begins `s3c…`", "the body begins `{env.KEY}…`"),
            ("the key is s3…", "the key is s3…"),
            ("s3cret- is not cut off", "s3cret- is not cut off"),
        ] {
            assert_eq!(secrets.masked(text.to_owned()), expected);
        }
    }
}
