//! A command that runs beside the server during one trial and ends by itself: `[prepare]`, `[cleanup]`,
//! `[load.command]`.

use crate::config::{CommandSpec, Placeholders};
use crate::run::sampled_tree::SampledTree;
use crate::run::trial::TrialError;
use crate::run::trial::side_process::{SideProcess, filled};
use crate::target::{LaunchSpec, log_tail};
use carat_model::{one_line, shorten};
use carat_wire::env::TOKEN;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Characters that a message shows of a command's last line.
const LAST_LINE: usize = 200;
/// Pause between two checks whether a command has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// How to start a command.
pub(crate) struct CommandOrder<'a> {
    /// The name of its table, for messages.
    pub(crate) name: &'a str,
    pub(crate) spec: &'a CommandSpec,
    /// Environment of the server, with placeholders; the command's own variables replace these.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) values: &'a Placeholders,
    pub(crate) dir: PathBuf,
    pub(crate) token: String,
    pub(crate) log: PathBuf,
}

/// A running command with its deadline.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    process: SideProcess,
    /// The name of its table and the command, for messages.
    title: String,
    log: PathBuf,
    within: Duration,
    deadline: Instant,
}

/// How a command ended: `Err` says what went wrong, with the last line that it printed.
pub(crate) type CommandEnd = Result<(), String>;

impl CommandOrder<'_> {
    fn launch_spec(&self) -> Result<LaunchSpec, TrialError> {
        // The command's own variables come last and win.
        let variables = self.env.iter().chain(&self.spec.env);
        let (command, mut env) = filled(self.spec.command.words(), variables, self.values)?;
        env.insert(TOKEN.into(), self.token.clone());
        let (dir, log) = (self.dir.clone(), self.log.clone());
        Ok(LaunchSpec { command, dir, env, log, root: None, main_stack: None })
    }
}

impl RunningCommand {
    /// Starts it in a session of its own.
    pub(crate) fn start(
        server: &mut SampledTree<'_>,
        order: &CommandOrder<'_>,
    ) -> Result<Self, TrialError> {
        let (spec, name) = (order.launch_spec()?, order.name);
        let title = format!("{name} `{}`", spec.command.join(" "));
        let within = order.spec.within.0;
        let process = SideProcess::launch(server, name, &spec)?;
        let deadline = Instant::now() + within;
        Ok(Self { process, title, log: spec.log, within, deadline })
    }

    /// How it ended; `None` while it runs and its deadline is ahead.
    pub(crate) fn ended(&mut self) -> Option<CommandEnd> {
        match self.process.ended() {
            Some(status) if status.success() => Some(Ok(())),
            Some(status) => Some(Err(failure(
                &self.title,
                &format!("ended with {}", status_text(status)),
                &self.log,
            ))),
            // Only while it runs: a command that has ended in time is not late.
            None if Instant::now() >= self.deadline => {
                let what = format!("still ran after {} s", self.within.as_secs_f64());
                Some(Err(failure(&self.title, &what, &self.log)))
            }
            None => None,
        }
    }

    /// Waits for its end; `None` if `gives_up` holds before.
    pub(crate) fn wait(&mut self, gives_up: impl Fn() -> bool) -> Option<CommandEnd> {
        loop {
            if let Some(end) = self.ended() {
                return Some(end);
            }
            if gives_up() {
                return None;
            }
            sleep(PAUSE);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A note if it printed more than its log may have.
    pub(crate) fn log_note(&self) -> Option<String> {
        self.process.log_note()
    }

    /// Stops it and every process that it left running. Returns the names of survivors.
    pub(crate) fn stop(&mut self, grace: impl Fn() -> Duration) -> Vec<String> {
        self.process.stop(grace)
    }
}

/// What happened to a command, and the last line of its log.
pub(crate) fn failure(title: &str, what: &str, log: &Path) -> String {
    let text = log_tail(log, 1);
    let last = shorten(&one_line(&text), LAST_LINE);
    if last.is_empty() {
        return format!("{title} {what} and printed nothing");
    }
    format!("{title} {what}: {last}")
}

pub(crate) fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_the_last_line_that_was_printed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(
            failure("prepare `cp a b`", "ended", &log),
            "prepare `cp a b` ended and printed nothing"
        );
        std::fs::write(&log, "one\ncp: no such file\n").unwrap();
        assert_eq!(
            failure("prepare `cp a b`", "ended", &log),
            "prepare `cp a b` ended: cp: no such file"
        );
        std::fs::write(&log, "x".repeat(1000)).unwrap();
        assert!(failure("t", "ended", &log).len() < 300);
    }
}
