//! The placeholders of an experiment file: `{port}`, `{services.redis.port}`, `{dir}`.

use carat_model::{TextPart, text_parts, unknown_placeholder};
use std::collections::BTreeMap;

/// Values of placeholders by name.
pub type Placeholders = BTreeMap<String, String>;

/// Replaces every placeholder in `text`; an unknown one is an error that lists the known ones.
pub fn fill(text: &str, known: &Placeholders) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    for part in text_parts(text) {
        filled.push_str(match part {
            TextPart::Literal(literal) => literal,
            TextPart::Placeholder(name) => known
                .get(name)
                .ok_or_else(|| unknown_placeholder(name, known.keys().map(String::as_str)))?,
        });
    }
    Ok(filled)
}

/// The same, but placeholders of the environment stay: only the process that needs a secret reads it.
pub fn fill_address(text: &str, known: &Placeholders) -> Result<String, String> {
    let mut known = known.clone();
    for part in text_parts(text) {
        if let TextPart::Placeholder(name) = part
            && name.starts_with("env.")
        {
            // Filled in by its own name, so that it stays as it is.
            known.insert(name.to_owned(), format!("{{{name}}}"));
        }
    }
    fill(text, &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders() -> Placeholders {
        [("port", "4000"), ("services.redis.port", "4001")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_occur() {
        assert_eq!(
            fill("-p {port}:{services.redis.port}.", &placeholders()).unwrap(),
            "-p 4000:4001."
        );
    }

    #[test]
    fn an_address_keeps_its_placeholders_of_the_environment() {
        let url = "redis://:{env.PASSWORD}@h:{services.redis.port}/2";
        let filled = fill_address(url, &placeholders()).unwrap();
        assert_eq!(filled, "redis://:{env.PASSWORD}@h:4001/2");
        assert!(fill_address("redis://{prot}", &placeholders()).is_err());
    }

    #[test]
    fn other_braces_stay_as_they_are() {
        for text in ["[1].each { |x| p x }", "{\"a\": 1}", "{", "}", "{}", "a { b"] {
            assert_eq!(fill(text, &placeholders()).unwrap(), text);
        }
    }

    #[test]
    fn an_unknown_placeholder_names_the_known_ones() {
        let message = fill("{prot}", &placeholders()).unwrap_err();
        assert_eq!(
            message,
            "unknown placeholder {prot} (did you mean {port}?); known here: {port}, {services.redis.port}"
        );
    }
}
