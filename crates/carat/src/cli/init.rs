//! `carat init`: an experiment file for the app in a folder.

use crate::cli::Exit;
use crate::work::write_app_experiment;
use std::path::PathBuf;

/// Arguments of `carat init`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "It reads Gemfile.lock, Procfile, config.ru, the Dockerfile and files of config (Puma, Unicorn, Sidekiq, routes, \
    database.yml, the production environment), and starts nothing.\n\nExamples:\n  carat init\n  carat compare carat.toml"
)]
pub(crate) struct InitArgs {
    /// Folder of the app
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// File to write; an existing one is never overwritten [default: carat.toml in the folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<Exit> {
    write_app_experiment(&args.folder, args.output.as_deref())?;
    Ok(Exit::Fine)
}
