//! The generated parts of `docs/`. `UPDATE_DOCS=1 bin/test docs::` renews them.

use carat_model::{METRICS, Unit};
use carat_ruby::RubyVersion;
use carat_ruby::version::{FACTS, GC_STAT_KEYS, VERSIONS, heap_layout};
use carat_wire::page::{Allocations, AllocatorKind, Arena, Gc, Malloc, Own, Pool, Runtime, Word};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

/// Compares a page with its current text; with `UPDATE_DOCS`, writes it first.
fn check(page: &str, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path(page), text).unwrap();
    }
    let found = fs::read_to_string(path(page)).unwrap();
    assert!(found == text, "docs/{page} is stale: UPDATE_DOCS=1 bin/test docs:: renews it");
}

/// The same for the part of a page between the marks of that name.
fn check_part(page: &str, name: &str, part: &str) {
    let (start, end) = (format!("<!-- {name}: generated -->\n"), format!("<!-- end of {name} -->"));
    let found = fs::read_to_string(path(page)).unwrap();
    let (before, rest) = found.split_once(&start).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    check(page, &[before, &start, part, &end, after].concat());
}

#[test]
fn the_settings_page_is_the_catalogue() {
    check("reference/settings.md", &carat_settings::manual());
}

#[test]
fn the_table_of_metrics_is_the_registry() {
    check_part("reference/experiment.md", "metrics", &metrics_table());
}

#[test]
fn the_table_of_commands_is_that_of_the_help() {
    check_part("reference/commands.md", "commands", &commands_table());
}

#[test]
fn the_tables_of_ruby_versions_are_those_of_the_code() {
    check_part("explanation/memory.md", "Ruby versions", &ruby_versions());
}

#[test]
fn the_words_of_the_shared_page_are_those_of_the_code() {
    check_part("reference/wire.md", "words", &page_words());
}

fn metrics_table() -> String {
    let mut table = String::from("| metric | unit | meaning |\n|---|---|---|\n");
    for metric in METRICS {
        let unit = match metric.unit {
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::PerSecond => "per second",
            Unit::Fraction => "share",
            Unit::Ratio => "multiple",
            Unit::Count => "count",
        };
        table += &format!("| `{}` | {unit} | {} |\n", metric.id, metric.what);
    }
    table
}

/// Name and purpose of the commands of a help text, whose lines may be wrapped.
fn commands_of(arguments: &[&str]) -> Vec<(String, String)> {
    let help = Command::new(env!("CARGO_BIN_EXE_carat")).args(arguments).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let mut found: Vec<(String, String)> = Vec::new();
    for line in rest.lines().take_while(|line| !line.is_empty()) {
        match (line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')), found.last_mut()) {
            (Some(rest), _) => {
                let (name, what) = rest.split_once(' ').unwrap();
                found.push((name.into(), what.trim().into()));
            }
            (None, Some((_, what))) => *what += &format!(" {}", line.trim()),
            (None, None) => {}
        }
    }
    found.retain(|(name, _)| name != "help");
    found
}

fn commands_table() -> String {
    let mut table = String::from("| command | does |\n|---|---|\n");
    for (name, what) in commands_of(&["--help"]) {
        table += &format!("| `carat {name}` | {what} |\n");
        for (part, what) in commands_of(&[&name, "--help"]) {
            table += &format!("| `carat {name} {part}` | {what} |\n");
        }
    }
    table
}

/// Settings that name files and variables of one system, and the set of settings.
const NOT_TRIED: [&str; 4] = ["ruby", "root", "env", "profile"];

#[test]
fn the_page_of_compatibility_names_known_settings_and_says_when_and_on_what_it_was_made() {
    let page = fs::read_to_string(path("evidence/compatibility.md")).unwrap();
    let catalogue = carat_settings::manual();
    let headings = catalogue.lines().filter_map(|line| line.strip_prefix("## `"));
    let known: BTreeSet<&str> = headings
        .map(|name| name.trim_end_matches('`'))
        .filter(|name| !NOT_TRIED.contains(name))
        .collect();
    let (_, table) = page.split_once("rows compatibility Settings -->").unwrap();
    let (table, _) = table.split_once("<!-- end of figures -->").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let tried: BTreeSet<&str> = rows.map(|row| row.split('=').next().unwrap()).collect();
    let unknown: Vec<_> = tried.difference(&known).collect();
    assert!(!tried.is_empty() && unknown.is_empty(), "{unknown:?}");
    for marker in ["run date", "machine processor", "machine kernel"] {
        assert!(page.contains(&format!("<!-- = compatibility {marker} -->")), "{marker}");
    }
}

fn version_row(name: &str, cell: impl Fn(RubyVersion) -> String) -> String {
    let cells: Vec<String> = VERSIONS.into_iter().map(cell).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

fn ruby_versions() -> String {
    let mut text = version_row("", |version| version.to_string());
    text += &format!("|---|{}\n", "---|".repeat(VERSIONS.len()));
    for (name, range) in FACTS {
        text +=
            &version_row(name, |version| if range.contains(version) { "yes" } else { "" }.into());
    }
    text += &version_row("heap page, KiB", |version| {
        heap_layout(version).map_or(String::new(), |layout| (layout.page_bytes >> 10).to_string())
    });
    text += &version_row("slot sizes, bytes", |version| {
        let sizes = heap_layout(version).map_or(&[][..], |layout| layout.slot_bytes);
        sizes.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
    });
    text += "\n| key of `GC.stat` | word of the shared page | Ruby versions |\n|---|---|---|\n";
    for key in GC_STAT_KEYS {
        let name = key.name.to_str().unwrap();
        text += &format!("| `{name}` | `{}` | {} |\n", key.word.name(), key.versions);
    }
    format!("\n{text}\n")
}

fn add_words<W: Word>(text: &mut String, title: &str) {
    writeln!(text, "\n### {title}\n\n| word | meaning |\n|---|---|").unwrap();
    for word in W::ALL {
        writeln!(text, "| {} `{}` | {} |", word.index(), word.name(), word.meaning()).unwrap();
    }
}

fn page_words() -> String {
    let mut text = String::new();
    add_words::<Gc>(&mut text, "`gc`");
    add_words::<Malloc>(&mut text, "`malloc`");
    add_words::<Own>(&mut text, "`own`");
    add_words::<Runtime>(&mut text, "`runtime`");
    add_words::<Allocations>(&mut text, "`allocations`");
    add_words::<Pool>(&mut text, "Size pools");
    add_words::<Arena>(&mut text, "Arenas");
    add_words::<AllocatorKind>(&mut text, "Allocators");
    text + "\n"
}
