//! Settings that the command line adds to a file, for every variant.

use crate::config::ExperimentFileError;
use crate::config::text_file::read_text_file;
use std::fmt::Write;
use std::path::Path;

/// The text of a file with settings for every variant.
///
/// # Errors
/// Where the file cannot be read, or where there is no place for the settings.
pub(super) fn text_with(
    path: &Path,
    settings: &[(String, String)],
) -> Result<String, ExperimentFileError> {
    let text = read_text_file(path)
        .map_err(|source| ExperimentFileError::Read { path: path.to_owned(), source })?;
    with_settings(&text, settings).ok_or_else(|| ExperimentFileError::Invalid {
        path: path.to_owned(),
        message: "there is no line `[server]` or `[run]` to add settings to".into(),
    })
}

/// The text with settings for every variant; `None` where it has no line `[server]` or `[run]`. The results file keeps this text,
/// so the settings are part of the plan.
fn with_settings(text: &str, settings: &[(String, String)]) -> Option<String> {
    if settings.is_empty() {
        return Some(text.to_owned());
    }
    let mut out = String::new();
    let mut found = false;
    for line in text.lines() {
        out.push_str(line);
        out.push('\n');
        if !found && matches!(line.trim(), "[server]" | "[run]") {
            found = true;
            for (name, value) in settings {
                // As a TOML string, so that quotes in a value cannot end it.
                let value = toml::Value::String(value.clone());
                let _ = writeln!(out, "settings.{name} = {value}");
            }
        }
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"a\"\n\n[server]\ncommand = [\"puma\"]\n";

    #[test]
    fn settings_are_added_to_the_text_of_the_server() {
        let added = [("root".to_owned(), "{roots}/trixie".to_owned())];
        let text = with_settings(FILE, &added).unwrap();
        assert!(text.contains("[server]\nsettings.root = \"{roots}/trixie\"\n"), "{text}");
        assert_eq!(with_settings(FILE, &[]).as_deref(), Some(FILE));
        assert_eq!(with_settings("server = {}", &added), None);
    }
}
