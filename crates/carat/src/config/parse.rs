//! From the text of an experiment file to a validated [`Experiment`], in one step.

use crate::config::error::explain_toml;
use crate::config::experiment::ROOTS_PLACEHOLDER;
use crate::config::file::{
    ExperimentTable, MeasureTable, ReadyTable, ServerTable, ServiceTable, TrialsTable, VariantTable,
};
use crate::config::{
    CommandLine, Experiment, ExperimentFileError, MeasureSpec, Readiness, ReadyCheck, ServerSpec,
    ServiceSpec, TrialLimits, VariantSpec,
};
use crate::core::metric::{self, Metric};
use crate::core::{LoadTable, did_you_mean};
use crate::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Longest name of an experiment or variant, in bytes.
const NAME_BYTES: usize = 64;

impl Experiment {
    /// Reads a file.
    ///
    /// # Errors
    /// Where the file cannot be read or is not a valid experiment.
    pub fn read(path: &Path) -> Result<Self, ExperimentFileError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ExperimentFileError::Read { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self::parse(&text, path, folder.unwrap_or(Path::new(".")))
    }

    /// Parses the text of the file `path`; relative directories start from `folder`.
    ///
    /// # Errors
    /// Where the text is not a valid experiment.
    pub fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self, ExperimentFileError> {
        let table: ExperimentTable = toml::from_str(text).map_err(|error| {
            ExperimentFileError::Syntax { path: path.to_owned(), message: explain_toml(&error) }
        })?;
        validate(table, text, folder)
            .map_err(|message| ExperimentFileError::Invalid { path: path.to_owned(), message })
    }
}

fn validate(table: ExperimentTable, text: &str, folder: &Path) -> Result<Experiment, String> {
    check_name(&table.name)?;
    let server = server(table.server)?;
    let services = table
        .services
        .into_iter()
        .map(|(name, table)| Ok((name.clone(), service(&format!("services.{name}"), table)?)))
        .collect::<Result<BTreeMap<_, _>, String>>()?;
    let variants = variants(table.variants)?;
    check_load(&table.load)?;
    let measure = measure(table.measure, &table.load)?;
    let trials = trials(&table.trials)?;
    Ok(Experiment {
        name: table.name,
        about: table.about,
        server,
        services,
        load: table.load,
        variants,
        measure,
        trials,
        folder: folder.to_owned(),
        text: text.to_owned(),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '));
    if allowed && name.len() <= NAME_BYTES {
        return Ok(());
    }
    Err(format!(
        "name `{}` cannot be a file name: use up to {NAME_BYTES} letters, digits, `-`, `_` and `.`",
        name.escape_debug()
    ))
}

fn server(table: ServerTable) -> Result<ServerSpec, String> {
    let command = CommandLine::new(table.command)
        .ok_or("server.command is empty: write for example [\"puma\", \"config.ru\"]")?;
    let ready = readiness("server", table.ready)?;
    let ServerTable { dir, env, stop_within, .. } = table;
    Ok(ServerSpec { command, ready, dir, env, stop_within })
}

fn service(key: &str, table: ServiceTable) -> Result<ServiceSpec, String> {
    let command =
        CommandLine::new(table.command).ok_or_else(|| format!("{key}.command is empty"))?;
    let ready = readiness(key, table.ready)?;
    Ok(ServiceSpec { command, ready, dir: table.dir, env: table.env })
}

fn readiness(key: &str, table: ReadyTable) -> Result<Readiness, String> {
    let check = match (table.http, table.tcp, table.log) {
        (Some(path), false, None) if path.starts_with('/') => ReadyCheck::Http(path),
        (Some(path), false, None) => {
            return Err(format!("{key}.ready.http `{path}` must start with `/`"));
        }
        (None, true, None) => ReadyCheck::Tcp,
        (None, false, Some(text)) => ReadyCheck::Log(text),
        _ => {
            return Err(format!(
                "{key}.ready needs exactly one of {{ http = \"/path\" }}, {{ tcp = true }} and {{ log = \"text\" }}"
            ));
        }
    };
    Ok(Readiness { check, within: table.within })
}

fn variants(tables: Vec<VariantTable>) -> Result<Vec<VariantSpec>, String> {
    if tables.len() < 2 {
        return Err(
            "a comparison needs at least two [[variant]] tables; the first is the baseline".into(),
        );
    }
    let mut names = BTreeSet::new();
    for VariantTable { name, .. } in &tables {
        if name.is_empty() || name.len() > NAME_BYTES || name.contains(char::is_control) {
            return Err(format!(
                "variant name `{}` is empty, too long or not printable",
                name.escape_debug()
            ));
        }
        if !names.insert(name) {
            return Err(format!("two variants are named `{name}`: give each its own name"));
        }
    }
    tables.into_iter().map(variant).collect()
}

fn variant(table: VariantTable) -> Result<VariantSpec, String> {
    let VariantTable { name, settings: mut chosen, env, command, dir } = table;
    let command = command
        .map(|words| {
            CommandLine::new(words).ok_or_else(|| format!("variant `{name}` has an empty command"))
        })
        .transpose()?;
    let root = take_root_with_placeholder(&mut chosen);
    let settings =
        Settings::parse(&chosen).map_err(|error| format!("variant `{name}`: {error}"))?;
    Ok(VariantSpec { name, settings, root, env, command, dir })
}

/// The setting `root` where it contains `{roots}`: its value depends on the machine.
fn take_root_with_placeholder(settings: &mut toml::Table) -> Option<String> {
    let root = settings.get("root")?.as_str()?;
    let root = root.contains(ROOTS_PLACEHOLDER).then(|| root.to_owned())?;
    settings.remove("root");
    Some(root)
}

fn check_load(load: &LoadTable) -> Result<(), String> {
    load.spec("127.0.0.1:1").map_err(|error| error.to_string())?;
    load.warmup("127.0.0.1:1").map_err(|error| error.to_string())?;
    Ok(())
}

fn measure(table: MeasureTable, load: &LoadTable) -> Result<MeasureSpec, String> {
    let primary = metric_measured(&table.primary, load)?;
    let mut guards = BTreeMap::new();
    for (name, limit) in table.guards {
        let metric = metric_measured(&name, load)?;
        if limit.0 <= 0.0 {
            return Err(format!(
                "the guard of {name} must be a positive percentage such as \"+5%\""
            ));
        }
        guards.insert(metric.id, limit);
    }
    if table.sample_every.0.is_zero() {
        return Err("measure.sample_every must be longer than zero".into());
    }
    if table.at_requests.contains(&0) {
        return Err("measure.at_requests must list numbers above 0".into());
    }
    let MeasureTable { sample_every, settle, at_requests, .. } = table;
    Ok(MeasureSpec { primary, guards, sample_every, settle, at_requests })
}

fn trials(table: &TrialsTable) -> Result<TrialLimits, String> {
    let TrialsTable { max, margin, seed } = *table;
    if max == 0 || max > 10_000 {
        return Err("trials.max must be between 1 and 10000 blocks".into());
    }
    if !(0.0..1.0).contains(&margin.0) {
        return Err("trials.margin must be between 0% and 100%".into());
    }
    Ok(TrialLimits { max, margin, seed })
}

/// The metric of that name, where the load sends enough requests for it.
fn metric_measured(name: &str, load: &LoadTable) -> Result<&'static Metric, String> {
    let metric = find_metric(name)?;
    let needed = metric.least;
    let requests = load.http.as_ref().and_then(|http| http.requests);
    match requests.filter(|&requests| requests < needed) {
        Some(requests) => Err(format!(
            "{name} needs {needed} requests per trial, and load.http has {requests}; raise `requests`, or use latency.p95"
        )),
        None => Ok(metric),
    }
}

/// The metric of that name.
///
/// # Errors
/// Where there is none; the message names the nearest known metric.
pub fn find_metric(name: &str) -> Result<&'static Metric, String> {
    metric::find(name).ok_or_else(|| {
        let known = metric::METRICS.iter().map(|metric| metric.id);
        format!("unknown metric `{name}`{}", did_you_mean(name, known))
    })
}
