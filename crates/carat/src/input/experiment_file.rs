//! The experiment file whose trials are in a results file, which has the text of its plan but not the path.

use crate::config::Experiment;
use carat_model::ExperimentInfo;
use std::fs;
use std::path::{Path, PathBuf};

/// The most files of a folder that are compared with a plan.
const MOST_FILES: usize = 100;

/// A file and the settings of the command line that make its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentSource {
    pub path: PathBuf,
    /// By name and value, as for `--set`.
    pub settings: Vec<(String, String)>,
}

/// The file with exactly the plan of the results, beside them or in the working directory; `None` where there is none.
pub fn experiment_of(results: &Path, info: &ExperimentInfo) -> Option<ExperimentSource> {
    let mut folders = vec![results.parent().unwrap_or(Path::new("")), Path::new("")];
    let mut choices = vec![Vec::new(), added_settings(&info.plan_text)];
    // Mostly both are the same, and need not be read twice.
    folders.dedup();
    choices.dedup();
    folders.into_iter().flat_map(toml_files).find_map(|path| {
        let settings = choices.iter().find(|settings| has_plan(&path, settings, info))?.clone();
        Some(ExperimentSource { path, settings })
    })
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(listed).into_iter().flatten().flatten();
    let paths = entries.map(|entry| folder.join(entry.file_name()));
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let mut files: Vec<PathBuf> =
        paths.filter(|path| is_toml(path) && path.is_file()).take(MOST_FILES).collect();
    files.sort();
    files
}

fn has_plan(path: &Path, settings: &[(String, String)], info: &ExperimentInfo) -> bool {
    let read = Experiment::read_with(path, settings, None);
    read.is_ok_and(|experiment| experiment.hash() == info.plan_hash)
}

/// The settings of the server at the place where the command line's are added.
fn added_settings(plan: &str) -> Vec<(String, String)> {
    let lines = plan.lines().skip_while(|line| !matches!(line.trim(), "[server]" | "[run]"));
    let pairs = lines.skip(1).map_while(|line| {
        let (name, value) = line.strip_prefix("settings.")?.split_once(" = ")?;
        let value = value.parse::<toml::Value>().ok()?;
        Some((name.to_owned(), value.as_str()?.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_command_line_are_found_in_the_plan() {
        let plan = "name = \"a\"\n[server]\nsettings.arena_max = \"2\"\nsettings.root = \"a \\\"b\\\"\"\ncommand = [\"puma\"]\n";
        let found = [("arena_max", "2"), ("root", "a \"b\"")];
        assert_eq!(added_settings(plan), found.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(added_settings("[server]\ncommand = [\"a\"]\n"), []);
    }
}
