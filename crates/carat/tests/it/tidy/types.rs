//! A type name means one thing in the workspace; long functions are not hidden in closures.

use crate::tidy::{code_without_tests, files, root};
use std::collections::BTreeMap;
use std::fs;

/// Maximum number of closures bound by `let`, per 1,000 lines.
const CLOSURES: f64 = 1.5;

/// Sources of all crates by their path below `crates`, without integration tests and examples.
fn sources() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let all = files(&crates, ".rs").into_iter();
    all.map(|file| (file.strip_prefix(&crates).unwrap().to_owned(), file.clone()))
        .filter(|(name, _)| !name.iter().any(|part| part == "tests" || part == "examples"))
        .map(|(name, file)| (name.display().to_string(), fs::read_to_string(file).unwrap()))
        .map(|(name, text)| (name, code_without_tests(&text)))
        .collect()
}

/// The type that a line defines, if it defines one.
fn defined_type(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = code.strip_prefix("pub").map_or(code, |rest| {
        let rest = rest.strip_prefix('(').map_or(rest, |r| r.split_once(')').map_or(r, |(_, r)| r));
        rest.trim_start()
    });
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let (keyword, rest) = code.split_once(' ')?;
    // An indented `type` is that of a trait.
    let defines = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (defines && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

#[test]
fn a_type_name_is_defined_once_in_the_workspace() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources() {
        for name in text.lines().filter_map(defined_type) {
            places.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "defined more than once: {places:#?}");
}

#[test]
fn a_type_is_found_however_it_is_declared() {
    for (line, expected) in [
        ("pub struct Bytes(u64);", Some("Bytes")),
        ("    pub(crate) enum Kind<T> {", Some("Kind")),
        ("pub(in crate::a) unsafe trait Reader {", Some("Reader")),
        ("type Table = Vec<Row>;", Some("Table")),
        ("    type Item = Row;", None),
        ("// struct Old;", None),
        ("let structure = Bytes(1);", None),
    ] {
        assert_eq!(defined_type(line), expected, "{line}");
    }
}

/// Whether a line binds a closure: `let name = |…|`.
fn binds_closure(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("let ") else { return false };
    let Some((name, value)) = rest.split_once('=') else { return false };
    let value = value.trim_start();
    !name.contains(['(', '{']) && value.strip_prefix("move ").unwrap_or(value).starts_with('|')
}

#[test]
fn few_closures_are_bound_to_a_name() {
    let all = sources();
    let lines: usize = all.iter().map(|(_, text)| text.lines().count()).sum();
    let bound = all
        .iter()
        .map(|(file, text)| (text.lines().filter(|line| binds_closure(line)).count(), file));
    let mut bound: Vec<_> = bound.filter(|(count, _)| *count > 0).collect();
    bound.sort_by(|one, other| other.cmp(one));
    let count: usize = bound.iter().map(|(count, _)| count).sum();
    let share = count as f64 * 1000.0 / lines as f64;
    assert!(share <= CLOSURES, "{count} in {lines} lines, {share:.1} per 1,000: {bound:#?}");
}
