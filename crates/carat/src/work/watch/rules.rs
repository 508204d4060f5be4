//! The rules of `--on`: a dry run unless `--act` arms them.

use crate::work::watch::act::{ActionCommand, RunningActions};
use anyhow::{anyhow, bail};
use carat_model::watch::WatchedProcess;
use carat_proc::process::{Identity, ProcRoot};
use carat_watch::follow::Moment;
use carat_watch::recorder::{Kernel, Recorder};
use carat_watch::rule::{Rule, RuleAnswer, RuleBounds, RuleWatch};
use std::time::Duration;

/// What to do when a figure is too large.
#[derive(Debug)]
pub(crate) struct RuleRequest {
    /// Rules, each followed by its command.
    pub(crate) on: Vec<String>,
    /// Whether the commands are run, and not only said.
    pub(crate) act: bool,
    /// The shortest time between two commands of one rule.
    pub(crate) pause: Duration,
    /// Processes with the same role that must be left in the tree.
    pub(crate) leave: usize,
}

/// Rules with their commands.
#[derive(Debug)]
pub(super) struct ArmedRules {
    watch: RuleWatch,
    commands: Vec<ActionCommand>,
    bounds: RuleBounds,
    act: bool,
    running: RunningActions,
}

impl ArmedRules {
    /// The rules of the command line.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(super) fn new(request: &RuleRequest) -> anyhow::Result<Self> {
        let (mut rules, mut commands) = (Vec::new(), Vec::new());
        for pair in request.on.chunks(2) {
            let [rule, command] = pair else {
                bail!(
                    "--on takes a rule and a command, such as 'worker.pss > 800m' 'kill -TERM {{pid}}'"
                )
            };
            rules.push(Rule::parse(rule).map_err(|error| anyhow!(error))?);
            commands.push(ActionCommand::parse(command)?);
        }
        let bounds = RuleBounds { pause: request.pause, left: request.leave };
        Ok(Self {
            watch: RuleWatch::new(rules),
            commands,
            bounds,
            act: request.act,
            running: RunningActions::default(),
        })
    }

    /// Does what is due after a round, and returns what the user should know. Everything is an event in the store first.
    pub(super) fn act(&mut self, recorder: &mut Recorder<Kernel>, now: Moment) -> Vec<String> {
        let mut says = Vec::new();
        for (number, text) in self.running.ended() {
            says.extend(recorder.log(now, Some(number), text));
        }
        let follower = recorder.follower();
        let all = follower.rule_processes(now);
        let answers = self.watch.decide(&all, self.bounds, now.since);
        let chosen: Vec<(RuleAnswer, WatchedProcess)> = answers
            .into_iter()
            .filter_map(|answer| {
                let one = all.iter().find(|one| one.process.number == answer.process)?;
                Some((answer, one.process.clone()))
            })
            .collect();
        for (answer, process) in chosen {
            let rule = self.watch.rules()[answer.rule].to_string();
            let command = &self.commands[answer.rule];
            let shown = command.shown(&process);
            let text = match (&answer.refused, self.act) {
                (Some(refused), _) => format!("`{rule}` holds, and nothing is done: {refused}"),
                (None, false) => {
                    format!("`{rule}` holds: would run {shown} (a dry run; --act arms it)")
                }
                (None, true) => format!("`{rule}` holds: runs {shown}"),
            };
            says.extend(recorder.log(now, Some(process.number), text));
            // Looked at again right before: the pid may be another process's by now.
            let identity = Identity { pid: process.pid, start_ticks: process.start_ticks };
            if answer.refused.is_none() && self.act && ProcRoot::default().alive(identity) {
                let text = self.running.start(command, &process);
                if !text.starts_with("ran ") {
                    says.extend(recorder.log(now, Some(process.number), text));
                }
            }
        }
        says
    }
}
