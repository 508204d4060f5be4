//! `carat fleet`: the blocks of an experiment on many machines.

use crate::cli::compare::{fake_trials, setting};
use crate::cli::{Exit, output};
use crate::fleet::{
    AskedBlock, BlockEnd, BlockPlace, BlockRun, FleetError, FleetFolder, FleetLook,
    KubernetesOptions, LookEnd, MachineType, PlanRequest, create, run_block, stop, submit,
};
use crate::run::experiment::{ExperimentRequest, RunError};
use crate::run::trial::FakeVariant;
use crate::store::Store;
use crate::view::ProgressDisplay;
use crate::view::{ProgressText, end_text, fleet_json, fleet_text};
use crate::work::{ShownResults, WatchEnd, prepare, show_results, watch_fleet};
use carat_model::Span;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  carat fleet plan arenas.toml -o fleet --on slurm:c6i='-p c6i' --on slurm:m7g='-p m7g'
  carat fleet submit fleet
  carat fleet watch fleet")]
pub(crate) enum FleetCommand {
    /// Plan which type of machine runs which block, and write the jobs
    Plan(FleetPlanArgs),
    /// Submit the blocks without a result to their engines
    Submit(FleetFolderArgs),
    /// Run one block on this machine; the engine's jobs call this
    Block(FleetBlockArgs),
    /// Merge the parts until there is a verdict, then stop pending blocks
    Watch(FleetWatchArgs),
    /// Show which blocks have a result and what counts
    Status(FleetStatusArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat fleet plan arenas.toml -o /shared/fleet --on slurm:c6i='-p c6i'
  carat fleet plan arenas.toml -o /fleet --on k8s:m7g='pool=m7g' --image registry.example/app:1
  carat fleet plan arenas.toml -o fleet            one type of machine, started by something else")]
pub(crate) struct FleetPlanArgs {
    /// Experiment file
    experiment: PathBuf,
    /// New folder of the fleet, which every machine sees under the same path
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// A type of machine: slurm:NAME=OPTIONS, k8s:NAME=LABEL=VALUE or other:NAME; every round of blocks has each type once
    #[arg(long = "on", value_name = "TYPE", value_parser = MachineType::parse)]
    types: Vec<MachineType>,
    /// Count at most this many blocks instead of the file's `trials.max`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// Seed of the order of trials and types [default: the file's, or one drawn at random]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Also apply this setting to every variant, as NAME=VALUE; it is part of the plan
    #[arg(long, value_name = "SETTING", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Folder in which relative paths of the experiment start, on every machine [default: that of the file]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Image of the containers in Kubernetes, with the app and this carat
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Claim of the volume in Kubernetes that is the folder of the fleet
    #[arg(long, value_name = "CLAIM", default_value = "carat-fleet")]
    claim: String,
    /// Nodes of each type in Kubernetes, so that blocks begin in order [default: as many as there are blocks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct FleetFolderArgs {
    /// Folder of the fleet
    folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat fleet block fleet --block 7
  seq 1 33 | parallel --sshlogin m1,m2,m3 --jobs 1 --retries 3 carat fleet block /shared/fleet --block {}")]
pub(crate) struct FleetBlockArgs {
    /// Folder of the fleet
    folder: PathBuf,
    /// Number of the block, from 1 [default: what Slurm, Kubernetes or AWS Batch set]
    #[arg(long, value_name = "N")]
    block: Option<u32>,
    /// Type of this machine, where the engine numbers the blocks of each type from 0
    #[arg(long = "type", value_name = "NAME")]
    machine_type: Option<String>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
}

#[derive(Debug, Args)]
pub(crate) struct FleetWatchArgs {
    /// Folder of the fleet
    folder: PathBuf,
    /// Look once and exit; the exit code is 3 while there is no verdict
    #[arg(long)]
    once: bool,
    /// Time between looks
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = Span::parse)]
    every: Span,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FleetStatusArgs {
    /// Folder of the fleet
    folder: PathBuf,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &FleetCommand) -> anyhow::Result<Exit> {
    match command {
        FleetCommand::Plan(args) => plan(args),
        FleetCommand::Submit(args) => {
            for answer in submit(&FleetFolder::open(&args.folder)?)? {
                output::print_message(&answer);
            }
            Ok(Exit::Fine)
        }
        FleetCommand::Block(args) => block(args),
        FleetCommand::Watch(args) => watch(args),
        FleetCommand::Status(args) => status(args),
    }
}

fn plan(args: &FleetPlanArgs) -> anyhow::Result<Exit> {
    let prepared = prepare(ExperimentRequest {
        experiment: args.experiment.clone(),
        output: None,
        resume: false,
        fresh: false,
        blocks: args.blocks,
        seed: args.seed,
        settings: args.set.clone(),
        folder: None,
        once: false,
        limit: None,
        interrupt: None,
        fake: None,
    })?;
    let kubernetes = KubernetesOptions {
        image: args.image.clone(),
        claim: args.claim.clone(),
        nodes: args.nodes,
    };
    let request = PlanRequest {
        folder: args.output.clone(),
        types: args.types.clone(),
        experiment_folder: args.folder.clone(),
        kubernetes,
    };
    let plan = create(&prepared, &request)?;
    let folder = args.output.display();
    output::print_message(&format!(
        "{}: blocks 1 to {}, at most {} count, seed {}, into {folder}",
        plan.name,
        plan.blocks.len(),
        plan.max_blocks,
        plan.seed
    ));
    output::print_message(&format!(
        "`carat fleet submit {folder}` starts them, `carat fleet watch {folder}` waits for the verdict"
    ));
    Ok(Exit::Fine)
}

fn block(args: &FleetBlockArgs) -> anyhow::Result<Exit> {
    let folder = FleetFolder::open(&args.folder)?;
    let asked = AskedBlock { block: args.block, machine_type: args.machine_type.clone() };
    let place = BlockPlace::find(&folder.plan, &asked, &output::variable)?;
    let fake = fake_trials(&args.fake, Duration::from_millis(args.fake_pace));
    let run = BlockRun { folder: &folder, place, variable: output::variable, fake };
    let mut display = ProgressDisplay::new(false, progress_text(&folder)?);
    let number = place.block;
    match run_block(&run, &mut display) {
        Ok(BlockEnd::Ran(part)) => output::print_message(&format!("part  {}", part.display())),
        Ok(BlockEnd::Void(part)) => output::print_message(&format!(
            "block {number} is given up: its attempts had no result; {} says so",
            part.display()
        )),
        Ok(BlockEnd::Known) => output::print_message(&format!("block {number} has a result")),
        Ok(BlockEnd::Stopped(reason)) => {
            output::print_message(&format!("block {number} does not begin: {reason}"));
        }
        Err(FleetError::Run(RunError::Interrupted)) => {
            output::print_message(&format!("stopped by a signal: block {number} has no result"));
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Fine)
}

fn progress_text(folder: &FleetFolder) -> Result<ProgressText, FleetError> {
    let info = folder.info()?;
    let blocks = folder.plan.blocks.len() as u32;
    Ok(ProgressText::new(&info.primary, blocks, info.variants.len()))
}

fn watch(args: &FleetWatchArgs) -> anyhow::Result<Exit> {
    let folder = FleetFolder::open(&args.folder)?;
    match watch_fleet(&folder, args.every.0, args.once)? {
        WatchEnd::Looked(look) => conclude(&folder, &look, args.json),
        WatchEnd::Waiting => Ok(Exit::Undecided),
        WatchEnd::Interrupted => {
            output::print_message("stopped by Ctrl-C; blocks go on, and so does another watch");
            Ok(Exit::Interrupted)
        }
    }
}

/// Stops pending blocks and shows the results.
fn conclude(folder: &FleetFolder, look: &FleetLook, json: bool) -> anyhow::Result<Exit> {
    for problem in stop(folder, &end_text(&look.end))? {
        output::print_message(&format!(
            "note: pending blocks may still begin, and then end at once: {problem}"
        ));
    }
    output::print_lines(fleet_text(&folder.plan, look).lines());
    if look.merged.is_none() {
        return Ok(Exit::Invalid);
    }
    let shown = ShownResults { json, ..ShownResults::default() };
    let results = show_results(&Store::open(&folder.results())?, shown)?;
    Ok(match look.end {
        LookEnd::Failed(_) | LookEnd::Unfit { .. } => Exit::Invalid,
        _ => Exit::of_verdicts(&results),
    })
}

fn status(args: &FleetStatusArgs) -> anyhow::Result<Exit> {
    let folder = FleetFolder::open(&args.folder)?;
    let look = FleetLook::at(&folder)?;
    let text = match args.json {
        true => fleet_json(&folder.plan, &look)?,
        false => fleet_text(&folder.plan, &look),
    };
    output::print_text(&text)?;
    Ok(Exit::Fine)
}
