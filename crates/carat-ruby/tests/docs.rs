//! `docs/memory.md` shows the version table.
//!
//! `UPDATE_DOCS=1 cargo test -p carat-ruby --test docs` rewrites it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use carat_ruby::RubyVersion;
use carat_ruby::version::{FACTS, GC_STAT_KEYS, VERSIONS, heap_layout};
use carat_wire::page::Word;
use std::fs;
use std::path::Path;

const START: &str = "<!-- Ruby versions: generated -->\n";
const END: &str = "<!-- end of Ruby versions -->";

fn row(name: &str, cell: impl Fn(RubyVersion) -> String) -> String {
    let cells: Vec<String> = VERSIONS.into_iter().map(cell).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

fn tables() -> String {
    let mut text = row("", |version| version.to_string());
    text += &format!("|---|{}\n", "---|".repeat(VERSIONS.len()));
    for (name, range) in FACTS {
        text += &row(name, |version| if range.contains(version) { "yes" } else { "" }.into());
    }
    text += &row("heap page, KiB", |version| {
        heap_layout(version).map_or(String::new(), |layout| (layout.page_bytes >> 10).to_string())
    });
    text += &row("slot sizes, bytes", |version| {
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

#[test]
fn the_version_table_in_the_docs_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory.md");
    let docs = fs::read_to_string(&path).unwrap();
    let (before, rest) = docs.split_once(START).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, [before, START, &tables(), END, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, tables(), "run with UPDATE_DOCS=1 to renew docs/memory.md");
}
