//! `carat workload`: the bundled workloads.

use crate::cli::{Exit, output};
use crate::run::workloads::{workload_list, workload_text};
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
        WorkloadCommand::List => workload_list(&args.folder)?,
        WorkloadCommand::Show { name } => workload_text(&args.folder, name)?,
    };
    output::print_data(&text)?;
    Ok(Exit::Fine)
}
