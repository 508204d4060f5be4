//! The tables of an experiment file as serde reads them. Everything past this module is validated.

use crate::config::Percent;
use carat_model::{CommandTable, LoadTable, Span};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentTable {
    pub(super) name: String,
    pub(super) about: Option<String>,
    pub(super) server: Option<ServerTable>,
    pub(super) run: Option<RunTable>,
    pub(super) prepare: Option<CommandTable>,
    pub(super) cleanup: Option<CommandTable>,
    #[serde(default)]
    pub(super) services: BTreeMap<String, ServiceTable>,
    pub(super) load: Option<LoadTable>,
    #[serde(rename = "variant")]
    pub(super) variants: Vec<VariantTable>,
    #[serde(default)]
    pub(super) measure: MeasureTable,
    #[serde(default)]
    pub(super) trials: TrialsTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTable {
    pub(super) command: Vec<String>,
    pub(super) ready: ReadyTable,
    pub(super) dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) settings: toml::Table,
    #[serde(default = "default_stop_within")]
    pub(super) stop_within: Span,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTable {
    pub(super) command: Vec<String>,
    pub(super) dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) settings: toml::Table,
    #[serde(default = "default_run_within")]
    pub(super) within: Span,
    #[serde(default = "default_stop_within")]
    pub(super) stop_within: Span,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceTable {
    pub(super) command: Vec<String>,
    pub(super) ready: ReadyTable,
    pub(super) dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadyTable {
    pub(super) http: Option<String>,
    #[serde(default)]
    pub(super) tcp: bool,
    pub(super) log: Option<String>,
    #[serde(default = "default_ready_within")]
    pub(super) within: Span,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) control: ControlNames,
    pub(super) profile: Option<String>,
    #[serde(default)]
    pub(super) settings: toml::Table,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) command: Option<Vec<String>>,
    pub(super) dir: Option<PathBuf>,
}

/// Names of controls: one text, or a list.
#[derive(Debug, Default)]
pub(super) struct ControlNames(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for ControlNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ControlVisitor)
    }
}

/// Instead of an untagged enum, whose errors do not say what is expected.
struct ControlVisitor;

impl<'de> Visitor<'de> for ControlVisitor {
    type Value = ControlNames;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the name of a variant, or a list of names")
    }

    fn visit_str<E>(self, name: &str) -> Result<ControlNames, E> {
        Ok(ControlNames(vec![name.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<ControlNames, A::Error> {
        let mut listed = Vec::new();
        while let Some(name) = names.next_element()? {
            listed.push(name);
        }
        Ok(ControlNames(listed))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MeasureTable {
    pub(super) primary: Option<String>,
    pub(super) guards: BTreeMap<String, Percent>,
    pub(super) sample_every: Span,
    pub(super) settle: Span,
    pub(super) at_requests: Vec<u64>,
    pub(super) idle: Option<Span>,
    pub(super) census: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TrialsTable {
    pub(super) max: u32,
    pub(super) margin: Percent,
    pub(super) seed: Option<u64>,
    pub(super) warmup_block: bool,
    pub(super) attempts: Option<u32>,
}

impl Default for MeasureTable {
    fn default() -> Self {
        Self {
            primary: None,
            guards: BTreeMap::new(),
            sample_every: Span::millis(500),
            settle: Span::millis(500),
            at_requests: Vec::new(),
            idle: None,
            census: false,
        }
    }
}

impl Default for TrialsTable {
    fn default() -> Self {
        Self { max: 30, margin: Percent(0.005), seed: None, warmup_block: true, attempts: None }
    }
}

const fn default_stop_within() -> Span {
    Span::seconds(10)
}

const fn default_run_within() -> Span {
    Span::seconds(3600)
}

const fn default_ready_within() -> Span {
    Span::seconds(60)
}
