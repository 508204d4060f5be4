//! What can be wrong with an experiment file, said so that it can be mended.

use crate::settings::catalogue::nearest_word;
use std::path::PathBuf;

/// Why an experiment file cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error(
        "cannot read the experiment file {path}: {source}; give the path of a TOML file, for example workloads/rails-hello/carat.toml"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not TOML, or not an experiment.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// The text is an experiment that makes no sense.
    #[error("{path}: {message}")]
    Meaning {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// Adds the nearest known key to the message that `toml` gives for an unknown one.
pub(crate) fn explain_toml(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    let message = error.message();
    let Some(rest) = message.strip_prefix("unknown field `") else { return text.to_owned() };
    let Some((unknown, expected)) = rest.split_once('`') else { return text.to_owned() };
    match nearest_word(unknown, expected.split('`').skip(1).step_by(2)) {
        Some(known) => format!("{text}\nhint: did you mean `{known}`?"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_named_and_a_far_one_is_not() {
        let known = ["requests", "connections", "path"];
        assert_eq!(nearest_word("request", known), Some("requests"));
        assert_eq!(nearest_word("conections", known), Some("connections"));
        assert_eq!(nearest_word("zebra", known), None);
    }
}
