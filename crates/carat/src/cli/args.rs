//! The commands and their dispatch.

use crate::cli::{
    Exit, compare, diff, exec, exit, explain, install, load, output, plan, record, report, salvage,
    shell, stats, tune, workload,
};
use crate::load::worker_main;
use crate::target::{exec_helper_main, reaper_main};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Weigh Ruby servers, prove which setting makes them smaller, run them that way
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run trials of an experiment until there is a verdict
    Compare(compare::CompareArgs),
    /// Show where every megabyte of a running server is
    Explain(explain::ExplainArgs),
    /// Show what changed between two readings of `explain --json`
    Diff(diff::DiffArgs),
    /// Record the memory of a server over time and say whether it grows
    Record(record::RecordArgs),
    /// Write one HTML page from a results file
    Report(report::ReportArgs),
    /// Analyse a results file again, also for another question
    Stats(stats::StatsArgs),
    /// Forecast which differences an experiment can detect in how many blocks and minutes
    Plan(plan::PlanArgs),
    /// Search the best settings for an app and confirm them
    Tune(tune::TuneArgs),
    /// Copy the undamaged trials of a damaged or older results file, or of exported JSON, into a new file
    Salvage(salvage::SalvageArgs),
    /// Drive a load against a running server
    Load(load::LoadArgs),
    /// Apply settings, then become the server
    Exec(exec::ExecArgs),
    /// Install the libraries for servers that carat does not start itself
    Install(install::InstallArgs),
    /// List or show the bundled workloads
    Workload(workload::WorkloadArgs),
    /// Print the completions of a shell
    Completions(shell::CompletionsArgs),
    /// Print the manual page, for man -l -
    Man,
    /// Wait for a signal from carat, then become the server
    #[command(hide = true)]
    ExecHelper,
    /// Clean up after a killed carat
    #[command(hide = true)]
    Reaper {
        /// Token in the environment of every process of the run
        token: String,
        /// The run's private directory
        directory: PathBuf,
    },
    /// Drive a load described on standard input
    #[command(hide = true)]
    LoadWorker,
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::ExecHelper => return exec_helper_main(),
        Command::Reaper { token, directory } => return reaper_main(&token, &directory),
        Command::LoadWorker => return worker_main(std::io::stdin(), std::io::stdout()),
        Command::Exec(args) => {
            return exec::run(&args, &mut std::io::stdout(), &mut std::io::stderr()).into();
        }
        Command::Load(args) => load::run(&args, &mut std::io::stdout().lock()),
        Command::Compare(args) => compare::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Completions(args) => shell::completions(&args, Arguments::command()),
        Command::Man => shell::man(Arguments::command()),
        Command::Stats(args) => stats::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Workload(args) => workload::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::print_error(&error);
            Exit::of_error(&error).into()
        }
    }
}
