//! What is observed of a running process, and what that says about a setting.

use crate::settings::environment::Environment;
use carat_wire::page::{PageReading, RUNTIME_SETTINGS, Runtime};
use std::path::Path;

/// The variable that holds glibc's tunables.
pub(crate) const TUNABLES: &str = "GLIBC_TUNABLES";

/// What was read of a process; each may be missing.
#[derive(Debug, Default)]
pub struct ProcessObservation<'a> {
    /// `/proc/PID/maps`.
    pub maps: Option<&'a str>,
    /// `/proc/PID/environ`.
    pub environ: Option<&'a [u8]>,
    /// `/proc/PID/status`.
    pub status: Option<&'a str>,
    /// The target of `/proc/PID/root`.
    pub root: Option<&'a Path>,
    /// What the runtime library reports; `None` where no Ruby has loaded carat's libraries.
    pub runtime: Option<RuntimeReport>,
}

/// The settings that the runtime library reports in the shared page, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuntimeReport {
    applied: u64,
    refused: u64,
}

impl RuntimeReport {
    /// The report in a shared page.
    pub fn read(page: &PageReading) -> Self {
        Self {
            applied: page.runtime.get(Runtime::Applied).unwrap_or(0),
            refused: page.runtime.get(Runtime::Refused).unwrap_or(0),
        }
    }
}

/// Whether one setting was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingStatus {
    /// It is in effect, by this evidence.
    Applied(String),
    /// It acts only at a moment that has not come yet.
    NotYet(String),
    /// It is not in effect, for this reason.
    NotApplied(String),
    /// Nothing in the process shows it, for this reason.
    Unknown(String),
}

impl ProcessObservation<'_> {
    /// Whether the process was started with a variable of this value.
    pub(crate) fn has_variable(&self, name: &str, value: &str) -> SettingStatus {
        self.variable_status(name, |found| found == value)
    }

    /// Whether the process was started with a tunable of glibc at this value.
    pub(crate) fn has_tunable(&self, name: &str, value: &str) -> SettingStatus {
        self.variable_status(TUNABLES, |found| {
            let mut values = found
                .split(':')
                .filter_map(|tunable| tunable.split_once('=').filter(|(found, _)| *found == name));
            values.next_back().is_some_and(|(_, found)| found == value)
        })
    }

    /// Whether the process was started with a variable whose value `fits`.
    pub(crate) fn variable_status(&self, name: &str, fits: impl Fn(&str) -> bool) -> SettingStatus {
        let Some(environ) = self.environ else {
            return SettingStatus::Unknown("/proc/PID/environ cannot be read".into());
        };
        let found = environ.split(|byte| *byte == 0).any(|variable| {
            let variable = String::from_utf8_lossy(variable);
            variable.split_once('=').is_some_and(|(found, value)| found == name && fits(value))
        });
        if found {
            SettingStatus::Applied(format!("{name} is in its environment"))
        } else {
            SettingStatus::Unknown(format!(
                "{name} is not in /proc/PID/environ; a process title can hide it"
            ))
        }
    }

    /// What the runtime library reports about a setting that was requested from it.
    pub(crate) fn runtime_status(
        &self,
        name: &str,
        environment: &Environment,
        pending: &str,
    ) -> SettingStatus {
        let _ = environment;
        let Some(report) = self.runtime else {
            return SettingStatus::NotApplied(
                "no Ruby of this process tree has loaded carat's libraries".into(),
            );
        };
        let Some(bit) = RUNTIME_SETTINGS.iter().position(|known| *known == name) else {
            return SettingStatus::Unknown("the runtime does not report it".into());
        };
        if report.applied & 1 << bit != 0 {
            SettingStatus::Applied("the runtime reports it".into())
        } else if report.refused & 1 << bit != 0 {
            SettingStatus::NotApplied(
                "the runtime could not apply it; the server's stderr has the reason".into(),
            )
        } else {
            SettingStatus::NotYet(pending.into())
        }
    }
}
