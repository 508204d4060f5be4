//! `carat install`: the libraries where every user can read them, for the environment that `exec --print-env` prints.

use crate::cli::Exit;
use crate::work::{install_libraries, remove_libraries};
use clap::Args;
use std::path::PathBuf;

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
    /// Install or remove as well, and print the folder, its files and whether they are new, or the removed folders, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<Exit> {
    match args.remove {
        true => remove_libraries(&args.prefix, args.json)?,
        false => install_libraries(&args.prefix, args.json)?,
    }
    Ok(Exit::Fine)
}
