//! `carat workload`: the bundled workloads.

use crate::cli::{Exit, output};
use crate::config::Experiment;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `carat workload`
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    #[command(subcommand)]
    command: WorkloadCommand,
    /// Folder of the workloads
    #[arg(long, env = "CARAT_WORKLOADS", default_value = "workloads", global = true)]
    folder: PathBuf,
}

#[derive(Debug, Subcommand)]
enum WorkloadCommand {
    /// Name every workload and what it compares
    List,
    /// Print a workload's README and experiment file
    Show {
        /// Name of the workload
        name: String,
    },
}

pub(crate) fn run(args: &WorkloadArgs) -> anyhow::Result<Exit> {
    let text = match &args.command {
        WorkloadCommand::List => list(&args.folder)?,
        WorkloadCommand::Show { name } => show(&args.folder, name)?,
    };
    output::print_data(&text)?;
    Ok(Exit::Fine)
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| {
        let folder = folder.display();
        format!("there are no workloads in {folder}; run in carat's own folder, or give --folder")
    })?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("carat.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn list(folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for name in names(folder)? {
        let path = folder.join(&name).join("carat.toml");
        let summary = match Experiment::read(&path) {
            Ok(experiment) => {
                let variants: Vec<_> =
                    experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
                format!("{} by {}", variants.join(" · "), experiment.measure.primary.id)
            }
            Err(error) => error.to_string(),
        };
        writeln!(text, "{name:16} {summary}")?;
    }
    Ok(text)
}

fn show(folder: &Path, name: &str) -> anyhow::Result<String> {
    let known = names(folder)?;
    anyhow::ensure!(
        known.iter().any(|known| known == name),
        "there is no workload `{name}`; there are {}",
        known.join(", ")
    );
    let read = |file| fs::read_to_string(folder.join(name).join(file));
    Ok(format!("{}\n{}", read("README.md").unwrap_or_default(), read("carat.toml")?))
}
