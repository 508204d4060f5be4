//! A validated experiment. Values of these types come from [`Experiment::parse`] only, so they cannot contradict each other.

use crate::config::{CommandLine, Percent, Placeholders};
use carat_model::metric::Metric;
use carat_model::{LoadTemplate, Span};
use carat_settings::{SettingError, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A workload, its variants, what is measured, and when to stop.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The experiment's name; also the name of its results file.
    pub name: String,
    /// The question, in a sentence or two.
    pub about: Option<String>,
    /// The server to start, or the command of `[run]`.
    pub server: ServerSpec,
    /// What it does until the trial ends.
    pub task: TrialTask,
    /// Runs in every trial before the server starts, when the services are ready.
    pub prepare: Option<CommandSpec>,
    /// Runs in every trial after the server has stopped, while the services still run.
    pub cleanup: Option<CommandSpec>,
    /// Services that the server needs, by name.
    pub services: BTreeMap<String, ServiceSpec>,
    /// At least two variants with distinct names; the first is the baseline.
    pub variants: Vec<VariantSpec>,
    pub measure: MeasureSpec,
    pub trials: TrialLimits,
    /// The folder of the file; relative directories start here.
    pub folder: PathBuf,
    /// The text of the file.
    pub text: String,
}

/// The server to start, or the command of `[run]`.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// Program and arguments, with placeholders.
    pub command: CommandLine,
    /// Working directory, relative to the experiment's folder.
    pub dir: Option<PathBuf>,
    /// Environment of every variant.
    pub env: BTreeMap<String, String>,
    /// Time from TERM to KILL.
    pub stop_within: Span,
}

/// What the server of a trial does until the trial ends.
#[derive(Debug, Clone)]
pub enum TrialTask {
    /// It answers a load and is stopped then: `[server]` and `[load]`.
    Serve {
        /// When the server counts as ready.
        ready: ReadyCondition,
        load: TrialLoad,
    },
    /// It is a command that ends by itself: `[run]`.
    Run {
        /// Deadline.
        within: Span,
    },
}

/// The load on a server.
#[derive(Debug, Clone)]
pub enum TrialLoad {
    /// That of carat's generator, for a server at any address.
    Generated(Box<LoadTemplate>),
    /// That of a command: `[load.command]`.
    Command(CommandSpec),
}

impl TrialTask {
    /// The load of carat's generator; `None` if a command drives the load or there is none.
    pub fn generated_load(&self) -> Option<&LoadTemplate> {
        match self {
            Self::Serve { load: TrialLoad::Generated(load), .. } => Some(load),
            Self::Serve { .. } | Self::Run { .. } => None,
        }
    }

    /// Requests of the measured load; `None` if their number is not fixed, or if there is no load.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Self::Serve { load: TrialLoad::Generated(load), .. } => load.requests(),
            Self::Serve { .. } | Self::Run { .. } => None,
        }
    }
}

/// A service that the server needs, such as Redis.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// Program and arguments; `{port}` is the service's own port.
    pub command: CommandLine,
    /// When the service counts as ready.
    pub ready: ReadyCondition,
    /// Working directory, relative to the experiment's folder.
    pub dir: Option<PathBuf>,
    /// Variables over the environment that carat inherited.
    pub env: BTreeMap<String, String>,
}

/// A command that runs beside the server and ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Program and arguments, with placeholders.
    pub command: CommandLine,
    /// Working directory instead of the server's, relative to the experiment's folder.
    pub dir: Option<PathBuf>,
    /// Variables over the server's, with placeholders.
    pub env: BTreeMap<String, String>,
    /// Deadline.
    pub within: Span,
}

/// A ready check with its deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCondition {
    pub check: ReadyCheck,
    /// Deadline.
    pub within: Span,
}

/// How carat finds out that a process is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadyCheck {
    /// `GET` of this path is answered with a status below 400.
    Http(String),
    /// The port accepts connections.
    Tcp,
    /// The process prints this text.
    Log(String),
}

/// The workload under one set of settings.
#[derive(Debug, Clone)]
pub struct VariantSpec {
    pub name: String,
    /// Names of the variants that it is also compared with; following them never leads back to it.
    pub controls: Vec<String>,
    /// Settings; without `root` where that contains `{roots}`.
    pub(super) settings: Settings,
    /// The setting `root` where it contains `{roots}`.
    pub(super) root: Option<String>,
    /// Environment over the server's.
    pub env: BTreeMap<String, String>,
    /// Command instead of the server's.
    pub command: Option<CommandLine>,
    /// Working directory instead of the server's.
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct MeasureSpec {
    /// The metric that the verdict is about.
    pub primary: &'static Metric,
    /// How much worse other metrics may become, by metric name; every limit is above zero.
    pub guards: BTreeMap<&'static str, Percent>,
    /// Time between two samples; never zero.
    pub sample_every: Span,
    /// Time between the last response and the final figures.
    pub settle: Span,
    /// Numbers of answered requests or broadcasts, ascending, after which one additional sample with every figure is taken.
    pub at_requests: Vec<u64>,
    /// Time between the final figures and a last sample of the idle server; never zero.
    pub idle: Option<Span>,
    /// Whether the objects of every trial are counted by class after the final figures.
    pub census: bool,
}

/// How many trials run, and which difference is too small to matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialLimits {
    /// Most blocks; each block runs every variant once.
    pub max: u32,
    /// Differences below this do not matter.
    pub margin: Percent,
    /// Seed of the order of trials; drawn at random where absent.
    pub seed: Option<u64>,
    /// Whether an unscored block comes first.
    pub warmup_block: bool,
    /// Where this confirms a candidate: the number of attempts among which it shares the error.
    pub attempts: Option<u32>,
}

/// Placeholder of the setting `root`: the folder in which `bin/roots` creates systems.
pub(super) const ROOTS_PLACEHOLDER: &str = "{roots}";

impl Experiment {
    /// The placeholders that a trial fills in: for the server's port, a folder, and the port of each service.
    pub fn placeholders(
        &self,
        port: u16,
        dir: &Path,
        service_port: impl Fn(&str) -> u16,
    ) -> Placeholders {
        let fixed = [
            ("port".to_owned(), port.to_string()),
            // In a service `port` is the service's own.
            ("server.port".to_owned(), port.to_string()),
            ("dir".to_owned(), dir.display().to_string()),
        ];
        let ports = self
            .services
            .keys()
            .map(|name| (format!("services.{name}.port"), service_port(name.as_str()).to_string()));
        fixed.into_iter().chain(ports).collect()
    }

    /// The commands beside the server, each with the name of its table.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &CommandSpec)> {
        let load = match &self.task {
            TrialTask::Serve { load: TrialLoad::Command(spec), .. } => Some(spec),
            _ => None,
        };
        let named = [
            ("prepare", self.prepare.as_ref()),
            ("load.command", load),
            ("cleanup", self.cleanup.as_ref()),
        ];
        named.into_iter().filter_map(|(name, spec)| Some((name, spec?)))
    }

    /// The variant that the others are compared with.
    pub fn baseline(&self) -> &VariantSpec {
        &self.variants[0]
    }
}

impl VariantSpec {
    /// The settings on this machine, where `{roots}` is the folder `roots`.
    ///
    /// # Errors
    /// Where `root` is not an absolute path, because `roots` is unknown or relative.
    pub fn settings(&self, roots: Option<&str>) -> Result<Settings, SettingError> {
        let mut settings = self.settings.clone();
        if let Some(root) = &self.root {
            settings.set(
                "root",
                &root.replace(ROOTS_PLACEHOLDER, roots.unwrap_or(ROOTS_PLACEHOLDER)),
            )?;
        }
        Ok(settings)
    }
}
