//! Settings that the command line adds to a file, for every variant.

use crate::config::ExperimentFileError;
use crate::config::text_file::read_text_file;
use std::fmt::Write;
use std::path::Path;

/// The text of a file with settings for every variant.
///
/// # Errors
/// Where the file cannot be read, or where there is no place for the settings, or others stand there.
pub(super) fn text_with(
    path: &Path,
    settings: &[(String, String)],
) -> Result<String, ExperimentFileError> {
    let text = read_text_file(path)
        .map_err(|source| ExperimentFileError::Read { path: path.to_owned(), source })?;
    let refused = |message: String| ExperimentFileError::Invalid { path: path.to_owned(), message };
    let added = with_settings(&text, settings).ok_or_else(|| {
        refused("there is no line `[server]` or `[run]` to add settings to".into())
    })?;
    // Before it is used, because the error would be of a line that nobody has written.
    match added.parse::<toml::Table>().is_err() && has_settings(&text) {
        true => Err(refused(beside_others(settings))),
        false => Ok(added),
    }
}

/// Whether a file has settings for every variant itself.
fn has_settings(text: &str) -> bool {
    let tables: toml::Table = text.parse().unwrap_or_default();
    ["server", "run"]
        .iter()
        .any(|name| tables.get(*name).and_then(|own| own.get("settings")).is_some())
}

fn beside_others(settings: &[(String, String)]) -> String {
    let names: Vec<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "--set {} cannot be added, because the file has `settings` for every variant: write it there",
        names.join(", ")
    )
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

    #[test]
    fn settings_beside_those_of_the_file_are_refused_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let added = [("root".to_owned(), "/x".to_owned())];
        let text_beside = |line: &str| {
            std::fs::write(&path, format!("{FILE}{line}\n")).unwrap();
            text_with(&path, &added)
        };
        for own in ["settings = { yjit = \"on\" }", "settings.root = \"/y\""] {
            let error = text_beside(own).unwrap_err().to_string();
            assert!(
                error.contains("--set root cannot be added") && !error.contains("line"),
                "{error}"
            );
        }
        assert!(text_beside("settings.yjit = \"on\"").unwrap().contains("settings.root = \"/x\""));
        // What is wrong with the file itself, or with a name, is said by its own line.
        assert!(text_beside("command = [").is_ok());
        std::fs::write(&path, FILE).unwrap();
        assert!(text_with(&path, &[("a b".to_owned(), "1".to_owned())]).is_ok());
    }
}
