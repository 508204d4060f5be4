//! `carat tune`: the best settings for one app, searched and then confirmed.

use crate::cli::compare::{run_trials, setting};
use crate::cli::{Exit, output};
use crate::config::{BlockSpec, Experiment, TuneSpec, changed_content, read_text_file};
use crate::run::Interrupt;
use crate::run::experiment::{
    ExperimentError, ExperimentRequest, FakeTrials, PreparedExperiment, RunError,
};
use crate::run::trial::roots;
use crate::run::tune::{
    FakeApp, FakeEffect, LOOK_TRIALS, TuneError, TuneEvent, TuneHost, TuneOptions, TuneStage, tune,
};
use crate::view::{event_text, progress_line};
use anyhow::{Context, bail};
use carat_files::{NamedBy, create_folder, write_file};
use carat_model::Trial;
use carat_report::{PageOptions, SearchReport, shell_line, tune_html, tune_text};
use clap::Args;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Trials of the search with `--quick`.
const QUICK: usize = 60;
/// The copy of the file with which a search began, and what the command line added.
const COPY: &str = "tune.toml";
const BEGUN: &str = "begun.toml";
/// Largest seed: the seeds of the blocks follow it, and TOML has no larger numbers.
const LARGEST_SEED: u64 = 1 << 53;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat tune workloads/blog/tune.toml --dry-run
  carat tune workloads/blog/tune.toml -o blog-tune
  carat tune workloads/blog/tune.toml -o blog-tune --resume --ablate")]
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    seed: Option<u64>,
    /// Also apply this setting to every configuration, as NAME=VALUE; a continued search needs it again
    #[arg(long, value_name = "SETTING", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Afterwards compare the recommended settings with themselves without each of them
    #[arg(long)]
    ablate: bool,
    /// Print what would be tried, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print every table after the answer: configurations, what single settings seem to be worth, what was not tried
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
    /// Draw figures instead of starting servers: NAME=VALUE:MEMORY[:P95[:CRASHES]], changes as fractions
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeEffect::parse)]
    fake: Vec<FakeEffect>,
    /// Standard deviation of the p95 of fake trials, as a fraction
    #[arg(long, hide = true, default_value_t = 0.03)]
    fake_p95_sd: f64,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
}

pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<Exit> {
    let mut spec = TuneSpec::read_with(&args.file, &args.set).map_err(ExperimentError::File)?;
    if args.quick {
        spec.search_trials = spec.search_trials.min(QUICK);
    }
    if args.dry_run {
        output::print_text(&plan_text(&spec))?;
        return Ok(Exit::Fine);
    }
    let folder = args.output.clone().unwrap_or_else(|| format!("{}-tune", spec.name).into());
    let begun = open_folder(&folder, &spec, args)?;
    spec.search_trials = begun.search_trials;
    let seed = begun.seed;
    output::print_message(&format!("{}: seed {seed}, into {}", spec.name, folder.display()));
    let root = spec.root(roots(&output::variable).as_deref());
    let options = TuneOptions { seed, ablate: args.ablate, root };
    let mut host = FolderHost::new(args, &spec, &folder)?;
    let found = tune(&spec, &options, &mut host);
    if host.interrupted {
        let again = continuing(args, &folder);
        output::print_message(&format!("stopped by Ctrl-C; continue with: {again}"));
        return Ok(Exit::Interrupted);
    }
    match found {
        Ok(outcome) => {
            let (name, command) = (spec.name.clone(), spec.command.clone());
            conclude(args, &folder, &SearchReport { name, command, seed, outcome })
        }
        Err(TuneError::Trials(error)) => {
            let again = continuing(args, &folder);
            Err(error.context(format!(
                "the search stopped; what it measured is kept, continue with: {again}"
            )))
        }
        Err(error) => {
            let exit = exit_of(&error);
            output::print_error(&anyhow::Error::new(error));
            Ok(exit)
        }
    }
}

/// The command that continues this search.
fn continuing(args: &TuneArgs, folder: &Path) -> String {
    let (file, folder) = (args.file.display().to_string(), folder.display().to_string());
    let mut words = ["carat", "tune", &file, "-o", &folder, "--resume"].map(String::from).to_vec();
    for (name, value) in &args.set {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    shell_line(&words)
}

/// The exit code for a search that ended without an outcome.
fn exit_of(error: &TuneError) -> Exit {
    match error {
        TuneError::NothingToTry(_) | TuneError::Space(_) | TuneError::Unmeasured(_) => Exit::Usage,
        TuneError::Default { .. } => Exit::Invalid,
        TuneError::Guards(_) => Exit::Undecided,
        TuneError::Trials(_) => Exit::Failed,
    }
}

/// Writes and prints the outcome.
fn conclude(args: &TuneArgs, folder: &Path, report: &SearchReport) -> anyhow::Result<Exit> {
    let SearchReport { name, seed, outcome, .. } = report;
    let json = serde_json::json!({ "schema": "carat.tune/1", "name": name, "seed": seed, "outcome": outcome });
    let json = serde_json::to_string_pretty(&json)?;
    let path = folder.join("outcome.json");
    write(&path, &json)?;
    let page = folder.join(format!("{name}.html"));
    let options: PageOptions = output::page_options(false);
    output::write_page_beside(&page, &tune_html(report, &options))?;
    output::print_text(&if args.json { json } else { tune_text(report, args.details) })?;
    let (path, page) = (path.display(), page.display());
    if args.json || args.details {
        let lines = [format!("\nresults  {path}"), format!("page     {page}")];
        output::print_lines(lines.iter().map(String::as_str));
    } else {
        let again = continuing(args, folder);
        output::print_text(&format!("Details    {page} · {path} · {again} --details\n"))?;
    }
    Ok(if outcome.recommendation.is_some() { Exit::Fine } else { Exit::Undecided })
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
        "{}: least {}, {guards}\n{}\n{LOOK_TRIALS} trials of the default, {} of the search, at most {confirm} to confirm\n",
        spec.name,
        spec.least.id,
        shell_line(&spec.command),
        spec.search_trials
    )
}

/// What the command line adds to the file of a search.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct BegunSearch {
    seed: u64,
    /// Trials of the search.
    search_trials: usize,
}

/// Creates the folder of a search, or opens it to resume.
fn open_folder(folder: &Path, spec: &TuneSpec, args: &TuneArgs) -> anyhow::Result<BegunSearch> {
    let (copy, kept) = (folder.join(COPY), folder.join(BEGUN));
    if copy.exists() {
        return resume(&copy, &kept, spec, args);
    }
    let seed = args.seed.unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    let begun = BegunSearch { seed, search_trials: spec.search_trials };
    create_folder(folder).with_context(|| {
        let folder = folder.display();
        format!("cannot create {folder}; check the free space and the permissions")
    })?;
    write(&kept, &toml::to_string(&begun)?)?;
    // Last, because its presence means that the folder is complete.
    write(&copy, &spec.text)?;
    Ok(begun)
}

fn resume(
    copy: &Path,
    kept: &Path,
    spec: &TuneSpec,
    args: &TuneArgs,
) -> anyhow::Result<BegunSearch> {
    let folder = copy.parent().unwrap_or(copy).display();
    if !args.resume {
        bail!("{folder} holds a search; continue it with --resume, or begin another with -o");
    }
    let begun = read(copy)?;
    if let Some(key) = spec.changed_load(&begun) {
        bail!(
            "the file of {key} has changed since the search in {folder} began; restore it, or begin another search with -o"
        );
    }
    if begun != spec.text {
        let file = args.file.display();
        bail!(
            "{file} or --set has changed since the search in {folder} began; begin another with -o, or restore what {} has",
            copy.display()
        );
    }
    let begun: BegunSearch =
        toml::from_str(&read(kept)?).with_context(|| kept.display().to_string())?;
    if args.seed.is_some_and(|seed| seed != begun.seed) {
        bail!("the search in {folder} began with seed {}; resume without --seed", begun.seed);
    }
    if args.quick && begun.search_trials > QUICK {
        bail!(
            "the search in {folder} began with {} trials; resume without --quick",
            begun.search_trials
        );
    }
    Ok(begun)
}

fn read(path: &Path) -> anyhow::Result<String> {
    read_text_file(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_file(path, text.as_bytes(), NamedBy::Carat).with_context(|| {
        format!("cannot write {}; check the free space and the permissions", path.display())
    })
}

/// Runs every block as an experiment with a results file in the folder.
struct FolderHost<'a> {
    spec: &'a TuneSpec,
    folder: &'a Path,
    /// One request for all blocks, because it may come between two of them.
    interrupt: Interrupt,
    interrupted: bool,
    fake: Option<FakeApp>,
    pace: Duration,
    /// Progress of the search when the current blocks began.
    context: String,
    /// Warnings about settings that were printed.
    warned: BTreeSet<String>,
}

impl<'a> FolderHost<'a> {
    fn new(args: &TuneArgs, spec: &'a TuneSpec, folder: &'a Path) -> anyhow::Result<Self> {
        let app = FakeApp { effects: args.fake.clone(), p95_sd: args.fake_p95_sd };
        Ok(Self {
            spec,
            folder,
            interrupt: Interrupt::on_signals().context("cannot listen for Ctrl-C")?,
            interrupted: false,
            fake: (!args.fake.is_empty()).then_some(app),
            pace: Duration::from_millis(args.fake_pace),
            context: String::new(),
            warned: BTreeSet::new(),
        })
    }

    /// Writes the experiment of a block before its first trial, or finds the one that was planned.
    fn plan(&self, block: &BlockSpec) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("{}.toml", block.name));
        let text = self.spec.experiment(block);
        match read_text_file(&file) {
            Ok(planned) if planned == text => Ok(file),
            Ok(_) => bail!(
                "{} is not the block that the search proposes now: it was changed, or another version of carat began the search; \
                 begin another with -o",
                file.display()
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => write(&file, &text).map(|()| file),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn request(&self, stage: TuneStage, block: &BlockSpec, file: &Path) -> ExperimentRequest {
        let results = file.with_extension("carat");
        let variants = self.fake.as_ref().map(|app| app.variants(block));
        ExperimentRequest {
            experiment: file.to_owned(),
            resume: results.exists(),
            output: Some(results),
            fresh: false,
            blocks: None,
            // The same as in the file; fake figures depend on it.
            seed: Some(block.seed),
            settings: Vec::new(),
            folder: Some(self.spec.folder.clone()),
            once: matches!(stage, TuneStage::Screen | TuneStage::Adapt),
            limit: None,
            interrupt: Some(self.interrupt.clone()),
            fake: variants.map(|variants| FakeTrials { variants, pace: self.pace }),
        }
    }

    fn prepare(&mut self, request: ExperimentRequest) -> anyhow::Result<PreparedExperiment> {
        let file = request.experiment.clone();
        let prepared = PreparedExperiment::new(request, &output::variable);
        let begun = &self.spec.text;
        let changed = match &prepared {
            Ok(prepared) => changed_content(begun, &prepared.experiment.text),
            // Perhaps because the load's file changed between two readings of it.
            Err(_) => Experiment::read_with(&file, &[], Some(&self.spec.folder))
                .ok()
                .and_then(|found| changed_content(begun, &found.text)),
        };
        if let Some(key) = changed {
            bail!("the file of {key} has changed since the search began; restore it");
        }
        let prepared = prepared?;
        for (_, warning) in prepared.warnings() {
            if self.warned.insert(warning.to_owned()) {
                output::print_message(&format!("note: {warning}"));
            }
        }
        Ok(prepared)
    }
}

impl TuneHost for FolderHost<'_> {
    fn run(&mut self, stage: TuneStage, block: &BlockSpec) -> anyhow::Result<Vec<Trial>> {
        let file = self.plan(block)?;
        let mut finished = None;
        loop {
            let request = self.request(stage, block, &file);
            let (store, ended) = run_trials(self.prepare(request)?, Some(&self.context))?;
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

    fn show(&mut self, event: &TuneEvent) {
        let least = self.spec.least.id;
        output::print_message(&event_text(event, least));
        if let TuneEvent::Begin(progress) = event {
            self.context = progress_line(progress, least);
        }
    }
}
