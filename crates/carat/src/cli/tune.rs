//! `carat tune`: the best settings for one app, searched and then confirmed.

use crate::cli::compare::{prepare, run_trials};
use crate::cli::{Exit, output};
use crate::config::{BlockSpec, TuneSpec};
use crate::report::{duration, tune_text};
use crate::run::experiment::{ExperimentRequest, RunError};
use crate::run::tune::{BlockTrials, TrialSource, TuneError, TuneEvent, TuneStage, tune};
use anyhow::{Context, bail};
use clap::Args;
use rand::RngExt;
use std::fs;
use std::path::{Path, PathBuf};

/// Trials of the search with `--quick`.
const QUICK: usize = 60;
/// The copy of the file with which a search began, and its seed.
const COPY: &str = "tune.toml";
const SEED: &str = "seed";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat tune workloads/blog/tune.toml --dry-run
  carat tune workloads/blog/tune.toml -o blog-tune
  carat tune workloads/blog/tune.toml -o blog-tune --resume")]
pub(crate) struct TuneArgs {
    /// File with a workload, [goal], [search], [[knob]] and [budget]
    file: PathBuf,
    /// Folder for the results of every block [default: the name of the file's search with -tune]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Continue a search in its folder
    #[arg(long)]
    resume: bool,
    /// Search with 60 trials instead of the file's budget
    #[arg(long)]
    quick: bool,
    /// Seed of the search [default: drawn at random and kept in the folder]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print what would be tried, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<Exit> {
    let mut spec = TuneSpec::read(&args.file)?;
    if args.quick {
        spec.search_trials = spec.search_trials.min(QUICK);
    }
    if args.dry_run {
        output::print_data(&plan_text(&spec))?;
        return Ok(Exit::Fine);
    }
    let folder = args.output.clone().unwrap_or_else(|| format!("{}-tune", spec.name).into());
    let seed = open_folder(&folder, &spec, args)?;
    output::print_message(&format!("{}: seed {seed}, into {}", spec.name, folder.display()));
    let mut source = FolderSource { spec: &spec, folder: &folder, interrupted: false };
    let found = tune(&spec, seed, &mut source, &mut |event| {
        output::print_message(&event_text(event));
    });
    let outcome = match found {
        Ok(outcome) => outcome,
        Err(_) if source.interrupted => {
            let folder = folder.display();
            output::print_message(&format!(
                "stopped by Ctrl-C; continue with --resume -o {folder}"
            ));
            return Ok(Exit::Interrupted);
        }
        Err(error @ TuneError::Default { .. }) => {
            output::print_error(&anyhow::Error::new(error));
            return Ok(Exit::Invalid);
        }
        Err(error) => return Err(error.into()),
    };
    let json =
        serde_json::json!({ "schema": "carat.tune/1", "name": spec.name, "outcome": outcome });
    let json = serde_json::to_string_pretty(&json)?;
    output::write_atomically(&folder.join("outcome.json"), json.as_bytes())?;
    if args.json {
        output::print_data(&json)?;
    } else {
        output::print_data(&tune_text(&outcome, &spec.command, &metric_names(&spec)))?;
    }
    Ok(if outcome.recommendation.is_some() { Exit::Fine } else { Exit::Undecided })
}

fn metric_names(spec: &TuneSpec) -> Vec<String> {
    let guards = spec.guards.iter().map(|(metric, _)| metric.id);
    std::iter::once(spec.least.id).chain(guards).map(str::to_owned).collect()
}

fn plan_text(spec: &TuneSpec) -> String {
    let guards: Vec<String> = spec
        .guards
        .iter()
        .map(|(metric, limit)| format!("{} at most {:.0} % worse", metric.id, 100.0 * limit))
        .collect();
    let guards = if guards.is_empty() { "no guard".to_owned() } else { guards.join(", ") };
    let confirm = 2 * spec.confirm_blocks * spec.attempts;
    format!(
        "{}: least {}, {guards}\n4 trials of the default, {} of the search, at most {confirm} to confirm\n",
        spec.name, spec.least.id, spec.search_trials
    )
}

/// Creates the folder of a search, or opens it to resume. Returns the seed.
fn open_folder(folder: &Path, spec: &TuneSpec, args: &TuneArgs) -> anyhow::Result<u64> {
    let (copy, seed_file) = (folder.join(COPY), folder.join(SEED));
    if copy.exists() {
        if !args.resume {
            bail!(
                "{} holds a search; continue it with --resume, or begin another with -o",
                folder.display()
            );
        }
        let begun = fs::read_to_string(&copy).with_context(|| copy.display().to_string())?;
        if begun != spec.text {
            bail!(
                "{} has changed since the search in {} began; begin another with -o",
                args.file.display(),
                folder.display()
            );
        }
        let kept =
            fs::read_to_string(&seed_file).with_context(|| seed_file.display().to_string())?;
        let kept: u64 = kept.trim().parse().with_context(|| seed_file.display().to_string())?;
        if args.seed.is_some_and(|seed| seed != kept) {
            bail!(
                "the search in {} began with seed {kept}; resume without --seed",
                folder.display()
            );
        }
        return Ok(kept);
    }
    let seed = args.seed.unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    output::write_atomically(&seed_file, seed.to_string().as_bytes())?;
    // Last, because its presence means that the folder is complete.
    output::write_atomically(&copy, spec.text.as_bytes())?;
    Ok(seed)
}

fn event_text(event: &TuneEvent<'_>) -> String {
    match event {
        TuneEvent::Plan { space, configurations, seconds } => {
            let factors = space.space.factors().len();
            let number = configurations.map_or("more than 5 million".into(), |n| n.to_string());
            format!(
                "{factors} settings and knobs, {number} configurations; a trial takes about {}",
                duration(*seconds)
            )
        }
        TuneEvent::Stage { stage, trials: (done, all), configurations } => {
            let stage = match stage {
                TuneStage::Look => return "look: the default alone".into(),
                TuneStage::Screen => "screen",
                TuneStage::Adapt => "adapt",
                TuneStage::Confirm => return format!("confirm: {}", configurations.join("; ")),
            };
            format!("{stage}, {done} of {all} trials:\n  {}", configurations.join("\n  "))
        }
    }
}

/// Runs every block as an experiment with a results file in the folder.
struct FolderSource<'a> {
    spec: &'a TuneSpec,
    folder: &'a Path,
    interrupted: bool,
}

impl TrialSource for FolderSource<'_> {
    fn run(&mut self, block: &BlockSpec, alpha: Option<f64>) -> anyhow::Result<BlockTrials> {
        let file = self.folder.join(format!("{}.toml", block.name));
        let text = self.spec.experiment(block);
        if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            output::write_atomically(&file, text.as_bytes())?;
        }
        let results = file.with_extension("carat");
        let mut finished = None;
        loop {
            let request = ExperimentRequest {
                experiment: file.clone(),
                output: Some(results.clone()),
                resume: results.exists(),
                fresh: false,
                blocks: None,
                seed: None,
                settings: Vec::new(),
                folder: Some(self.spec.folder.clone()),
                alpha,
                limit: None,
                fake: None,
            };
            let (store, ended) = run_trials(prepare(request)?)?;
            let trials = store.trials()?;
            match ended {
                Ok(()) => return Ok(trials),
                // One configuration fails; the others of its block can still be measured.
                Err(RunError::Failing { .. } | RunError::WarmUp { .. })
                    if finished != Some(trials.len()) =>
                {
                    finished = Some(trials.len());
                }
                Err(RunError::Failing { .. } | RunError::WarmUp { .. }) => return Ok(trials),
                Err(error) => {
                    self.interrupted = matches!(error, RunError::Interrupted);
                    return Err(error.into());
                }
            }
        }
    }
}
