//! `carat install`: the libraries where every user can read them, for the environment that `exec --print-env` prints.

use crate::cli::{Exit, output};
use crate::target::install::{install, remove};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.install/1";

#[derive(Debug, Args)]
#[command(after_help = "\
The libraries go to PREFIX/lib/carat/HASH, where HASH follows from their content, with folders of mode 0755 and files of \
mode 0644. Other versions stay, because servers may use them. `carat exec` itself needs no installation.

Examples:
  sudo carat install
  carat exec prepare_fork=full --print-env systemd -- puma -w 4
  sudo carat install --remove")]
pub(crate) struct InstallArgs {
    /// Folder below which to install, an absolute path
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Remove every installed version instead; a Ruby whose environment names one of them no longer starts
    #[arg(long)]
    remove: bool,
    /// Print the folder, its files and whether they are new, or the removed folders, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<Exit> {
    if args.remove {
        remove_all(args)?
    } else {
        install_one(args)?
    }
    Ok(Exit::Fine)
}

fn install_one(args: &InstallArgs) -> anyhow::Result<()> {
    let installed = install(&args.prefix)?;
    let libraries = &installed.libraries;
    if args.json {
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

fn remove_all(args: &InstallArgs) -> anyhow::Result<()> {
    let removed = remove(&args.prefix)?;
    if args.json {
        let removed: Vec<String> = removed.iter().map(|folder| text(folder)).collect();
        return print_json(&json!({ "schema": SCHEMA, "removed": removed }));
    }
    if removed.is_empty() {
        output::print_message(&format!("nothing is installed below {}", args.prefix.display()));
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
