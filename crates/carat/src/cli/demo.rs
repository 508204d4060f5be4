//! `carat demo`: a bundled experiment on real Rails and Puma, with nothing to prepare.

use crate::cli::Exit;
use crate::cli::compare::fake_trials;
use crate::run::trial::FakeVariant;
use crate::work::{DemoRequest, run_demo};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
The workload is unpacked into a temporary folder, which is removed in the end, and the results and the page are \
written into the current folder. Needed are Ruby, Puma and some gems of Rails; what is missing is named.

Examples:
  carat demo
  carat demo --blocks 3 -o demo")]
pub(crate) struct DemoArgs {
    /// Number of blocks, each with one start of every variant [default: enough for a verdict in minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// Unpack the workload into this folder, which must be new or empty, and keep it
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Continue an interrupted demo
    #[arg(long, conflicts_with_all = ["blocks", "output"])]
    resume: bool,
    /// Print every table after the verdict
    #[arg(long)]
    details: bool,
    /// Draw figures instead of starting servers, as for `compare`
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    run_demo(&DemoRequest {
        blocks: args.blocks,
        folder: args.output.clone(),
        resume: args.resume,
        details: args.details,
        fake: fake_trials(&args.fake, Duration::from_millis(args.fake_pace)),
    })
}
