//! The page's documentation names every word at its place.

use carat_wire::page::{AllocatorKind, Arena, Gc, Malloc, Own, Pool, Runtime, Word};
use std::path::Path;

fn missing<W: Word>(docs: &str) -> Vec<String> {
    let rows = W::ALL.iter().map(|word| format!("| {} `{}` |", word.index(), word.name()));
    rows.filter(|row| !docs.contains(row.as_str())).collect()
}

#[test]
fn every_word_stands_in_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let missing = [
        missing::<Gc>(&docs),
        missing::<Malloc>(&docs),
        missing::<Own>(&docs),
        missing::<Runtime>(&docs),
        missing::<Pool>(&docs),
        missing::<Arena>(&docs),
        missing::<AllocatorKind>(&docs),
    ];
    assert_eq!(missing.concat(), Vec::<String>::new());
}
