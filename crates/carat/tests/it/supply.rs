//! Licences and sources of the dependencies: the part of `cargo deny check` that needs neither the tool nor the network.

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The source of every crate that is not Carat's own.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every crate of a build on Linux, Carat's own included.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let ran = command.current_dir(root()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let metadata: Value = serde_json::from_slice(&ran.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Licences that `deny.toml` allows.
fn allowed() -> Vec<Licensee> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let list = table["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|one| Licensee::parse(one.as_str().unwrap()).unwrap()).collect()
}

/// Whether one choice of a licence expression is allowed; the older `A/B` for `A OR B` is accepted.
fn is_allowed(expression: &str, allowed: &[Licensee]) -> bool {
    Expression::parse_mode(expression, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|needed| allowed.iter().any(|licensee| licensee.satisfies(needed)))
    })
}

#[test]
fn a_licence_expression_is_allowed_if_one_choice_of_it_is() {
    let allowed = ["MIT", "Unicode-3.0"].map(|name| Licensee::parse(name).unwrap());
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("Apache-2.0 OR MIT", true),
        ("Apache-2.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("GPL-3.0 OR (MIT AND Unicode-3.0)", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("MIT WITH LLVM-exception", false),
        ("", false),
        ("Nonsense", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_crate_has_an_allowed_licence_and_comes_from_the_registry() {
    let allowed = allowed();
    for package in packages() {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_allowed(licence, &allowed), "{name}: deny.toml does not allow `{licence}`");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source == REGISTRY), "{name} comes from {source:?}");
    }
}
