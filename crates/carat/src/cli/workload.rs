//! `carat workload`: the bundled workloads.

use crate::cli::{Exit, output};
use crate::run::workloads::{WorkloadSource, workload_list, workload_text};
use crate::work::unpack_workload;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat workload list
  carat workload unpack cable && carat compare cable/carat.toml")]
pub(crate) struct WorkloadArgs {
    #[command(subcommand)]
    command: WorkloadCommand,
    /// Folder of workloads to use instead of the bundled ones
    #[arg(long, env = "CARAT_WORKLOADS", value_name = "DIR", global = true)]
    folder: Option<PathBuf>,
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
    /// Write a workload's files into a new folder
    Unpack {
        /// Name of the workload
        name: String,
        /// Folder to write, which must be new or empty [default: the workload's name, in this folder]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &WorkloadArgs) -> anyhow::Result<Exit> {
    let source = args.folder.clone().map_or(WorkloadSource::Bundled, WorkloadSource::Folder);
    let text = match &args.command {
        WorkloadCommand::List => workload_list(&source)?,
        WorkloadCommand::Show { name } => workload_text(&source, name)?,
        WorkloadCommand::Unpack { name, output } => {
            unpack_workload(&source, name, output.as_deref().unwrap_or(Path::new(name)))?
        }
    };
    output::print_text(&text)?;
    Ok(Exit::Fine)
}
