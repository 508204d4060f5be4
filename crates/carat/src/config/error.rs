//! What can be wrong with an experiment file, or with the file of a search.

use carat_model::nearest;
use std::path::{Path, PathBuf};

/// Why an experiment file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFileError {
    /// The file cannot be read.
    #[error(
        "cannot read the experiment file {path}: {source}; give the path of a TOML file; `carat init` writes one for the app in this folder, `carat workload unpack rails-hello` an example"
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
    let (what, shown_by, command, otherwise) = match (has("goal"), has("variant")) {
        (true, false) => ("a search", "[goal]", "tune", ""),
        (false, true) => {
            let otherwise = "; a search has [goal] instead of [[variant]] and [trials]";
            ("an experiment", "[[variant]]", "compare", otherwise)
        }
        (false, false) => return settings_file(tables, path),
        _ => return None,
    };
    (command != own).then(|| {
        format!(
            "this is the file of {what}, because it has {shown_by}; run `carat {command} {}`{otherwise}",
            path.display()
        )
    })
}

/// What to run with a file that `carat exec` reads; `None` for any other.
fn settings_file(tables: &toml::Table, path: &Path) -> Option<String> {
    let shown_by = tables.keys().find(|key| matches!(key.as_str(), "profile" | "settings"))?;
    let path = path.display();
    Some(format!(
        "these are settings for `carat exec`, because it has `{shown_by}`, and no experiment; `carat exec --config {path} -- COMMAND` \
         runs a server with them, and `carat init` writes an experiment"
    ))
}

/// Types as `serde` names them, and as a person does.
const TYPES: [(&str, &str); 6] = [
    ("expected a sequence", "expected a list, as [\"a\", \"b\"]"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected u64", "expected a whole number that is not negative"),
    ("expected usize", "expected a whole number that is not negative"),
    ("expected f64", "expected a number"),
];

/// The message in words of the file's author: the types of a programming language are left out.
fn plain(text: &str) -> String {
    // Wider than the numbers of TOML: too large, whatever was expected.
    let wide = [" as i128, expected ", " as u128, expected "];
    if let Some((number, _)) = wide.iter().find_map(|wide| text.split_once(wide)) {
        return format!("{number} is out of range");
    }
    TYPES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Adds the nearest known key to the message of `toml` for an unknown one.
pub(super) fn explain_toml(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    let message = error.message();
    if message.starts_with("invalid ") {
        // The line that is quoted keeps its words.
        return text.replace(message, &plain(message));
    }
    let Some(rest) = message.strip_prefix("unknown field `") else { return text.to_owned() };
    let Some((unknown, expected)) = rest.split_once('`') else { return text.to_owned() };
    // `toml` lists the known keys in backticks, so every second part is one.
    let known = || expected.split('`').skip(1).step_by(2);
    // Written beside `name` and `profile`, where one would look for it.
    if carat_settings::find_setting(unknown).is_some() && known().any(|key| key == "settings") {
        return format!("{text}\nhint: it is a setting: settings = {{ {unknown} = … }}");
    }
    match nearest(unknown, known()) {
        Some(known) => format!("{text}\nhint: did you mean `{known}`?"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_wrong_number_is_explained_without_the_types_of_a_language() {
        let explain = |text: &str| {
            [
                explain_toml(&toml::from_str::<BTreeMap<String, u64>>(text).unwrap_err()),
                explain_toml(&toml::from_str::<BTreeMap<String, u32>>(text).unwrap_err()),
            ]
        };
        for text in ["large = -1", "large = 'many'"] {
            let [error, small] = explain(text);
            assert!(error.contains("a whole number that is not negative"), "{text}: {error}");
            assert!(small.contains("a whole number from 0 to 4294967295"), "{text}: {small}");
            let error = error + &small;
            for word in ["u64", "u32", "i128"] {
                assert!(!error.contains(word), "{text}: {error}");
            }
        }
    }

    #[test]
    fn a_number_beyond_all_types_is_out_of_range_and_a_list_is_shown() {
        let error =
            toml::from_str::<BTreeMap<String, u64>>("n = 99999999999999999999").unwrap_err();
        let error = explain_toml(&error);
        assert!(error.contains("`99999999999999999999` is out of range"), "{error}");
        let error = toml::from_str::<BTreeMap<String, Vec<String>>>("c = 'bundle exec puma'");
        let error = explain_toml(&error.unwrap_err());
        assert!(error.contains("expected a list, as [\"a\", \"b\"]"), "{error}");
    }

    #[test]
    fn a_file_of_settings_is_named_with_the_command_that_reads_it() {
        let tables: toml::Table = "profile = 'prefork'".parse().unwrap();
        let message = other_command(&tables, "compare", Path::new("carat.toml")).unwrap();
        assert!(message.contains("`carat exec --config carat.toml -- COMMAND`"), "{message}");
        assert_eq!(other_command(&toml::Table::new(), "compare", Path::new("carat.toml")), None);
    }
}
