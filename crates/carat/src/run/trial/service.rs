//! A service that the server needs, from start to stop.

use crate::config::{Placeholders, ReadyCheck, ServiceSpec, fill};
use crate::process::{ProcRoot, Tree};
use crate::run::trial::{Interrupt, TrialError};
use crate::target::{Held, LaunchSpec, ReadyProbe, Server, check_ready, local, stop};
use carat_wire::env::TOKEN;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    server: Server,
    tree: Tree,
}

/// What starting a service needs to know.
pub(crate) struct ServiceOrder<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) port: u16,
    pub(crate) values: Placeholders,
    pub(crate) dir: PathBuf,
    pub(crate) token: String,
    pub(crate) log: PathBuf,
}

impl Service {
    /// Starts it; its process is known from here on, whether it becomes ready or not.
    pub(crate) fn start(exe: &Path, order: &ServiceOrder<'_>) -> Result<Self, TrialError> {
        let fill_all = |texts: &[String]| -> Result<Vec<String>, TrialError> {
            texts
                .iter()
                .map(|text| fill(text, &order.values).map_err(TrialError::Service))
                .collect()
        };
        let mut env = std::collections::BTreeMap::new();
        for (name, value) in &order.spec.env {
            env.insert(name.clone(), fill(value, &order.values).map_err(TrialError::Service)?);
        }
        env.insert(TOKEN.into(), order.token.clone());
        let spec = LaunchSpec {
            command: fill_all(order.spec.command.words())?,
            dir: order.dir.clone(),
            env,
            log: order.log.clone(),
            root: None,
        };
        let failed =
            |source| TrialError::Launch { what: format!("service `{}`", order.name), source };
        let held = Held::start(exe, &spec).map_err(failed)?;
        let tree = Tree::new(ProcRoot::default(), held.identity(), order.token.clone());
        let server = held.release().map_err(failed)?;
        Ok(Self { server, tree })
    }

    /// Waits until it answers.
    pub(crate) fn wait(
        &mut self,
        order: &ServiceOrder<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), TrialError> {
        let probe = ready_probe(&order.spec.ready.check, order.port, &order.log);
        let deadline = Instant::now() + order.spec.ready.within.0;
        loop {
            let Err(seen) = check_ready(&probe, Duration::from_secs(1)) else { return Ok(()) };
            let problem = match self.server.ended() {
                Some(status) => format!("ended with {status}"),
                None if Instant::now() >= deadline => seen.0,
                None if interrupt.asked() => return Err(TrialError::Interrupted),
                None => {
                    sleep(Duration::from_millis(20));
                    continue;
                }
            };
            let tail = self.server.log_tail(5);
            let name = order.name;
            return Err(TrialError::Service(format!(
                "service `{name}` {problem}; it printed:\n{tail}"
            )));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.identity().pid
    }

    pub(crate) fn identity(&self) -> crate::process::Identity {
        self.server.identity()
    }

    /// Stops it and everything of it; the names of survivors.
    pub(crate) fn stop(&mut self, grace: Duration) -> Vec<String> {
        let server = &mut self.server;
        stop(&mut self.tree, grace, || {
            server.ended();
        })
        .left
    }
}

/// The way to ask that `ready` describes.
pub(crate) fn ready_probe(check: &ReadyCheck, port: u16, log: &Path) -> ReadyProbe {
    match check {
        ReadyCheck::Http(path) => ReadyProbe::Http { address: local(port), path: path.clone() },
        ReadyCheck::Log(text) => ReadyProbe::Log { log: log.to_owned(), text: text.clone() },
        ReadyCheck::Tcp => ReadyProbe::Tcp { port },
    }
}
