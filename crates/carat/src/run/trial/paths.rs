//! Where the processes of one trial keep their files, and their ports.

use crate::config::{Experiment, Placeholders};
use crate::run::Interrupt;
use crate::run::trial::TrialPlan;
use crate::target::{DistinctPorts, log_tail};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// What every trial of a run shares.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// A private directory that is removed after the run.
    pub directory: PathBuf,
    /// The start of the token in the environment of every process of this run.
    pub token: String,
    /// The user's request to stop.
    pub interrupt: Interrupt,
}

/// Names of the commands of a trial, as of their tables in the experiment file.
pub(crate) const PREPARE: &str = "prepare";
pub(crate) const CLEANUP: &str = "cleanup";
pub(crate) const LOAD: &str = "load";

/// Lines of each command's output that a trial keeps.
const COMMAND_LINES: usize = 20;

/// Ports, folder and token of one trial.
pub(crate) struct TrialPaths {
    /// Values of the placeholders in commands and environments.
    pub(crate) values: Placeholders,
    pub(crate) port: u16,
    pub(crate) service_ports: BTreeMap<String, u16>,
    pub(crate) folder: PathBuf,
    pub(crate) token: String,
    /// Objects that a command makes before its program begins.
    pub(crate) objects: u32,
}

impl TrialPaths {
    /// Creates the trial's folder and chooses its ports.
    pub(crate) fn new(
        experiment: &Experiment,
        context: &RunContext,
        plan: &TrialPlan,
    ) -> io::Result<Self> {
        let folder = context.directory.join(&plan.id);
        // `create_dir` fails where the folder exists, so two trials never share one.
        fs::create_dir(&folder)?;
        let mut ports = DistinctPorts::default();
        let port = ports.next()?;
        let mut service_ports = BTreeMap::new();
        for name in experiment.services.keys() {
            service_ports.insert(name.clone(), ports.next()?);
        }
        let values = experiment.placeholders(port, &folder, |name| service_ports[name]);
        // Below the run's token, by which the reaper finds the processes of every trial.
        let token = format!("{}/{}", context.token, plan.id);
        Ok(Self { values, port, service_ports, folder, token, objects: plan.objects })
    }

    /// The output of a command of the trial. A service's log has no dot in front.
    pub(crate) fn command_log(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.log"))
    }

    /// The log of the trial: what the server printed, after the output of `[prepare]` and before that of `[load.command]`
    /// and `[cleanup]`, whose lines begin with their names.
    pub(crate) fn whole_log(&self, server: &str) -> String {
        let of = |name: &str| {
            let tail = log_tail(&self.command_log(name), COMMAND_LINES);
            tail.lines().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        };
        let (before, load, after) = (of(PREPARE), of(LOAD), of(CLEANUP));
        let server = server.lines().map(str::to_owned);
        before.into_iter().chain(server).chain(load).chain(after).collect::<Vec<_>>().join("\n")
    }
}
