//! The experiment file as it is written, and what it means once checked.

use crate::config::error::explain_toml;
use crate::config::{LoadTable, Percent, PlanError, Span};
use crate::core::{metric, nearest};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// One experiment: a workload, its variants, what is measured, when to stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name; also the name of the results file.
    pub name: String,
    /// What it asks, in a sentence or two.
    pub about: Option<String>,
    /// The server to start.
    pub server: ServerTable,
    /// What the server needs, by name.
    #[serde(default)]
    pub services: BTreeMap<String, ServiceTable>,
    /// The load put on it.
    pub load: LoadTable,
    /// The workload under different settings; the first is the baseline.
    #[serde(rename = "variant")]
    pub variants: Vec<VariantTable>,
    /// What is measured.
    #[serde(default)]
    pub measure: Measure,
    /// How many trials, and how small a difference matters.
    #[serde(default)]
    pub trials: Trials,
    /// Where the file stands; commands run there unless they say otherwise.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The text of the file.
    #[serde(skip)]
    pub text: String,
}

/// The server to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTable {
    /// Program and arguments; placeholders are filled in.
    pub command: Vec<String>,
    /// How to see that it is ready.
    pub ready: Ready,
    /// Working directory, relative to the file.
    pub dir: Option<PathBuf>,
    /// Environment of every variant.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How long it may take to stop after TERM before it is killed.
    #[serde(default = "stop_within")]
    pub stop_within: Span,
}

/// A service that the server needs, such as Redis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTable {
    /// Program and arguments; `{port}` is this service's own port.
    pub command: Vec<String>,
    /// How to see that it is ready.
    pub ready: Ready,
    /// Working directory, relative to the file.
    pub dir: Option<PathBuf>,
    /// Its environment beside carat's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// How to see that a server is ready: exactly one of `http`, `tcp` and `log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// A path that answers with a status below 400.
    pub http: Option<String>,
    /// Whether it is enough that the port accepts connections.
    #[serde(default)]
    pub tcp: bool,
    /// A text that the server prints.
    pub log: Option<String>,
    /// Deadline.
    #[serde(default = "ready_within")]
    pub within: Span,
}

/// The workload under one set of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantTable {
    /// Its name.
    pub name: String,
    /// Settings from the catalogue.
    #[serde(default)]
    pub settings: toml::Table,
    /// Environment of this variant, over the server's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Another command than the server's.
    pub command: Option<Vec<String>>,
    /// Another working directory than the server's.
    pub dir: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// The metric that the verdict is about.
    pub primary: String,
    /// How much worse other metrics may get.
    pub guards: BTreeMap<String, Percent>,
    /// Time between two samples.
    pub sample_every: Span,
    /// Rest between the last response and the final figures.
    pub settle: Span,
    /// Takes every figure of the tree once so many requests are answered, besides the samples that are due.
    pub at_requests: Vec<u64>,
}

/// How many trials, and how small a difference matters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trials {
    /// Most blocks; each block runs every variant once.
    pub max: u32,
    /// Differences below this do not matter.
    pub margin: Percent,
    /// Seed of the order; drawn and printed unless given.
    pub seed: Option<u64>,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            primary: metric::MEMORY_PSS_LATE.id.into(),
            guards: BTreeMap::new(),
            sample_every: Span(std::time::Duration::from_millis(500)),
            settle: Span(std::time::Duration::from_millis(500)),
            at_requests: Vec::new(),
        }
    }
}

impl Default for Trials {
    fn default() -> Self {
        Self { max: 30, margin: Percent(0.005), seed: None }
    }
}

const fn stop_within() -> Span {
    Span::seconds(10)
}
const fn ready_within() -> Span {
    Span::seconds(60)
}
impl Experiment {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = fs::read_to_string(path)
            .map_err(|source| PlanError::Read { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self::parse(&text, path, folder.unwrap_or(Path::new(".")))
    }

    /// Checks a text that stands in `path`; relative directories start from `folder`.
    pub fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self, PlanError> {
        let mut experiment: Self = toml::from_str(text).map_err(|error| PlanError::Syntax {
            path: path.to_owned(),
            message: explain_toml(&error),
        })?;
        experiment.folder = folder.to_owned();
        experiment.text = text.to_owned();
        match experiment.problem() {
            Some(message) => Err(PlanError::Meaning { path: path.to_owned(), message }),
            None => Ok(experiment),
        }
    }

    /// SHA-256 of what the experiment means, in hex: comments and layout do not count, every value does.
    pub fn hash(&self) -> String {
        let canonical = serde_json::to_string(self).expect("an experiment is plain data");
        Sha256::digest(canonical).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The first variant.
    pub fn baseline(&self) -> &VariantTable {
        &self.variants[0]
    }

    fn problem(&self) -> Option<String> {
        self.name_problem()
            .or_else(|| self.server_problem())
            .or_else(|| self.variant_problem())
            .or_else(|| self.load_problem())
            .or_else(|| self.measure_problem())
    }

    fn name_problem(&self) -> Option<String> {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        let good = self.name.starts_with(char::is_alphanumeric) && self.name.chars().all(fits);
        (!good || self.name.len() > 64).then(|| {
            format!(
                "name `{}` cannot be a file name: use up to 64 letters, digits, `-`, `_` and `.`",
                self.name.escape_debug()
            )
        })
    }

    fn server_problem(&self) -> Option<String> {
        if self.server.command.is_empty() {
            return Some(
                "server.command is empty: write for example [\"puma\", \"config.ru\"]".into(),
            );
        }
        let services =
            self.services.iter().map(|(name, service)| (format!("services.{name}"), service));
        for (place, service) in services {
            if service.command.is_empty() {
                return Some(format!("{place}.command is empty"));
            }
            if let Some(message) = ready_problem(&place, &service.ready) {
                return Some(message);
            }
        }
        ready_problem("server", &self.server.ready)
    }

    fn variant_problem(&self) -> Option<String> {
        if self.variants.len() < 2 {
            return Some(
                "a comparison needs at least two [[variant]] tables; the first is the baseline"
                    .into(),
            );
        }
        let mut names = BTreeSet::new();
        for variant in &self.variants {
            if variant.name.is_empty()
                || variant.name.len() > 64
                || variant.name.contains(char::is_control)
            {
                return Some(format!(
                    "variant name `{}` is empty, too long or not printable",
                    variant.name.escape_debug()
                ));
            }
            if !names.insert(&variant.name) {
                return Some(format!(
                    "two variants are named `{}`: give each its own name",
                    variant.name
                ));
            }
            if variant.command.as_ref().is_some_and(Vec::is_empty) {
                return Some(format!("variant `{}` has an empty command", variant.name));
            }
        }
        None
    }

    fn load_problem(&self) -> Option<String> {
        self.load.spec("127.0.0.1:1").err().map(|error| error.to_string())
    }

    /// A percentile that so few requests a trial cannot carry.
    fn few_requests(&self, name: &str) -> Option<String> {
        let (needed, requests) = (metric::find(name)?.least, self.load.http.as_ref()?.requests?);
        (requests < needed).then(|| {
            format!(
                "{name} needs {needed} requests a trial, and load.http has {requests}; raise `requests`, or ask for latency.p95"
            )
        })
    }

    fn measure_problem(&self) -> Option<String> {
        let metrics = std::iter::once(&self.measure.primary).chain(self.measure.guards.keys());
        for name in metrics {
            if let Some(problem) = unknown_metric(name).or_else(|| self.few_requests(name)) {
                return Some(problem);
            }
        }
        if let Some((name, _)) = self.measure.guards.iter().find(|(_, limit)| limit.0 <= 0.0) {
            return Some(format!(
                "the guard of {name} must be a positive percentage such as \"+5%\""
            ));
        }
        if self.trials.max == 0 || self.trials.max > 10_000 {
            return Some("trials.max must be between 1 and 10000 blocks".into());
        }
        if !(0.0..1.0).contains(&self.trials.margin.0) {
            return Some("trials.margin must be between 0% and 100%".into());
        }
        if self.measure.sample_every.0.is_zero() {
            return Some("measure.sample_every must be longer than nothing".into());
        }
        if self.measure.at_requests.contains(&0) {
            return Some("measure.at_requests must name numbers above 0".into());
        }
        None
    }
}

fn ready_problem(place: &str, ready: &Ready) -> Option<String> {
    let ways = usize::from(ready.http.is_some())
        + usize::from(ready.tcp)
        + usize::from(ready.log.is_some());
    if ways != 1 {
        return Some(format!(
            "{place}.ready must say exactly one way: {{ http = \"/path\" }}, {{ tcp = true }} or {{ log = \"text\" }}"
        ));
    }
    match &ready.http {
        Some(path) if !path.starts_with('/') => {
            Some(format!("{place}.ready.http `{path}` must start with `/`"))
        }
        _ => None,
    }
}

/// What is wrong with the name of a metric; `None` where there is one of that name.
pub fn unknown_metric(name: &str) -> Option<String> {
    if metric::find(name).is_some() {
        return None;
    }
    let known = metric::METRICS.iter().map(|metric| metric.id);
    let hint = nearest(name, known).map(|near| format!("; did you mean `{near}`?"));
    Some(format!("unknown metric `{name}`{}", hint.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const COMPACTION: &str = r#"
name = "compaction"
[server]
command = ["puma", "-C", "puma.rb", "config.ru"]
ready = { http = "/hello", within = "30s" }
[services.redis]
command = ["redis-server", "--port", "{port}", "--save", ""]
ready = { tcp = true }
[load.http]
path = "/hello"
connections = 8
requests = 6000
[[variant]]
name = "default"
[[variant]]
name = "compact"
settings = { compact = "boot" }
[measure]
primary = "memory.rss.final"
guards = { "latency.p95" = "+5%" }
[trials]
max = 60
margin = "0.25%"
"#;

    fn parse(text: &str) -> Result<Experiment, PlanError> {
        Experiment::parse(text, Path::new("carat.toml"), Path::new("."))
    }

    #[test]
    fn the_documented_file_is_read_whole() {
        let experiment = parse(COMPACTION).unwrap();
        assert_eq!(experiment.baseline().name, "default");
        assert_eq!(experiment.variants[1].settings["compact"].as_str(), Some("boot"));
        assert_eq!(experiment.server.ready.within, Span::seconds(30));
        assert!((experiment.trials.margin.0 - 0.0025).abs() < 1e-12);
        assert_eq!(experiment.services.keys().collect::<Vec<_>>(), ["redis"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (from, to, expected) in [
            ("connections = 8", "conections = 8", "did you mean `connections`?"),
            ("memory.rss.final", "memory.rss.finale", "did you mean `memory.rss.final`?"),
            ("latency.p95", "latency.p99.9", "latency.p99.9 needs 10000 requests a trial"),
            ("\"+5%\"", "\"5\"", "not a percentage"),
            ("\"+5%\"", "\"-5%\"", "must be a positive percentage"),
            ("name = \"compact\"", "name = \"default\"", "two variants are named `default`"),
            ("path = \"/hello\"", "path = \"hello\"", "must start with `/`"),
            (
                "{ tcp = true }",
                "{ tcp = true, log = \"x\" }",
                "services.redis.ready must say exactly one way",
            ),
            ("within = \"30s\"", "within = \"30\"", "not a span of time"),
            ("max = 60", "max = 0", "between 1 and 10000"),
            ("name = \"compaction\"", "name = \"../x\"", "cannot be a file name"),
            ("requests = 6000", "requests = 0", "load.http.requests must be more than 0"),
            ("[[variant]]\nname = \"default\"", "", "at least two [[variant]]"),
        ] {
            let text = COMPACTION.replace(from, to);
            assert_ne!(text, COMPACTION, "{from}");
            let message = parse(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{to}: {message}");
            assert!(message.contains("carat.toml"), "{message}");
        }
    }

    #[test]
    fn comments_and_layout_do_not_change_the_hash_and_values_do() {
        let plain = parse(COMPACTION).unwrap().hash();
        let commented = COMPACTION.replace("max = 60", "# at most\nmax   =   60");
        assert_eq!(parse(&commented).unwrap().hash(), plain);
        assert_ne!(parse(&COMPACTION.replace("max = 60", "max = 61")).unwrap().hash(), plain);
    }
}
