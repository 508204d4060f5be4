//! `carat demo`: a bundled experiment on real Rails and Puma, with nothing to prepare.

use crate::cli::compare::{self, CompareArgs};
use crate::cli::{Exit, output};
use crate::run::trial::FakeVariant;
use crate::run::workloads::{WorkloadSource, check_needs, text_of, unpack};
use crate::work::TemporaryFolder;
use carat_report::NextCommands;
use clap::Args;
use std::path::{Path, PathBuf};

/// What the demo runs.
const DEMO: Demo = Demo { workload: "blog", experiment: "demo.toml", blocks: 7 };
/// The results file, in the current folder; the page lies beside it.
const RESULTS: &str = "demo.carat";

/// A bundled experiment.
struct Demo {
    workload: &'static str,
    experiment: &'static str,
    blocks: u32,
}

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
    let files = WorkloadSource::Bundled.files(DEMO.workload)?;
    check_needs("the demo", &text_of(&files, "Gemfile"))?;
    let temporary = if args.output.is_none() { Some(TemporaryFolder::new()?) } else { None };
    let folder = match (&temporary, &args.output) {
        (Some(temporary), _) => temporary.path().join(DEMO.workload),
        (None, kept) => kept.clone().unwrap_or_default(),
    };
    unpack(&files, &folder)?;
    let exit = compare::run(&compare_args(args, &folder))?;
    let app = match &args.output {
        Some(kept) => kept.display().to_string(),
        None => format!("`carat workload unpack {}` writes it", DEMO.workload),
    };
    output::print_message(&format!("app      {app}"));
    Ok(exit)
}

fn compare_args(args: &DemoArgs, folder: &Path) -> CompareArgs {
    let experiment = folder.join(DEMO.experiment);
    // A kept folder is compared again; it must be empty for the demo.
    let next = args.output.is_none().then(|| NextCommands {
        resume: Some("carat demo --resume".to_owned()),
        anew: Some("carat demo".to_owned()),
        details: Vec::new(),
    });
    let mut compared = CompareArgs::default();
    compared.experiment = experiment;
    compared.output = Some(RESULTS.into());
    compared.resume = args.resume;
    compared.fresh = !args.resume;
    // A run that is resumed has its number already.
    compared.blocks = args.blocks.or((!args.resume).then_some(DEMO.blocks));
    compared.fake.clone_from(&args.fake);
    compared.fake_pace = args.fake_pace;
    compared.details = args.details;
    compared.next = next;
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;

    #[test]
    fn the_demo_is_bundled_and_needs_gems_that_its_gemfile_names() {
        let files = WorkloadSource::Bundled.files(DEMO.workload).unwrap();
        let text = text_of(&files, DEMO.experiment);
        Experiment::parse(&text, Path::new(DEMO.experiment), Path::new(".")).unwrap();
        assert!(text_of(&files, "Gemfile").contains("gem 'puma'"));
    }
}
