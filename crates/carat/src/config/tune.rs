//! The file of a search for the best settings: a workload as in an experiment, a goal, and what may be varied.

use crate::config::added::text_with;
use crate::config::content::{changed_content, with_content, without_content};
use crate::config::error::{explain_toml, other_command};
use crate::config::experiment::ROOTS_PLACEHOLDER;
use crate::config::parse::{MOST_ATTEMPTS, MOST_BLOCKS, folder_of, usual_primary};
use crate::config::{Experiment, ExperimentFileError, Percent};
use carat_model::metric::Metric;
use carat_model::metric::find_metric;
use carat_settings::accepts;
use carat_tune::Confirmation;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Tables of an experiment that the search writes itself.
const OWN_TABLES: [&str; 2] = ["variant", "trials"];
/// Fewest trials of a search that the screen and one adapted block need.
const LEAST_TRIALS: usize = 30;
/// Most trials of a search.
const MOST_TRIALS: usize = 100_000;

/// A validated file.
#[derive(Debug, Clone)]
pub struct TuneSpec {
    pub name: String,
    /// The metric to make small.
    pub least: &'static Metric,
    /// How much worse other metrics may become, as fractions.
    pub guards: Vec<(&'static Metric, f64)>,
    /// The smallest saving that matters, as a fraction.
    pub margin: f64,
    /// Settings that are not tried.
    pub leave: BTreeSet<String>,
    /// The only settings that are tried; all where absent.
    pub only: Option<BTreeSet<String>>,
    /// Levels to try instead of the catalogue's, by setting.
    pub levels: BTreeMap<String, Vec<String>>,
    /// The user's own factors.
    pub knobs: Vec<KnobSpec>,
    /// Most trials of the search.
    pub search_trials: usize,
    /// Most blocks of a confirmation.
    pub confirm_blocks: u32,
    /// Most confirmations.
    pub attempts: u32,
    /// The words of the server's command, as the file has them.
    pub command: Vec<String>,
    /// Variables of the server, as the file has them.
    pub env: BTreeMap<String, String>,
    /// Settings of the server in every configuration.
    pub settings: BTreeMap<String, String>,
    /// Requests of a trial; `None` where their number is not fixed.
    pub requests: Option<u64>,
    /// The root of the server's file system, as the file has it.
    root: Option<String>,
    /// The folder in which relative paths start.
    pub folder: PathBuf,
    /// The text of the file; it names the content of the load's file.
    pub text: String,
    workload: toml::Table,
}

/// A factor of the user.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobSpec {
    pub name: String,
    /// Its levels; the first is the default.
    pub levels: Vec<KnobLevel>,
}

/// A level of a knob, and what it changes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobLevel {
    pub name: String,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnTables {
    goal: GoalTable,
    #[serde(default)]
    search: SearchTable,
    #[serde(default, rename = "knob")]
    knobs: Vec<KnobSpec>,
    #[serde(default)]
    budget: BudgetTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoalTable {
    least: Option<String>,
    #[serde(default)]
    guards: BTreeMap<String, Percent>,
    #[serde(default = "default_margin")]
    margin: Percent,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SearchTable {
    leave: BTreeSet<String>,
    only: Option<BTreeSet<String>>,
    levels: BTreeMap<String, Vec<toml::Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BudgetTable {
    search: usize,
    confirm: u32,
    attempts: u32,
}

impl Default for BudgetTable {
    fn default() -> Self {
        Self { search: 96, confirm: 60, attempts: 2 }
    }
}

const fn default_margin() -> Percent {
    Percent(0.01)
}

/// A configuration as a variant of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TunedVariant {
    pub name: String,
    /// Settings by name.
    pub settings: BTreeMap<String, String>,
    /// Variables by name.
    pub env: BTreeMap<String, String>,
}

/// Blocks of an experiment that the search makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSpec {
    /// Name of the experiment.
    pub name: String,
    /// The configurations; the first is the baseline.
    pub variants: Vec<TunedVariant>,
    /// Most blocks.
    pub blocks: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Where the blocks confirm a candidate: the number of attempts among which they share the error.
    pub attempts: Option<u32>,
}

impl TuneSpec {
    /// Reads a file, and applies `settings` to every configuration of the search.
    ///
    /// # Errors
    /// Where it cannot be read, or is not a valid file of a search.
    pub fn read_with(
        path: &Path,
        settings: &[(String, String)],
    ) -> Result<Self, ExperimentFileError> {
        let text = text_with(path, settings)?;
        let (mut spec, experiment) = Self::parse(without_content(&text), path, folder_of(path))?;
        if let Some((key, sha256)) = experiment.load_content(path)? {
            spec.text = with_content(&spec.text, key, &sha256);
        }
        Ok(spec)
    }

    /// The search, and an experiment with its workload.
    pub(super) fn parse(
        text: String,
        path: &Path,
        folder: &Path,
    ) -> Result<(Self, Experiment), ExperimentFileError> {
        let syntax = |error: toml::de::Error| ExperimentFileError::Syntax {
            path: path.to_owned(),
            message: explain_toml(&error),
        };
        let mut workload: toml::Table = toml::from_str(&text).map_err(syntax)?;
        let invalid = |message| ExperimentFileError::Invalid { path: path.to_owned(), message };
        if let Some(message) = other_command(&workload, "tune", path) {
            return Err(invalid(message));
        }
        // The tables of the search are taken out; what is left is an experiment's.
        let mut own = toml::Table::new();
        for key in ["goal", "search", "knob", "budget"] {
            own.extend(workload.remove(key).map(|value| (key.to_owned(), value)));
        }
        let own: OwnTables = own.try_into().map_err(syntax)?;
        let spec = Self::validated(own, workload, text, folder).map_err(invalid)?;
        // The workload is checked as part of an experiment with it.
        let block = BlockSpec {
            name: spec.name.clone(),
            variants: ["default", "other"]
                .map(|name| TunedVariant { name: name.into(), ..TunedVariant::default() })
                .to_vec(),
            blocks: 1,
            seed: 0,
            attempts: None,
        };
        let experiment = Experiment::parse(&spec.experiment(&block), path, folder)?;
        let default = experiment.baseline();
        let root = default.settings.root().map(|root| root.display().to_string());
        let spec = Self {
            command: experiment.server.command.words().to_vec(),
            env: experiment.server.env.clone(),
            settings: default.settings.describe(),
            requests: experiment.task.requests(),
            root: default.root.clone().or(root),
            ..spec
        };
        Ok((spec, experiment))
    }

    /// The key of the load's file, if its content is another than in `text`, the text of another moment, and nothing else is.
    pub fn changed_load(&self, text: &str) -> Option<&str> {
        // If more than the load's file was changed, the change is another one.
        let is_same = without_content(&self.text) == without_content(text);
        changed_content(&self.text, text).filter(|_| is_same)
    }

    fn validated(
        own: OwnTables,
        workload: toml::Table,
        text: String,
        folder: &Path,
    ) -> Result<Self, String> {
        if let Some(table) = OWN_TABLES.iter().find(|table| workload.contains_key(**table)) {
            return Err(format!(
                "leave out [{table}]: the search chooses variants and trials itself"
            ));
        }
        let name =
            workload.get("name").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let usual = usual_primary(workload.contains_key("run")).id;
        let OwnTables { goal, search, knobs, budget } = own;
        let guards = goal.guards.into_iter().map(|(name, limit)| match limit.0 > 0.0 {
            true => Ok((find_metric(&name)?, limit.0)),
            false => {
                Err(format!("the guard of {name} must be a positive percentage such as \"+5%\""))
            }
        });
        if !(0.0..1.0).contains(&goal.margin.0) {
            return Err("goal.margin must be between 0% and 100%".into());
        }
        check_most(&budget)?;
        // Fewer blocks than this could confirm nothing, whatever they show.
        let least_blocks = Confirmation::fewest_blocks(budget.attempts);
        if budget.search < LEAST_TRIALS || budget.confirm < least_blocks || budget.attempts == 0 {
            return Err(format!(
                "[budget] needs at least {LEAST_TRIALS} trials of search, an attempt to confirm, and {least_blocks} blocks for it"
            ));
        }
        check_knobs(&knobs)?;
        Ok(Self {
            name,
            least: find_metric(goal.least.as_deref().unwrap_or(usual))?,
            guards: guards.collect::<Result<_, _>>()?,
            margin: goal.margin.0,
            leave: search.leave,
            only: search.only,
            levels: levels(search.levels)?,
            knobs,
            search_trials: budget.search,
            confirm_blocks: budget.confirm,
            attempts: budget.attempts,
            command: Vec::new(),
            env: BTreeMap::new(),
            settings: BTreeMap::new(),
            requests: None,
            root: None,
            folder: folder.to_owned(),
            text,
            workload,
        })
    }

    /// The root of the server's file system, where `{roots}` is the folder `roots`.
    pub fn root(&self, roots: Option<&str>) -> PathBuf {
        let root = self.root.as_deref().unwrap_or("/");
        root.replace(ROOTS_PLACEHOLDER, roots.unwrap_or(ROOTS_PLACEHOLDER)).into()
    }

    /// The text of an experiment with this workload.
    pub fn experiment(&self, block: &BlockSpec) -> String {
        let mut table = self.workload.clone();
        table.insert("name".into(), block.name.clone().into());
        let mut measure = match table.remove("measure") {
            Some(toml::Value::Table(measure)) => measure,
            _ => toml::Table::new(),
        };
        measure.insert("primary".into(), self.least.id.into());
        let guards = self.guards.iter().map(|(metric, limit)| {
            (metric.id.to_owned(), toml::Value::from(Percent(*limit).to_string()))
        });
        measure.insert("guards".into(), toml::Value::Table(guards.collect()));
        table.insert("measure".into(), measure.into());
        let mut trials = toml::Table::new();
        trials.insert("max".into(), i64::from(block.blocks).into());
        trials.insert("margin".into(), Percent(self.margin).to_string().into());
        trials.insert("seed".into(), i64::try_from(block.seed).unwrap_or(i64::MAX).into());
        trials.insert("warmup_block".into(), false.into());
        trials.extend(
            block.attempts.map(|attempts| ("attempts".to_owned(), i64::from(attempts).into())),
        );
        table.insert("trials".into(), trials.into());
        let variants: Vec<toml::Value> = block.variants.iter().map(variant_table).collect();
        table.insert("variant".into(), variants.into());
        // A table of strings, numbers and tables is always TOML.
        toml::to_string(&table).unwrap_or_default()
    }
}

fn strings(values: &BTreeMap<String, String>) -> toml::Value {
    let values = values.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    toml::Value::Table(values.collect())
}

fn variant_table(variant: &TunedVariant) -> toml::Value {
    let mut table = toml::Table::new();
    table.insert("name".into(), variant.name.clone().into());
    table.insert("settings".into(), strings(&variant.settings));
    table.insert("env".into(), strings(&variant.env));
    table.into()
}

fn levels(
    tables: BTreeMap<String, Vec<toml::Value>>,
) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut levels = BTreeMap::new();
    for (name, values) in tables {
        let texts: Vec<String> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        if let Some(refused) = texts.iter().find(|value| !accepts(&name, value)) {
            return Err(format!("search.levels: `{name}` is no setting that can be `{refused}`"));
        }
        levels.insert(name, texts);
    }
    Ok(levels)
}

fn check_most(budget: &BudgetTable) -> Result<(), String> {
    let BudgetTable { search, confirm, attempts } = *budget;
    if search <= MOST_TRIALS && confirm <= MOST_BLOCKS && attempts <= MOST_ATTEMPTS {
        return Ok(());
    }
    Err(format!(
        "[budget] may have at most {MOST_TRIALS} trials of search, {MOST_BLOCKS} blocks to confirm and {MOST_ATTEMPTS} attempts"
    ))
}

fn check_knobs(knobs: &[KnobSpec]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for knob in knobs {
        if knob.levels.len() < 2 {
            return Err(format!(
                "knob `{}` needs at least two levels; the first is the default",
                knob.name
            ));
        }
        if !names.insert(&knob.name) {
            return Err(format!("two knobs are named `{}`", knob.name));
        }
        let levels: BTreeSet<&String> = knob.levels.iter().map(|level| &level.name).collect();
        if levels.len() < knob.levels.len() {
            return Err(format!("two levels of knob `{}` have the same name", knob.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOG: &str = r#"
name = "blog"
[server]
command = ["puma", "-C", "puma.rb", "config.ru"]
env = { PORT = "{port}" }
ready = { http = "/", within = "60s" }
[load.http]
path = "/"
requests = 2000
[measure]
idle = "5s"
[goal]
least = "memory.pss.late"
guards = { "latency.p95" = "+5%", throughput = "+3%" }
margin = "1%"
[search]
leave = ["ksm"]
levels = { arena_max = [1, 2] }
[[knob]]
name = "puma"
levels = [{ name = "4x3", env = { WORKERS = "4" } }, { name = "2x6", env = { WORKERS = "2" } }]
[budget]
search = 60
"#;

    fn parse(text: &str) -> Result<TuneSpec, ExperimentFileError> {
        let parsed = TuneSpec::parse(text.into(), Path::new("tune.toml"), Path::new("."));
        parsed.map(|(spec, _)| spec)
    }

    #[test]
    fn every_part_of_the_documented_file_is_parsed() {
        let spec = parse(BLOG).unwrap();
        assert_eq!((spec.name.as_str(), spec.least.id), ("blog", "memory.pss.late"));
        let guards: Vec<_> =
            spec.guards.iter().map(|(metric, limit)| (metric.id, *limit)).collect();
        assert_eq!(guards, [("latency.p95", 0.05), ("throughput", 0.03)]);
        assert_eq!(spec.levels["arena_max"], ["1", "2"]);
        assert_eq!((spec.search_trials, spec.confirm_blocks, spec.attempts), (60, 60, 2));
        assert_eq!(spec.knobs[0].levels[1].env["WORKERS"], "2");
        assert_eq!(spec.command, ["puma", "-C", "puma.rb", "config.ru"]);
    }

    #[test]
    fn a_block_is_a_valid_experiment_with_the_workload_and_the_goal() {
        let spec = parse(BLOG).unwrap();
        let other = TunedVariant {
            name: "1".into(),
            settings: [("malloc.top_pad".to_owned(), "64k".to_owned())].into(),
            env: [("WORKERS".to_owned(), "2".to_owned())].into(),
        };
        let default = TunedVariant { name: "default".into(), ..TunedVariant::default() };
        let block = BlockSpec {
            name: "blog-search-1".into(),
            variants: vec![default, other],
            blocks: 1,
            seed: 7,
            attempts: Some(2),
        };
        let text = spec.experiment(&block);
        let made = Experiment::parse(&text, Path::new("x"), Path::new(".")).unwrap();
        assert_eq!(made.variants[1].settings.describe()["malloc.top_pad"], "65536");
        assert_eq!(made.variants[1].env["WORKERS"], "2");
        assert_eq!(
            (made.trials.max, made.trials.seed, made.trials.warmup_block, made.trials.attempts),
            (1, Some(7), false, Some(2))
        );
        assert_eq!(made.measure.idle.map(|idle| idle.to_string()).as_deref(), Some("5s"));
        assert_eq!(made.measure.guards.len(), 2);
    }

    #[test]
    fn an_error_names_what_is_wrong() {
        for (from, to, expected) in [
            ("least = \"memory.pss.late\"", "least = \"memory\"", "unknown metric `memory`"),
            ("\"+5%\"", "\"-5%\"", "must be a positive percentage"),
            ("arena_max = [1, 2]", "arena_max = [0]", "`arena_max` is no setting that can be `0`"),
            (", { name = \"2x6\", env = { WORKERS = \"2\" } }", "", "needs at least two levels"),
            ("\"2x6\"", "\"4x3\"", "two levels of knob `puma` have the same name"),
            ("search = 60", "search = 3", "at least 30 trials"),
            ("search = 60", "confirm = 6", "and 7 blocks for it"),
            ("search = 60", "serch = 60", "did you mean `search`?"),
            ("[goal]", "[[variant]]\nname = \"x\"\n[goal]", "leave out [variant]"),
            (
                "[goal]\nleast = \"memory.pss.late\"",
                "[[variant]]\nname = \"x\"\n[measure.more]",
                "this is the file of an experiment, because it has [[variant]]; run `carat compare tune.toml`; a search has [goal] instead of [[variant]]",
            ),
            ("requests = 2000", "request = 2000", "did you mean `requests`?"),
        ] {
            let changed = BLOG.replace(from, to);
            assert_ne!(changed, BLOG, "{from}");
            let error = parse(&changed).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
