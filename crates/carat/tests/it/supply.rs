//! What enters the dependency tree: the part of `cargo deny check` that needs neither the tool nor the network.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where every foreign crate comes from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every crate that is built on Linux, Carat's own included.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let ran = command.current_dir(root()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let metadata: Value = serde_json::from_slice(&ran.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Licences that `deny.toml` lets in.
fn allowed() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let list = table["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Whether a licence expression (SPDX, and the older `A/B`) can be met with what is allowed.
fn may_enter(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let parts = |text: &str, separator: &str| -> Vec<String> {
        // Parentheses never nest in an expression of a crate.
        let mut depth = 0;
        let flat = text.chars().map(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth > 0 && c == ' ' { '\u{a0}' } else { c }
        });
        let flat: String = flat.collect();
        flat.split(separator).map(|part| part.replace('\u{a0}', " ")).collect()
    };
    let text = expression.replace('/', " OR ");
    parts(&text, " OR ").iter().any(|way| {
        parts(way, " AND ").iter().all(|part| match part.trim().strip_prefix('(') {
            Some(inner) => may_enter(inner.trim_end_matches(')'), allowed),
            None => allowed.contains(part.trim()),
        })
    })
}

#[test]
fn a_licence_expression_is_met_by_one_way_of_it() {
    let allowed: BTreeSet<String> = ["MIT", "Unicode-3.0"].map(str::to_owned).into();
    for (expression, enters) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("Apache-2.0 OR MIT", true),
        ("Apache-2.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("GPL-3.0 OR (MIT AND Unicode-3.0)", true),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(may_enter(expression, &allowed), enters, "{expression}");
    }
}

#[test]
fn every_crate_has_a_licence_that_may_enter_and_comes_from_the_registry() {
    let allowed = allowed();
    for package in packages() {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(may_enter(licence, &allowed), "{name}: `{licence}` does not stand in deny.toml");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source == REGISTRY), "{name} comes from {source:?}");
    }
}
