//! Secrets in URLs, from the environment.

use carat_model::{TextPart, text_parts};

/// The text with `{env.NAME}` replaced by the variable's value.
pub(crate) fn from_environment(text: &str) -> Result<String, String> {
    let mut filled = String::new();
    for part in text_parts(text) {
        match part {
            TextPart::Literal(literal) => filled.push_str(literal),
            TextPart::Placeholder(name) => {
                let name = name.strip_prefix("env.").ok_or_else(|| {
                    format!("unknown placeholder {{{name}}} in a URL: user and password can be {{env.NAME}}")
                })?;
                // The generator is a child of carat, so its environment is the one that carat was started with.
                let value = std::env::var(name);
                filled.push_str(&value.map_err(|_| {
                    format!(
                        "a URL needs the variable `{name}` of the environment, which is not set"
                    )
                })?);
            }
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_can_come_from_the_environment_and_nothing_else() {
        assert_eq!(from_environment("a:b").unwrap(), "a:b");
        assert_eq!(from_environment("{env.PATH}").unwrap(), std::env::var("PATH").unwrap());
        let error = from_environment("{env.NO_SUCH_VARIABLE_HERE}").unwrap_err();
        assert!(error.contains("`NO_SUCH_VARIABLE_HERE` of the environment, which is not set"));
        assert!(from_environment("{password}").unwrap_err().contains("unknown placeholder"));
    }
}
