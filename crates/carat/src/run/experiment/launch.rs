//! From the request for an experiment to its trials in a results file.

use crate::config::{Experiment, ExperimentFileError, TrialLoad, TrialTask};
use crate::run::Interrupt;
use crate::run::experiment::blocks::{ExperimentRun, RunError};
use crate::run::experiment::events::EventHandler;
use crate::run::experiment::open::{
    OpenError, OpenOptions, OpenedResults, check_options, experiment_info, open, this_runner,
};
use crate::run::experiment::schedule::BlockSchedule;
use crate::run::trial::{
    FakeRunner, FakeVariant, PrepareError, PreparedVariant, ProcessRunner, RunContext, TrialRunner,
    prepare_variants,
};
use crate::store::{Store, StoreError};
use crate::target::install::find_libraries;
use crate::target::{
    Libraries, LibraryError, Reaper, make_run_directory, new_token, run_directory,
};
use carat_analysis::question;
use carat_analysis::{Judge, Question};
use carat_load::http::replay::describe;
use carat_load::{GeneratorError, check};
use carat_model::{ExperimentInfo, LoadSpec, Outcome, Trial, count};
use rand::RngExt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct ExperimentRequest {
    pub experiment: PathBuf,
    /// The results file; the experiment's name with `.carat` where absent.
    pub output: Option<PathBuf>,
    /// Whether to continue an existing results file.
    pub resume: bool,
    /// Whether to begin anew and move an existing results file aside.
    pub fresh: bool,
    /// The most blocks, instead of the file's `trials.max`.
    pub blocks: Option<u32>,
    /// The seed, instead of the file's.
    pub seed: Option<u64>,
    /// Settings for every variant, by name and value, under each variant's own.
    pub settings: Vec<(String, String)>,
    /// The folder in which relative paths of the file start, if not its own.
    pub folder: Option<PathBuf>,
    /// Whether every block runs once, also where a trial of it fails.
    pub once: bool,
    /// No block begins that would probably end later than this after the start.
    pub limit: Option<Duration>,
    /// The user's request to stop, if it concerns more than this experiment.
    pub interrupt: Option<Interrupt>,
    /// Simulated servers instead of real ones.
    pub fake: Option<FakeTrials>,
}

impl ExperimentRequest {
    /// A pilot of `blocks` blocks, or the rest of one that was stopped. Its results file is named after the
    /// experiment's folder unless `output` is given.
    pub fn pilot(
        experiment: PathBuf,
        output: Option<PathBuf>,
        blocks: u32,
        fake: Option<FakeTrials>,
    ) -> Self {
        let output = Some(output.unwrap_or_else(|| pilot_path(&experiment)));
        Self { experiment, output, resume: true, blocks: Some(blocks), fake, ..Self::default() }
    }

    fn results_path(&self, experiment: &Experiment) -> PathBuf {
        self.output.clone().unwrap_or_else(|| format!("{}.carat", experiment.name).into())
    }
}

fn pilot_path(experiment: &Path) -> PathBuf {
    // Links and dots are resolved, because the folder's own name is wanted.
    let path = experiment.canonicalize().ok();
    let folder = path.as_deref().and_then(Path::parent).and_then(Path::file_name);
    let name = folder.map_or("experiment".into(), |name| name.to_string_lossy().into_owned());
    format!("{name}-pilot.carat").into()
}

/// Simulated servers.
#[derive(Debug, Clone)]
pub struct FakeTrials {
    /// One per variant.
    pub variants: Vec<FakeVariant>,
    /// Duration of every trial.
    pub pace: Duration,
}

/// Why an experiment cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error(transparent)]
    File(#[from] ExperimentFileError),
    /// A variant.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// What the load needs.
    #[error(transparent)]
    Load(#[from] GeneratorError),
    /// The libraries inside Ruby.
    #[error(transparent)]
    Libraries(#[from] LibraryError),
    /// The results file.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The results file, after the run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no folder for temporary files.
    #[error("{0} is not a folder; set TMPDIR to one")]
    NoTemporaryFolder(PathBuf),
    /// Something that the run needs cannot be made.
    #[error("{what}")]
    Setup {
        /// What, and what to do.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ExperimentError {
    /// Whether another experiment file or other options would avoid the error.
    pub fn is_wrong_usage(&self) -> bool {
        match self {
            Self::File(_) | Self::Prepare(_) | Self::Load(_) => true,
            Self::Open(error) => error.is_conflict(),
            _ => false,
        }
    }

    fn setup(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Setup { what, source }
    }
}

/// An experiment that has been read and can run on this machine.
#[derive(Debug)]
pub struct PreparedExperiment {
    pub experiment: Experiment,
    /// Its variants.
    pub variants: Vec<PreparedVariant>,
    /// The libraries inside Ruby.
    pub libraries: Libraries,
    /// What a new results file would have fixed.
    pub info: ExperimentInfo,
    request: ExperimentRequest,
}

impl PreparedExperiment {
    /// Reads and prepares an experiment; `inherited` reads carat's own environment.
    ///
    /// # Errors
    /// Where the experiment cannot run here.
    pub fn new(
        request: ExperimentRequest,
        inherited: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ExperimentError> {
        let folder = request.folder.as_deref();
        let experiment = Experiment::read_with(&request.experiment, &request.settings, folder)?;
        if let TrialTask::Serve { load: TrialLoad::Generated(load), .. } = &experiment.task {
            // No server has a port yet; only what the requests are made of is checked.
            check(&load.measured("127.0.0.1:1").in_folder(&experiment.folder))?;
        }
        // Before the results file exists, so that a machine that lacks something leaves no file.
        let libraries = find_libraries()?;
        let prepared = prepare_variants(&experiment, &libraries, inherited)?;
        let seed = request
            .seed
            .or(experiment.trials.seed)
            .unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
        let variants = prepared.iter().map(|one| one.variant.clone()).collect();
        let info = experiment_info(&experiment, variants, seed, request.blocks);
        Ok(Self { experiment, variants: prepared, libraries, info, request })
    }

    /// Seconds of the finished trials of the same plan, if the results file has any.
    pub fn earlier_seconds(&self) -> Vec<f64> {
        let earlier = Store::open(&self.request.results_path(&self.experiment)).and_then(|store| {
            let same = store.info()?.plan_hash == self.info.plan_hash;
            Ok(if same { store.trials()? } else { Vec::new() })
        });
        // A file that cannot be read is a question for the run, not for the estimate.
        let finished = earlier.unwrap_or_default().into_iter();
        finished.filter(|trial| trial.outcome == Outcome::Ok).map(|trial| trial.seconds).collect()
    }

    /// What is replayed and what of the file is not, if the load replays one.
    pub fn replayed(&self) -> Option<String> {
        let load = self.experiment.task.generated_load()?;
        match load.measured("").in_folder(&self.experiment.folder) {
            // It was read before; if it has gone since, the first trial says so.
            LoadSpec::Http(load) => load.replay.and_then(|replay| describe(&replay).ok()),
            _ => None,
        }
    }

    /// Warnings about the settings, each with the name of its variant.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variants.iter().flat_map(|one| {
            let warnings = one.injection.applied.warnings.iter();
            warnings.map(|warning| (one.variant.name.as_str(), warning.as_str()))
        })
    }

    /// Creates or opens the results file and makes what the trials share.
    ///
    /// # Errors
    /// Where the results file or the shared parts cannot be made. Nothing is left behind then.
    pub fn open(self) -> Result<OpenExperiment, ExperimentError> {
        let place = RunPlace::new(self.request.interrupt.clone())?;
        let options = self.open_options();
        // The file names the directory before it exists, so that a later carat finds it after a kill at any moment.
        let runner = this_runner(&place.token, &place.directory);
        let OpenedResults { store, info, note } =
            open(&options, &self.experiment, &self.info, &runner)?;
        let (interrupt, schedule) = (place.interrupt.clone(), self.schedule());
        // Where every block runs once, none is added for one that failed.
        let judge = Judge::new(Question { reruns: !self.request.once, ..question(&info) });
        let (runner, directory) = self.start(place)?;
        Ok(OpenExperiment { info, note, store, runner, directory, interrupt, schedule, judge })
    }

    /// Fails where the results file that is there would be refused, whatever the plan of it is.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn check_results_file(&self) -> Result<(), OpenError> {
        check_options(&self.open_options())
    }

    fn open_options(&self) -> OpenOptions {
        OpenOptions {
            path: self.request.results_path(&self.experiment),
            resume: self.request.resume,
            fresh: self.request.fresh,
            blocks: self.request.blocks,
            seed: self.request.seed,
        }
    }

    /// Makes what runs single blocks on this machine, without a results file.
    ///
    /// # Errors
    /// Where it cannot be made. Nothing is left behind then.
    pub fn bench(self) -> Result<MachineBench, ExperimentError> {
        let place = RunPlace::new(self.request.interrupt.clone())?;
        let judge = Judge::new(question(&self.info));
        let run =
            experiment_run(self.info.clone(), judge, place.interrupt.clone(), self.schedule());
        let (runner, directory) = self.start(place)?;
        Ok(MachineBench { run, runner, _directory: directory })
    }

    fn schedule(&self) -> BlockSchedule {
        let trials = &self.experiment.trials;
        BlockSchedule::new(trials.warmup_block, self.request.limit, Instant::now())
    }

    /// Makes the private directory and what runs trials in it.
    fn start(self, place: RunPlace) -> Result<(Box<dyn TrialRunner>, TempDir), ExperimentError> {
        let Self { experiment, variants, request, .. } = self;
        let RunPlace { token, directory, interrupt } = place;
        let directory = make_run_directory(&directory).map_err(ExperimentError::setup(
            "cannot make a private directory; set TMPDIR to a folder that can be written",
        ))?;
        let runner: Box<dyn TrialRunner> = match request.fake {
            Some(FakeTrials { variants, pace }) => {
                let seed = request.seed.unwrap_or(0);
                let measure = experiment.measure.clone();
                Box::new(FakeRunner::new(variants, seed, pace, measure, interrupt))
            }
            None => {
                let reaper = Reaper::start(&token, directory.path())
                    .map_err(ExperimentError::setup("cannot start the reaper"))?;
                let context =
                    RunContext { directory: directory.path().to_owned(), token, interrupt };
                Box::new(ProcessRunner::new(experiment, variants, context, reaper))
            }
        };
        Ok((runner, directory))
    }
}

/// Where a run will be, before anything of it exists.
struct RunPlace {
    token: String,
    directory: PathBuf,
    interrupt: Interrupt,
}

impl RunPlace {
    /// `interrupt` is the user's request to stop, if something else listens for it already.
    fn new(interrupt: Option<Interrupt>) -> Result<Self, ExperimentError> {
        // Before anything exists that a signal could leave behind.
        let interrupt = interrupt.map_or_else(Interrupt::on_signals, Ok);
        let interrupt = interrupt.map_err(ExperimentError::setup("cannot listen for Ctrl-C"))?;
        let temporary = std::env::temp_dir();
        if !temporary.is_dir() {
            return Err(ExperimentError::NoTemporaryFolder(temporary));
        }
        let token = new_token();
        let directory = run_directory(&temporary, &token);
        Ok(Self { token, directory, interrupt })
    }
}

fn experiment_run(
    info: ExperimentInfo,
    judge: Judge,
    interrupt: Interrupt,
    schedule: BlockSchedule,
) -> ExperimentRun {
    ExperimentRun {
        judge,
        plan_hash: info.plan_hash,
        variants: info.variants.into_iter().map(|variant| variant.name).collect(),
        seed: info.seed,
        interrupt,
        schedule,
    }
}

/// A machine that is ready to run single blocks of an experiment. Nothing of it is left when it is dropped.
pub struct MachineBench {
    run: ExperimentRun,
    // Before the directory: as long as anything runs, its directory exists.
    runner: Box<dyn TrialRunner>,
    _directory: TempDir,
}

impl MachineBench {
    /// Runs the baseline once to warm the machine up; the trial is not stored.
    ///
    /// # Errors
    /// Where the user requested to stop, or where the trial fails.
    pub fn warm_up(&mut self, events: &mut dyn EventHandler) -> Result<(), RunError> {
        self.run.warm_up(self.runner.as_mut(), events)
    }

    /// Runs one block of all variants and returns its trials.
    ///
    /// # Errors
    /// Where the user requested to stop, or where trials cannot be run at all.
    pub fn block(
        &mut self,
        block: u32,
        events: &mut dyn EventHandler,
    ) -> Result<Vec<Trial>, RunError> {
        self.run.single_block(block, self.runner.as_mut(), events)
    }
}

/// An experiment with its results file.
pub struct OpenExperiment {
    info: ExperimentInfo,
    note: Option<String>,
    store: Store,
    runner: Box<dyn TrialRunner>,
    directory: TempDir,
    interrupt: Interrupt,
    schedule: BlockSchedule,
    judge: Judge,
}

impl OpenExperiment {
    /// What was fixed when the experiment began.
    pub fn info(&self) -> &ExperimentInfo {
        &self.info
    }

    /// What became of an older results file.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The question, its limits and the results file, in a line.
    pub fn summary(&self) -> String {
        let info = &self.info;
        let names: Vec<&str> = info.variants.iter().map(|variant| variant.name.as_str()).collect();
        format!(
            "{}: {} by {}, at most {}, seed {}, into {}",
            info.name,
            names.join(" against "),
            info.primary,
            count(info.max_blocks, "block"),
            info.seed,
            self.store.path().display()
        )
    }

    /// Runs the missing trials. The second value says why they did not come to an end.
    ///
    /// # Errors
    /// Where the end cannot be recorded in the results file.
    pub fn run(
        self,
        events: &mut dyn EventHandler,
    ) -> Result<(Store, Result<(), RunError>), ExperimentError> {
        let Self { info, mut store, mut runner, directory, interrupt, schedule, judge, .. } = self;
        let run = experiment_run(info, judge, interrupt, schedule);
        let ended = run.until_verdict(&mut store, runner.as_mut(), events);
        // In this order: as long as anything is left, the results file names it.
        drop(runner);
        drop(directory);
        store.set_runner(None)?;
        Ok((store, ended.map(|_| ())))
    }
}
