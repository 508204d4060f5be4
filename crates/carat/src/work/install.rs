//! Carat's libraries where every user can read them: put there and removed, and what is said of it.

use crate::target::install::{install, remove};
use crate::view::output;
use serde_json::{Value, json};
use std::path::Path;

/// Name and version of the JSON that is printed.
const SCHEMA: &str = "carat.install/1";

/// Installs the libraries below a folder, and prints where they are.
///
/// # Errors
/// Where they cannot be installed.
pub(crate) fn install_libraries(prefix: &Path, as_json: bool) -> anyhow::Result<()> {
    let installed = install(prefix)?;
    let libraries = &installed.libraries;
    if as_json {
        return print_json(&json!({
            "schema": SCHEMA,
            "directory": text(&libraries.directory),
            "shim": text(&libraries.shim),
            "probe": text(&libraries.probe),
            "runtime": text(&libraries.runtime),
            "new": installed.is_new,
        }));
    }
    output::print_data(&format!("{}\n", libraries.directory.display()))?;
    let done = if installed.is_new { "installed" } else { "installed already" };
    output::print_message(&format!(
        "{done}; `carat exec SETTINGS --print-env systemd -- COMMAND` prints the environment that loads them"
    ));
    Ok(())
}

/// Removes every installed version below a folder, and prints which.
///
/// # Errors
/// Where one cannot be removed.
pub(crate) fn remove_libraries(prefix: &Path, as_json: bool) -> anyhow::Result<()> {
    let removed = remove(prefix)?;
    if as_json {
        let removed: Vec<String> = removed.iter().map(|folder| text(folder)).collect();
        return print_json(&json!({ "schema": SCHEMA, "removed": removed }));
    }
    if removed.is_empty() {
        output::print_message(&format!("nothing is installed below {}", prefix.display()));
    }
    for folder in removed {
        output::print_data(&format!("removed {}\n", folder.display()))?;
    }
    Ok(())
}

/// A path as JSON can have it.
fn text(path: &Path) -> String {
    path.display().to_string()
}

fn print_json(answer: &Value) -> anyhow::Result<()> {
    output::print_data(&(serde_json::to_string_pretty(answer)? + "\n"))?;
    Ok(())
}
