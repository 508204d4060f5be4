//! `docs/wire.md` lists every word at its place, with its meaning.
//!
//! `UPDATE_DOCS=1 cargo test -p carat-wire --test docs` rewrites the tables.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use carat_wire::page::{AllocatorKind, Arena, Gc, Malloc, Own, Pool, Runtime, Word};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const START: &str = "<!-- words: generated -->\n";
const END: &str = "<!-- end of words -->";

fn add_table<W: Word>(text: &mut String, title: &str) {
    writeln!(text, "\n### {title}\n\n| word | meaning |\n|---|---|").unwrap();
    for word in W::ALL {
        writeln!(text, "| {} `{}` | {} |", word.index(), word.name(), word.meaning()).unwrap();
    }
}

fn tables() -> String {
    let mut text = String::new();
    add_table::<Gc>(&mut text, "`gc`");
    add_table::<Malloc>(&mut text, "`malloc`");
    add_table::<Own>(&mut text, "`own`");
    add_table::<Runtime>(&mut text, "`runtime`");
    add_table::<Pool>(&mut text, "Size pools");
    add_table::<Arena>(&mut text, "Arenas");
    add_table::<AllocatorKind>(&mut text, "Allocators");
    text + "\n"
}

#[test]
fn the_word_tables_in_the_docs_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire.md");
    let docs = fs::read_to_string(&path).unwrap();
    let (before, rest) = docs.split_once(START).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, [before, START, &tables(), END, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, tables(), "run with UPDATE_DOCS=1 to renew docs/wire.md");
}
