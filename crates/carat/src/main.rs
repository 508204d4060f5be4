//! Parses, runs, and turns the answer into an exit code.

use carat::cli::load::LoadArgs;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "carat", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drive a load against a server
    Load(LoadArgs),
    #[command(hide = true)]
    LoadWorker,
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Load(args) => carat::cli::load::run(&args, &mut std::io::stdout().lock()),
        Command::LoadWorker => Ok(carat::cli::load::worker()),
    }
}
