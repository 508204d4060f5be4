//! `carat install`: the libraries where every user can read them, for the environment that `exec --print-env` prints.

use crate::cli::{Exit, output};
use crate::target::install::{install, remove};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
The libraries go to PREFIX/lib/carat/HASH, where HASH follows from their content, with folders of mode 0755 and files of
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
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<Exit> {
    if args.remove {
        let removed = remove(&args.prefix)?;
        if removed.is_empty() {
            output::print_message(&format!("nothing is installed below {}", args.prefix.display()));
        }
        for folder in removed {
            output::print_data(&format!("removed {}\n", folder.display()))?;
        }
        return Ok(Exit::Fine);
    }
    let installed = install(&args.prefix)?;
    output::print_data(&format!("{}\n", installed.libraries.directory.display()))?;
    let done = if installed.is_new { "installed" } else { "installed already" };
    output::print_message(&format!(
        "{done}; `carat exec SETTINGS --print-env systemd -- COMMAND` prints the environment that loads them"
    ));
    Ok(Exit::Fine)
}
