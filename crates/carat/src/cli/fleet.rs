//! `carat fleet`: the blocks of an experiment on many machines.

use crate::cli::compare::{fake_trials, setting};
use crate::cli::{Exit, output};
use crate::fleet::{
    AskedBlock, FleetFolder, FleetLook, KubernetesOptions, MachineType, PlanRequest, submit,
};
use crate::run::experiment::ExperimentRequest;
use crate::run::trial::FakeVariant;
use crate::view::{fleet_json, fleet_text};
use crate::work::{conclude_fleet, plan_fleet, run_fleet_block};
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
        FleetCommand::Plan(args) => {
            let (experiment, plan) = args.requests();
            plan_fleet(experiment, &plan)?;
            Ok(Exit::Fine)
        }
        FleetCommand::Submit(args) => {
            for answer in submit(&FleetFolder::open(&args.folder)?)? {
                output::print_message(&answer);
            }
            Ok(Exit::Fine)
        }
        FleetCommand::Block(args) => {
            let asked = AskedBlock { block: args.block, machine_type: args.machine_type.clone() };
            let fake = fake_trials(&args.fake, Duration::from_millis(args.fake_pace));
            run_fleet_block(&FleetFolder::open(&args.folder)?, &asked, fake)
        }
        FleetCommand::Watch(args) => {
            let folder = FleetFolder::open(&args.folder)?;
            conclude_fleet(&folder, args.every.0, args.once, args.json)
        }
        FleetCommand::Status(args) => status(args),
    }
}

impl FleetPlanArgs {
    fn requests(&self) -> (ExperimentRequest, PlanRequest) {
        let experiment = ExperimentRequest {
            experiment: self.experiment.clone(),
            blocks: self.blocks,
            seed: self.seed,
            settings: self.set.clone(),
            ..ExperimentRequest::default()
        };
        let kubernetes = KubernetesOptions {
            image: self.image.clone(),
            claim: self.claim.clone(),
            nodes: self.nodes,
        };
        let plan = PlanRequest {
            folder: self.output.clone(),
            types: self.types.clone(),
            experiment_folder: self.folder.clone(),
            kubernetes,
        };
        (experiment, plan)
    }
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
