//! What can be wrong with an experiment file, said so that it can be mended.

use crate::core::nearest;
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
    match nearest(unknown, expected.split('`').skip(1).step_by(2)) {
        Some(known) => format!("{text}\nhint: did you mean `{known}`?"),
        None => text.to_owned(),
    }
}
