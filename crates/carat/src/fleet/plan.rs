//! The plan of a fleet: which type of machine runs which block, with which binary and which seed.

use crate::config::read_text_file;
use crate::fleet::{FleetError, MachineType};
use carat_model::Fleet;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Name and version of the format of the plan.
pub(super) const SCHEMA: &str = "carat.fleet/1";
/// The file with the plan, in the fleet's folder.
pub(super) const PLAN: &str = "fleet.toml";
/// The copy of the experiment, in the same folder.
pub(super) const EXPERIMENT: &str = "experiment.toml";
/// What every part says of the experiment, in the same folder: a machine on which it cannot be prepared needs it, too.
pub(super) const INFO: &str = "experiment.json";
/// Folders in the fleet's folder: results, marks of attempts that began, and what the engine's jobs print.
pub(super) const PARTS: &str = "parts";
pub(super) const ATTEMPTS: &str = "attempts";
pub(super) const LOG: &str = "log";
/// Attempts at a block without a result after which the next attempt gives it up.
pub(super) const MOST_ATTEMPTS: u32 = 3;

/// What is fixed when a fleet is planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetPlan {
    pub(super) schema: String,
    /// Random text in the names of the fleet's jobs.
    pub id: String,
    /// Name of the experiment.
    pub name: String,
    /// Hash of the experiment's plan.
    pub plan_hash: String,
    /// Seed of the order of trials and of types.
    pub seed: u64,
    /// The most blocks that count.
    pub max_blocks: u32,
    /// The folder in which relative paths of the experiment start, on every machine.
    pub folder: PathBuf,
    /// SHA-256 of the carat that runs the blocks, in hex.
    pub binary: String,
    /// The type of machine of every block, from block 1 on.
    pub blocks: Vec<String>,
    #[serde(rename = "type")]
    pub types: Vec<MachineType>,
}

impl FleetPlan {
    /// The fleet as parts name it.
    pub fn fleet(&self) -> Fleet {
        Fleet { binary: self.binary.clone(), types: self.blocks.clone() }
    }

    /// The name of the job for a type of machine.
    pub fn job_name(&self, machine_type: &str) -> String {
        format!("carat-{}-{machine_type}", self.id)
    }

    /// The most blocks that may be given up: more point to unsuitable machines, as in an experiment on one machine.
    pub fn most_void(&self) -> usize {
        spare(self.max_blocks) as usize
    }

    /// Reads the plan in a fleet's folder.
    pub(super) fn read(folder: &Path) -> Result<Self, FleetError> {
        let path = folder.join(PLAN);
        let text = match read_text_file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FleetError::NoPlan(folder.to_owned()));
            }
            Err(error) => return Err(FleetError::io(&path)(error)),
        };
        let plan = toml::from_str::<Self>(&text).map_err(|error| error.to_string());
        let known = plan.and_then(|plan| match plan.schema.as_str() {
            SCHEMA => Ok(plan),
            other => Err(format!("its schema is `{other}`, this carat reads `{SCHEMA}`")),
        });
        known.map_err(|message| FleetError::Plan { path, message })
    }
}

/// Blocks that may be given up, as an experiment on one machine may drop blocks.
pub(super) fn spare(max_blocks: u32) -> u32 {
    (max_blocks / 10).max(2)
}
