//! Runs the commands of rules, each at most so long, and says what became of them.

use anyhow::{Context, bail};
use carat_model::watch::WatchedProcess;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a command may run.
const LONGEST: Duration = Duration::from_secs(60);
/// Commands that run at the same time.
const RUNNING: usize = 8;

/// The words of a command, without a shell: what a process calls itself is never part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActionCommand {
    words: Vec<String>,
}

impl ActionCommand {
    /// Parses a command in which `{pid}`, `{tree}` and `{worker}` are filled in.
    ///
    /// # Errors
    /// Where its quotes do not match, it is empty, or it has another placeholder.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let words =
            shlex::split(text).with_context(|| format!("the quotes in `{text}` do not match"))?;
        if words.is_empty() {
            bail!("the command of a rule is empty; write for example 'kill -TERM {{pid}}'");
        }
        for word in &words {
            let plain = word.replace("{pid}", "").replace("{tree}", "").replace("{worker}", "");
            if plain.contains(['{', '}']) {
                bail!("`{word}` has a placeholder other than {{pid}}, {{tree}} and {{worker}}");
            }
        }
        Ok(Self { words })
    }

    /// The words for a process; `None` where its place among the workers is asked for and unknown.
    fn filled(&self, process: &WatchedProcess) -> Option<Vec<String>> {
        let worker = process.worker.map(|worker| worker.to_string());
        if worker.is_none() && self.words.iter().any(|word| word.contains("{worker}")) {
            return None;
        }
        let worker = worker.unwrap_or_default();
        let fill = |word: &String| {
            word.replace("{pid}", &process.pid.to_string())
                .replace("{tree}", &process.tree.to_string())
                .replace("{worker}", &worker)
        };
        Some(self.words.iter().map(fill).collect())
    }

    /// The command as it would be typed.
    pub(super) fn shown(&self, process: &WatchedProcess) -> String {
        self.filled(process).map_or_else(
            || "nothing, because its place among the workers is unknown".to_owned(),
            |words| carat_report::shell_line(&words),
        )
    }
}

/// Commands that run now.
#[derive(Debug, Default)]
pub(super) struct RunningActions(Vec<RunningAction>);

#[derive(Debug)]
struct RunningAction {
    number: i64,
    shown: String,
    child: Child,
    started: Instant,
}

impl RunningActions {
    /// Starts a command; the sentence says what happened.
    pub(super) fn start(&mut self, command: &ActionCommand, process: &WatchedProcess) -> String {
        let shown = command.shown(process);
        let Some(words) = command.filled(process) else { return shown };
        if self.0.len() >= RUNNING {
            return format!("did not run {shown}: {RUNNING} commands still run");
        }
        let Some((program, arguments)) = words.split_first() else { return shown };
        let mut made = Command::new(program);
        made.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match made.spawn() {
            Ok(child) => {
                let (number, started) = (process.number, Instant::now());
                self.0.push(RunningAction { number, shown: shown.clone(), child, started });
                format!("ran {shown}")
            }
            Err(error) => format!("could not run {shown}: {error}"),
        }
    }

    /// Sentences about those that failed, with the number of the process; those that run too long are ended.
    pub(super) fn ended(&mut self) -> Vec<(i64, String)> {
        let mut says = Vec::new();
        self.0.retain_mut(|one| {
            if one.started.elapsed() > LONGEST {
                end(&mut one.child);
                says.push((one.number, format!("ended {}, which ran for a minute", one.shown)));
                return false;
            }
            match one.child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) if status.success() => false,
                Ok(Some(status)) => {
                    says.push((one.number, format!("{} failed: {status}", one.shown)));
                    false
                }
                Err(error) => {
                    says.push((one.number, format!("{} is lost: {error}", one.shown)));
                    false
                }
            }
        });
        says
    }
}

impl Drop for RunningActions {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|one| end(&mut one.child));
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself meanwhile, which is as good.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> WatchedProcess {
        WatchedProcess { number: 3, pid: 77, tree: 70, worker: Some(1), ..Default::default() }
    }

    #[test]
    fn placeholders_are_filled_in_and_no_shell_is_between() {
        let command =
            ActionCommand::parse("notify 'a b' {pid} --of={tree} w{worker} '$(id)'").unwrap();
        let words = command.filled(&process()).unwrap();
        assert_eq!(words, ["notify", "a b", "77", "--of=70", "w1", "$(id)"]);
        let unknown = WatchedProcess { worker: None, ..process() };
        assert_eq!(command.filled(&unknown), None);
        for wrong in ["", "a 'b", "kill {title}"] {
            ActionCommand::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_command_that_fails_or_is_missing_is_said() {
        let mut running = RunningActions::default();
        let missing = ActionCommand::parse("no-such-program {pid}").unwrap();
        assert!(
            running.start(&missing, &process()).starts_with("could not run no-such-program 77")
        );
        let failing = ActionCommand::parse("false").unwrap();
        assert_eq!(running.start(&failing, &process()), "ran false");
        let deadline = Instant::now() + LONGEST / 2;
        let mut says = Vec::new();
        while says.is_empty() && Instant::now() < deadline {
            says = running.ended();
        }
        assert_eq!(says.len(), 1);
        assert!(says[0].1.contains("false failed: "), "{says:?}");
    }
}
