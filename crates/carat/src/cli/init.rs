//! `carat init`: an experiment file for the app in a folder.

use crate::cli::{Exit, output};
use crate::input::{AppFolder, app_experiment};
use anyhow::{Context, bail};
use carat_files::write_new;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Arguments of `carat init`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "It reads Gemfile.lock, Procfile, config.ru, config/puma.rb, config/routes.rb, sidekiq.yml and the Dockerfile, \
    and starts nothing.\n\nExamples:\n  carat init\n  carat compare carat.toml"
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
    let app = AppFolder::look(&args.folder)?;
    let path = args.output.clone().unwrap_or_else(|| args.folder.join("carat.toml"));
    let (text, unknown) = app_experiment(&app, other_folder(&args.folder, &path).as_deref());
    let shown = path.strip_prefix("./").unwrap_or(&path).display().to_string();
    match write_new(&path, text.as_bytes()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!(
                "{shown} is there already and is not overwritten; move it away, or name another file with -o"
            )
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    }
    output::print_message(&format!("wrote {shown}; nothing was started"));
    for one in &unknown {
        output::print_message(&format!("not known: {one}"));
    }
    output::print_message(&format!("\nnext  carat compare {shown}"));
    Ok(Exit::Fine)
}

/// The app's folder, if the experiment file will not lie there: a server starts in the folder of its file by default.
fn other_folder(app: &Path, file: &Path) -> Option<PathBuf> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let real = |folder: &Path| folder.canonicalize().ok();
    let folder = real(app)?;
    (real(parent.unwrap_or_else(|| Path::new("."))).as_ref() != Some(&folder)).then_some(folder)
}
