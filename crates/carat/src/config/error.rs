//! What can be wrong with an experiment file, or with the file of a search.

use carat_model::nearest;
use std::path::{Path, PathBuf};

/// Why an experiment file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFileError {
    /// The file cannot be read.
    #[error(
        "cannot read the experiment file {path}: {source}; give the path of a TOML file; `carat workload unpack rails-hello` writes an example"
    )]
    Read {
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The text is not TOML, or has unknown or missing keys.
    #[error("{path}: {message}")]
    Syntax {
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// A value is out of range, unknown, or contradicts another.
    #[error("{path}: {message}")]
    Invalid {
        path: PathBuf,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// What to run instead of `own` where the tables are those of another command's file. `None` where they are those of both
/// or of none.
pub(super) fn other_command(tables: &toml::Table, own: &str, path: &Path) -> Option<String> {
    let has = |key| tables.contains_key(key);
    let (what, shown_by, command) = match (has("goal"), has("variant")) {
        (true, false) => ("a search", "[goal]", "tune"),
        (false, true) => ("an experiment", "[[variant]]", "compare"),
        _ => return None,
    };
    (command != own).then(|| {
        format!(
            "this is the file of {what}, because it has {shown_by}; run `carat {command} {}`",
            path.display()
        )
    })
}

/// Adds the nearest known key to the message of `toml` for an unknown one.
pub(super) fn explain_toml(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    let message = error.message();
    let Some(rest) = message.strip_prefix("unknown field `") else { return text.to_owned() };
    let Some((unknown, expected)) = rest.split_once('`') else { return text.to_owned() };
    // `toml` lists the known keys in backticks, so every second part is one.
    match nearest(unknown, expected.split('`').skip(1).step_by(2)) {
        Some(known) => format!("{text}\nhint: did you mean `{known}`?"),
        None => text.to_owned(),
    }
}
