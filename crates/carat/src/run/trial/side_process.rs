//! A service that the server needs, from start to stop.

use crate::config::{Placeholders, ServiceSpec, fill};
use crate::run::Interrupt;
use crate::run::sampled_tree::SampledTree;
use crate::run::trial::TrialError;
use crate::target::{LaunchSpec, LogSearch, Server, check_ready, local, stop};
use carat_proc::process::{ProcRoot, Tree};
use carat_wire::env::TOKEN;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracing::debug;

/// Timeout of one check whether a service is ready.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A running service, or another process beside the server.
#[derive(Debug)]
pub(crate) struct SideProcess {
    /// What it is, for messages.
    what: String,
    server: Server,
    tree: Tree,
}

/// How to start a service.
pub(crate) struct ServiceOrder<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) port: u16,
    pub(crate) values: Placeholders,
    pub(crate) dir: PathBuf,
    pub(crate) token: String,
    pub(crate) log: PathBuf,
}

impl ServiceOrder<'_> {
    fn launch_spec(&self) -> Result<LaunchSpec, TrialError> {
        let (command, mut env) = filled(self.spec.command.words(), &self.spec.env, &self.values)?;
        env.insert(TOKEN.into(), self.token.clone());
        let (dir, log) = (self.dir.clone(), self.log.clone());
        Ok(LaunchSpec { command, dir, env, log, root: None, main_stack: None })
    }
}

/// The words of a command and its environment, with their placeholders filled in. Later variables replace earlier ones.
pub(super) fn filled<'a>(
    words: &[String],
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
    values: &Placeholders,
) -> Result<(Vec<String>, BTreeMap<String, String>), TrialError> {
    let fill = |text: &str| fill(text, values).map_err(TrialError::Setup);
    let command = words.iter().map(|word| fill(word)).collect::<Result<_, _>>()?;
    let env = env.into_iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
    Ok((command, env.collect::<Result<_, TrialError>>()?))
}

impl SideProcess {
    /// Starts it beside the server.
    pub(crate) fn start(
        server: &mut SampledTree<'_>,
        order: &ServiceOrder<'_>,
    ) -> Result<Self, TrialError> {
        Self::launch(server, &format!("service `{}`", order.name), &order.launch_spec()?)
    }

    /// Starts a process beside the server; `what` names it in an error.
    pub(crate) fn launch(
        server: &mut SampledTree<'_>,
        what: &str,
        spec: &LaunchSpec,
    ) -> Result<Self, TrialError> {
        let failed = |source| TrialError::Launch { what: what.to_owned(), source };
        let pending = server.start_pending(spec).map_err(failed)?;
        let token = spec.env.get(TOKEN).cloned().unwrap_or_default();
        let tree = Tree::new(ProcRoot::default(), pending.identity(), token);
        let server = pending.exec().map_err(failed)?;
        Ok(Self { what: what.to_owned(), server, tree })
    }

    /// Its exit status; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.server.ended()
    }

    /// Waits until it answers.
    pub(crate) fn wait(
        &mut self,
        order: &ServiceOrder<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), TrialError> {
        let ready = &order.spec.ready;
        let deadline = Instant::now() + ready.within.0;
        let (address, mut log) = (local(order.port), LogSearch::new(&order.log));
        loop {
            let Err(not_ready) = check_ready(&ready.check, address, &mut log, TIMEOUT) else {
                return Ok(());
            };
            let problem = match self.server.ended() {
                Some(status) => format!("ended with {status}"),
                None if Instant::now() >= deadline => not_ready.0,
                None if interrupt.requested() => return Err(TrialError::Interrupted),
                None => {
                    sleep(Duration::from_millis(20));
                    continue;
                }
            };
            let tail = self.server.log_tail(5);
            let name = order.name;
            debug!(name, problem, "the service is not ready");
            return Err(TrialError::Setup(format!(
                "service `{name}` {problem}; it printed:\n{tail}"
            )));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.identity().pid
    }

    /// A note if it printed more than its log may have.
    pub(crate) fn log_note(&self) -> Option<String> {
        self.server.log_note().map(|note| format!("{} {note}", self.what))
    }

    /// Stops its whole tree; `grace` is asked again and again, as a user may lose patience. Returns the names of survivors.
    pub(crate) fn stop(&mut self, grace: impl Fn() -> Duration) -> Vec<String> {
        let server = &mut self.server;
        let poll = || {
            server.ended();
        };
        stop(&mut self.tree, grace, poll).survivors
    }
}
