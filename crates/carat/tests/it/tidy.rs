//! The repository checks itself: sizes, imports, the changelog.

mod circles;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of a file in lines, tests included.
const LINES: usize = 700;
/// Maximum length of the command line as a whole, its unit tests left out: arguments and printing alone need no more.
const COMMAND_LINE: usize = 2_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file below `folder` whose name has this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The code of a file: comments and its unit tests left out.
fn code_without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.fold(String::new(), |code, line| code + line + "\n")
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let long: Vec<String> = files(&root().join("crates"), ".rs")
        .into_iter()
        .filter_map(|file| {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            (lines > LINES).then(|| format!("{}: {lines} lines", file.display()))
        })
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_command_line_has_arguments_and_printing_alone() {
    let folder = root().join("crates/carat/src/cli");
    let texts = files(&folder, ".rs").into_iter().map(|file| fs::read_to_string(file).unwrap());
    let lines: usize = texts.map(|text| code_without_tests(&text).lines().count()).sum();
    assert!(lines <= COMMAND_LINE, "{lines} lines in crates/carat/src/cli; move the doing to work");
}

#[test]
fn no_import_climbs_twice_or_imports_everything() {
    let wrong: Vec<String> = files(&root().join("crates"), ".rs")
        .into_iter()
        .filter(|file| !file.ends_with("tidy.rs"))
        .flat_map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let lines: Vec<String> = text
                .lines()
                .filter(|line| line.contains("super::super") || line.trim_end().ends_with("::*;"))
                .filter(|line| {
                    !["use super::*;", "use proptest::prelude::*;"].contains(&line.trim())
                })
                .map(|line| format!("{}: {line}", file.display()))
                .collect();
            lines
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_changelog_names_the_version() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.contains(&format!("## {version}")), "no `## {version}` in CHANGELOG.md");
}

#[test]
fn every_environment_variable_that_carat_uses_is_in_the_one_list() {
    let list = fs::read_to_string(root().join("crates/carat-wire/src/env.rs")).unwrap();
    // Variables of the build and of the tests, which users never set.
    let elsewhere = ["CARAT_EMBEDDED_", "CARAT_TEST_", "CARAT_REQUIRE_"];
    let mut missing = BTreeSet::new();
    let crates = root().join("crates");
    for file in files(&crates, ".rs").into_iter().chain(files(&crates, ".rb")) {
        let text = fs::read_to_string(&file).unwrap();
        for place in text.match_indices("\"CARAT_").map(|(place, _)| place + 1) {
            let name: String =
                text[place..].chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            // The bare prefix is no variable.
            let known = name == "CARAT_" || list.contains(&format!("\"{name}\""));
            if !known && !elsewhere.iter().any(|start| name.starts_with(start)) {
                missing.insert(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_bundled_experiment_can_be_read_and_its_settings_exist() {
    let folders = ["workloads", "bench"];
    let all = folders.iter().flat_map(|folder| files(&root().join(folder), ".toml"));
    let mut read = 0;
    for file in all {
        if !fs::read_to_string(&file).unwrap().contains("[[variant]]") {
            continue;
        }
        read += 1;
        // Reading also validates the settings of every variant.
        carat::config::Experiment::read(&file).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(read >= 15, "only {read} experiment files were found");
}

#[test]
fn every_bundled_search_can_be_read() {
    let all = files(&root().join("workloads"), ".toml").into_iter();
    let searches: Vec<PathBuf> =
        all.filter(|file| fs::read_to_string(file).unwrap().contains("[goal]")).collect();
    for file in &searches {
        carat::config::TuneSpec::read_with(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(searches.len() >= 3, "only {searches:?} were found");
}

/// The keys that a table of an experiment file can have, from the error message for an unknown one.
fn keys(table: &str) -> Vec<String> {
    let text = format!("{table}\nno_such_key = 1\n");
    let (path, folder) = (Path::new("x.toml"), Path::new("."));
    let refused = carat::config::Experiment::parse(&text, path, folder).unwrap_err().to_string();
    let listed = refused.split_once("expected").map_or("", |(_, listed)| listed);
    let listed = listed.lines().next().unwrap_or_default();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_experiment_page_names_every_key() {
    let page = fs::read_to_string(root().join("docs/reference/experiment.md")).unwrap();
    let tables = [
        "[server]",
        "[run]",
        "[prepare]",
        "[cleanup]",
        "[services.x]",
        "[load.http]",
        "[load.cable]",
        "[load.command]",
        "[measure]",
        "[trials]",
    ];
    for table in tables {
        let keys = keys(table);
        assert!(keys.len() >= 3, "{table}: {keys:?}");
        for key in keys {
            assert!(
                page.contains(&format!("`{key}`")),
                "{table} {key} is not in docs/reference/experiment.md"
            );
        }
    }
}
