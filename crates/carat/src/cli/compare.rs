//! `carat compare`: trials until there is a verdict.

use crate::analysis::Judge;
use crate::cli::progress::ProgressDisplay;
use crate::cli::{Exit, output, report};
use crate::config::Experiment;
use crate::core::{ExperimentInfo, Results, Role, Verdict};
use crate::report::{
    Audience, Budget, ProgressText, Style, concluded, dry_run_text, html, json, terminal,
};
use crate::run::Interrupt;
use crate::run::experiment::{
    ExperimentRun, OpenOptions, RunError, experiment_info, open, question, this_runner,
};
use crate::run::trial::{
    FakeRunner, FakeVariant, Prepared, ProcessRunner, RunContext, TrialRunner, prepare,
};
use crate::store::Store;
use crate::target::{Libraries, Reaper, library, make_run_directory, new_token, run_directory};
use anyhow::{Context, ensure};
use clap::Args;
use rand::RngExt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Arguments of `carat compare`
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Experiment file
    experiment: PathBuf,
    /// Results file [default: the experiment's name with .carat, in this folder]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Go on with an existing results file
    #[arg(long)]
    resume: bool,
    /// Run at most this many blocks instead of the file's `trials.max`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// Seed of the order of trials [default: the file's, or one drawn at random and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Show what would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 99 where this is broken: METRIC<LIMIT, such as "memory.pss.final<+2%" or "latency.p95<250ms"
    #[arg(long, value_name = "BUDGET", value_parser = Budget::parse)]
    budget: Vec<Budget>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
    /// How long a fake trial takes, in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
}

/// Runs a pilot of `blocks` blocks, or what is missing of it, and shows no verdict.
pub(crate) fn pilot(
    experiment: &Path,
    output: PathBuf,
    blocks: u32,
    fake: Vec<FakeVariant>,
) -> anyhow::Result<Store> {
    let args = CompareArgs {
        experiment: experiment.to_owned(),
        output: Some(output),
        resume: true,
        blocks: Some(blocks),
        seed: None,
        dry_run: false,
        json: false,
        fake,
        budget: Vec::new(),
        fake_pace: 0,
    };
    let (store, ran) = measure(&args, begin(&args)?)?;
    ran?;
    Ok(store)
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let begun = begin(args)?;
    if args.dry_run {
        let Begun { experiment, prepared, libraries, fresh } = &begun;
        output::print_data(&dry_run_text(experiment, fresh, prepared, libraries))?;
        return Ok(Exit::Fine);
    }
    let (store, ran) = measure(args, begun)?;
    conclude(args, &store, ran)
}

/// An experiment that has been read and can run.
struct Begun {
    experiment: Experiment,
    prepared: Vec<Prepared>,
    libraries: Libraries,
    fresh: ExperimentInfo,
}

/// Reads the experiment and fixes what is fixed before it runs.
fn begin(args: &CompareArgs) -> anyhow::Result<Begun> {
    let experiment = Experiment::read(&args.experiment)?;
    let libraries = library::unpack_in_cache()?;
    let prepared = prepare(&experiment, &libraries, &output::variable)?;
    for one in &prepared {
        for warning in &one.injection.applied.warnings {
            output::print_message(&format!("note: variant `{}`: {warning}", one.variant.name));
        }
    }
    let seed = args
        .seed
        .or(experiment.trials.seed)
        .unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    let variants = prepared.iter().map(|one| one.variant.clone()).collect();
    let fresh = experiment_info(&experiment, variants, seed, args.blocks);
    Ok(Begun { experiment, prepared, libraries, fresh })
}

/// Runs what is missing; the second value says whether it came to its end.
fn measure(
    args: &CompareArgs,
    Begun { experiment, prepared, fresh, .. }: Begun,
) -> anyhow::Result<(Store, Result<(), RunError>)> {
    // Before anything exists that a signal could leave behind.
    let interrupt = Interrupt::on_signals().context("cannot listen for Ctrl-C")?;
    let path = args.output.clone().unwrap_or_else(|| format!("{}.carat", experiment.name).into());
    let options = OpenOptions { path, resume: args.resume, blocks: args.blocks, seed: args.seed };
    let token = new_token();
    // The file names the directory before there is one, so that no kill leaves one that nobody knows.
    let temporary = std::env::temp_dir();
    ensure!(temporary.is_dir(), "{} is no folder; set TMPDIR to one", temporary.display());
    let directory = run_directory(&temporary, &token);
    let (mut store, header) = open(&options, &fresh, &this_runner(&token, &directory))?;
    let directory = make_run_directory(&directory)
        .context("cannot make a private directory; set TMPDIR to a folder that can be written")?;
    output::print_message(&intention(&header, &options));
    let mut runner = runner(args, experiment, prepared, (&token, &directory), &interrupt)?;
    let live = io::stderr().is_terminal() && output::variable("CI").is_none();
    let progress = ProgressText::new(&header.primary, header.max_blocks, header.variants.len());
    let mut display = ProgressDisplay::new(live, progress);
    let run = ExperimentRun {
        plan_hash: header.plan_hash.clone(),
        variants: header.variants.iter().map(|variant| variant.name.clone()).collect(),
        seed: header.seed,
        judge: Judge::new(question(&header)),
        interrupt,
    };
    let ran = run.until_verdict(&mut store, runner.as_mut(), &mut display);
    display.finish();
    // In this order: as long as anything is left, the file says so.
    drop(runner);
    drop(directory);
    store.set_runner(None)?;
    Ok((store, ran.map(|_| ())))
}

/// Says what was found, also where the run ended early.
fn conclude(args: &CompareArgs, store: &Store, ran: Result<(), RunError>) -> anyhow::Result<Exit> {
    let path = store.path();
    let results = concluded(store)?;
    if args.json {
        output::print_data(&json(&results, Audience::Own)?)?;
    } else {
        let style = Style {
            colour: output::colour(&io::stdout(), output::variable),
            width: output::width(),
        };
        output::print_data(&terminal(&results, style))?;
    }
    let page = path.with_extension("html");
    output::write_page(&page, &html(&results, &output::page_options(false)))?;
    output::print_message(&format!("\nresults  {}\npage     {}", path.display(), page.display()));
    let kept = || {
        let trials = results.trials.len();
        format!("{trials} finished trials are kept; go on with --resume -o {}", path.display())
    };
    match ran {
        Ok(()) if args.budget.is_empty() => Ok(verdict(&results)),
        Ok(()) => Ok(report::check_budgets(&results, &args.budget)),
        Err(RunError::Interrupted) => {
            output::print_message(&format!("stopped by Ctrl-C: {}", kept()));
            Ok(Exit::Interrupted)
        }
        Err(error @ RunError::Failing { .. }) => {
            output::print_error(&anyhow::Error::new(error));
            output::print_message(&kept());
            Ok(Exit::Invalid)
        }
        Err(error) => Err(anyhow::Error::new(error).context(kept())),
    }
}

fn verdict(results: &Results) -> Exit {
    let mut primaries = results.conclusions.iter().filter(|one| one.role == Role::Primary);
    let undecided = primaries.any(|one| one.verdict == Verdict::Undecided);
    if undecided { Exit::Undecided } else { Exit::Fine }
}

fn intention(header: &ExperimentInfo, options: &OpenOptions) -> String {
    let names: Vec<&str> = header.variants.iter().map(|variant| variant.name.as_str()).collect();
    format!(
        "{}: {} by {}, at most {} blocks, seed {}, into {}",
        header.name,
        names.join(" against "),
        header.primary,
        header.max_blocks,
        header.seed,
        options.path.display()
    )
}

fn runner(
    args: &CompareArgs,
    experiment: Experiment,
    prepared: Vec<Prepared>,
    (token, directory): (&str, &TempDir),
    interrupt: &Interrupt,
) -> anyhow::Result<Box<dyn TrialRunner>> {
    if !args.fake.is_empty() {
        let pace = Duration::from_millis(args.fake_pace);
        let seed = args.seed.unwrap_or(0);
        return Ok(Box::new(FakeRunner::new(args.fake.clone(), seed, pace, interrupt.clone())));
    }
    let reaper = Reaper::start(token, directory.path()).context("cannot start the reaper")?;
    let context = RunContext {
        directory: directory.path().to_owned(),
        token: token.to_owned(),
        interrupt: interrupt.clone(),
    };
    Ok(Box::new(ProcessRunner::new(experiment, prepared, context, reaper)))
}
