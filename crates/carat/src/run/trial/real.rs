//! The real runner: real services, a real server, real load, the kernel's figures.

use crate::config::{Experiment, Placeholders, fill};
use crate::core::load_table::LoadTableError;
use crate::core::observations::load_window;
use crate::core::{LoadReport, LoadSpec, Observations, Outcome, Severity, Trial, metric};
use crate::load::clock::MonotonicTime;
use crate::load::{Generator, LoadError};
use crate::observe::{Collections, SampleOptions, Sampler, check_settings, oom_kills};
use crate::process::{Identity, ProcRoot, Tree};
use crate::run::trial::prepare::directory;
use crate::run::trial::service::{Service, ServiceOrder, ready_probe};
use crate::run::trial::site::{Halt, Site};
use crate::run::trial::{Interrupt, Phase, Prepared, Progress, TrialError, TrialPlan, TrialRunner};
use crate::settings::SettingStatus;
use crate::target::{Guard, Held, LaunchSpec, NewRoot, check_ready, free_port};
use carat_wire::env::{PAGES, TOKEN};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a real runner needs from outside.
#[derive(Debug, Clone)]
pub struct Workshop {
    /// This binary, to be executed again as stage and as generator.
    pub exe: PathBuf,
    /// A private directory that is removed after the run.
    pub directory: PathBuf,
    /// What every process of this run carries at the start of its token.
    pub token: String,
    /// The user's wish to stop.
    pub interrupt: Interrupt,
}

/// Runs trials on real servers.
#[derive(Debug)]
pub struct ProcessRunner {
    experiment: Experiment,
    prepared: Vec<Prepared>,
    workshop: Workshop,
    guard: Guard,
}

/// How the part between start and stop went.
enum Course {
    /// It came to an outcome.
    Outcome(Outcome, Option<String>),
    /// It could not be run.
    Error(TrialError),
}

impl From<TrialError> for Course {
    fn from(error: TrialError) -> Self {
        Self::Error(error)
    }
}

/// Where the services and the server of one trial are.
struct Places {
    values: Placeholders,
    port: u16,
    service_ports: BTreeMap<String, u16>,
    folder: PathBuf,
    token: String,
}

impl ProcessRunner {
    /// A runner for one experiment whose variants are prepared.
    pub fn new(
        experiment: Experiment,
        prepared: Vec<Prepared>,
        workshop: Workshop,
        guard: Guard,
    ) -> Self {
        Self { experiment, prepared, workshop, guard }
    }

    fn places(&self, plan: &TrialPlan) -> io::Result<Places> {
        let folder = self.workshop.directory.join(&plan.id);
        fs::create_dir(&folder)?;
        let port = free_port()?;
        let mut values = Placeholders::from([
            ("port".to_owned(), port.to_string()),
            ("dir".to_owned(), folder.display().to_string()),
        ]);
        let mut service_ports = BTreeMap::new();
        for name in self.experiment.services.keys() {
            let port = free_port()?;
            values.insert(format!("services.{name}.port"), port.to_string());
            service_ports.insert(name.clone(), port);
        }
        let token = format!("{}/{}", self.workshop.token, plan.id);
        Ok(Places { values, port, service_ports, folder, token })
    }
}

impl TrialRunner for ProcessRunner {
    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Trial, TrialError> {
        let machine = |what: &str| {
            let what = what.to_owned();
            move |source| TrialError::Machine { what, source }
        };
        let places = self.places(plan).map_err(machine("cannot prepare a trial"))?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let interrupt = self.workshop.interrupt.clone();
        let mut site = Site::new(sampler(&self.experiment), &mut self.guard, interrupt, watch);
        site.marks.clone_from(&self.experiment.measure.at_requests);
        let script = Script {
            experiment: &self.experiment,
            prepared: &self.prepared[plan.variant],
            workshop: &self.workshop,
            places: &places,
            oom_kills: oom_kills(&ProcRoot::default()),
        };
        let mut observed = Observations::default();
        let course = script.play(&mut site, &mut observed);
        let log_tail = site.server.as_ref().map(|server| server.log_tail(50)).unwrap_or_default();
        (site.watch)(Progress { phase: Phase::Stop, done: None, memory: None });
        let grace = self.experiment.server.stop_within.0;
        let (left, forced) = site.close(grace);
        observed.notes.extend(forced.then(|| lingered(grace)));
        observed.samples = std::mem::take(&mut site.samples);
        let seconds = site.began.elapsed().as_secs_f64();
        drop(site);
        // A folder that cannot be removed now goes with the private directory of the run.
        let _ = fs::remove_dir_all(&places.folder);
        if !left.is_empty() {
            return Err(TrialError::Left(left.join(", ")));
        }
        let (outcome, detail) = match course {
            Course::Outcome(outcome, detail) => (outcome, detail),
            Course::Error(error) => return Err(error),
        };
        let metrics =
            if outcome == Outcome::Ok { metric::of_trial(&observed) } else { BTreeMap::new() };
        Ok(Trial {
            id: plan.id.clone(),
            block: plan.block,
            position: plan.position,
            variant: plan.name.clone(),
            outcome,
            detail,
            started_ms: started.as_millis() as u64,
            seconds,
            metrics,
            samples: observed.samples,
            load_window_ms: observed.window_ms,
            load: observed.load,
            notes: observed.notes,
            log_tail,
        })
    }
}

/// One trial's course from the first service to the final figures.
struct Script<'a> {
    experiment: &'a Experiment,
    prepared: &'a Prepared,
    workshop: &'a Workshop,
    places: &'a Places,
    /// Kills for want of memory that the kernel counted before the trial.
    oom_kills: Option<u64>,
}

impl Script<'_> {
    fn play(&self, site: &mut Site<'_>, observed: &mut Observations) -> Course {
        match self.try_play(site, observed) {
            Ok(()) => Course::Outcome(Outcome::Ok, None),
            Err(course) => course,
        }
    }

    fn try_play(&self, site: &mut Site<'_>, observed: &mut Observations) -> Result<(), Course> {
        observed.available.0 = crate::observe::available(&ProcRoot::default());
        self.start_services(site)?;
        let started = self.start_server(site)?;
        self.wait_until_ready(site)?;
        observed.boot = Some(started.elapsed());
        let ready = site.full_sample();
        site.keep(ready.clone());
        observed.ready = Some(ready);
        let (table, authority) = (&self.experiment.load, format!("127.0.0.1:{}", self.places.port));
        let folder = &self.experiment.folder;
        if let Some(warmup) = table.warmup(&authority).map_err(contradiction)? {
            self.drive(site, warmup.in_folder(folder), Phase::WarmUp)?;
        }
        let load = table.spec(&authority).map_err(contradiction)?;
        let root = ProcRoot::default();
        let before = Collections::read(&root, &site.members());
        let (from, ticks) = (site.now_ms(), site.cpu_ticks());
        let began_ms = MonotonicTime::now().millis().saturating_sub(from);
        let report = self.drive(site, load.in_folder(folder), Phase::Load)?;
        observed.window_ms = Some(load_window(&report, began_ms, (from, site.now_ms())));
        let spent = site.cpu_ticks().saturating_sub(ticks);
        observed.cpu = Some(Duration::from_secs_f64(
            spent as f64 / rustix::param::clock_ticks_per_second() as f64,
        ));
        site.rest(Phase::Settle, self.experiment.measure.settle.0)
            .map_err(|halt| self.halted(halt, Outcome::Crashed))?;
        let mut last = site.full_sample();
        observed.available.1 = crate::observe::available(&ProcRoot::default());
        // Asking the probes disturbs the server, so it comes after every other figure.
        let members = site.members();
        observed.collections = Collections::read(&root, &members).since(&before);
        observed.notes = self.not_taken(&root, &members);
        last.ledger = Some(Box::new(site.ledger()));
        site.keep(last.clone());
        observed.last = Some(last);
        let fatal = report.flags.iter().find(|flag| flag.severity == Severity::Fatal);
        let invalid = fatal.map(|flag| format!("{}: {}", flag.code, flag.message));
        observed.load = Some(report);
        match invalid {
            Some(why) => Err(Course::Outcome(Outcome::LoadInvalid, Some(why))),
            None => Ok(()),
        }
    }

    /// Settings that are not in effect although they were asked for.
    fn not_taken(&self, root: &ProcRoot, members: &[Identity]) -> Vec<String> {
        let checks = check_settings(root, members, &self.prepared.settings, &self.prepared.applied);
        let failed = checks.iter().filter(|check| {
            matches!(check.status, SettingStatus::NotApplied(_) | SettingStatus::NotYet(_))
        });
        failed.map(ToString::to_string).collect()
    }

    /// What an end before its time means: `otherwise`, unless the kernel killed the server for want of memory.
    fn halted(&self, halt: Halt, otherwise: Outcome) -> Course {
        let Halt::Ended(status) = halt else { return TrialError::Interrupted.into() };
        let when = match otherwise {
            Outcome::NeverReady => "before it was ready",
            _ => "under load",
        };
        let why = format!("the server ended with {} {when}", words(status));
        let kills = oom_kills(&ProcRoot::default());
        let more = self.oom_kills.zip(kills).is_some_and(|(before, after)| after > before);
        if status.signal() == Some(libc::SIGKILL) && more {
            let why = format!("{why}: the kernel killed it for want of memory");
            return Course::Outcome(Outcome::OomKilled, Some(why));
        }
        Course::Outcome(otherwise, Some(why))
    }

    fn start_services(&self, site: &mut Site<'_>) -> Result<(), TrialError> {
        for (name, spec) in &self.experiment.services {
            (site.watch)(Progress { phase: Phase::Services, done: None, memory: None });
            let port = self.places.service_ports[name];
            let mut values = self.places.values.clone();
            values.insert("port".into(), port.to_string());
            let dir = directory(self.experiment, spec.dir.as_deref(), &format!("service `{name}`"))
                .map_err(|error| TrialError::Service(error.to_string()))?;
            let order = ServiceOrder {
                name,
                spec,
                port,
                values,
                dir,
                // Not below the server's token: a service is no part of the server's tree.
                token: format!("{}/service-{name}", self.workshop.token),
                log: self.places.folder.join(format!("{name}.log")),
            };
            let service = Service::start(&self.workshop.exe, &order)?;
            site.guard.watch([service.identity()]);
            site.services.push(service);
            let newest = site.services.last_mut().into_iter();
            newest
                .into_iter()
                .try_for_each(|service| service.wait(&order, &self.workshop.interrupt))?;
        }
        Ok(())
    }

    fn start_server(&self, site: &mut Site<'_>) -> Result<Instant, TrialError> {
        let pages = self.places.folder.join("pages");
        fs::create_dir(&pages).map_err(|source| TrialError::Machine {
            what: "cannot prepare a trial".into(),
            source,
        })?;
        let spec = self.launch_spec(&pages)?;
        let what = || format!("the server of variant `{}`", self.prepared.variant.name);
        let held = Held::start(&self.workshop.exe, &spec)
            .map_err(|source| TrialError::Launch { what: what(), source })?;
        let others: Vec<u32> =
            site.services.iter().map(Service::pid).chain([site.guard.pid()]).collect();
        let tree = Tree::new(ProcRoot::default(), held.identity(), self.places.token.clone())
            .with_reaper(std::process::id(), others);
        site.guard.watch([held.identity()]);
        site.tree = Some(tree);
        let started = Instant::now();
        let server =
            held.release().map_err(|source| TrialError::Launch { what: what(), source })?;
        site.server = Some(server);
        Ok(started)
    }

    fn launch_spec(&self, pages: &std::path::Path) -> Result<LaunchSpec, TrialError> {
        let fill = |text: &String| fill(text, &self.places.values).map_err(TrialError::Service);
        let command = self.prepared.command.iter().map(fill).collect::<Result<_, _>>()?;
        let mut env = BTreeMap::new();
        for (name, value) in &self.prepared.env {
            env.insert(name.clone(), fill(value)?);
        }
        env.insert(TOKEN.into(), self.places.token.clone());
        env.insert(PAGES.into(), pages.display().to_string());
        let log = self.places.folder.join("server.log");
        let root = self.new_root()?;
        Ok(LaunchSpec { command, dir: self.prepared.dir.clone(), env, log, root })
    }

    /// The root that a setting asks for: the trial's own folder, the app's and the libraries' are shared with it.
    fn new_root(&self) -> Result<Option<NewRoot>, TrialError> {
        let Some(system) = self.prepared.applied.root.clone() else { return Ok(None) };
        let scratch = self.workshop.directory.join(format!("root-{}", self.places.port));
        fs::create_dir_all(&scratch).map_err(|source| TrialError::Machine {
            what: "cannot prepare another root".into(),
            source,
        })?;
        let app = std::path::absolute(&self.experiment.folder).unwrap_or_default();
        let libraries = self.prepared.libraries.clone();
        let shared = vec![app, self.prepared.dir.clone(), libraries, self.places.folder.clone()];
        Ok(Some(NewRoot { system, scratch, shared }))
    }

    fn wait_until_ready(&self, site: &mut Site<'_>) -> Result<(), Course> {
        let ready = &self.experiment.server.ready;
        let log = self.places.folder.join("server.log");
        let probe = ready_probe(&ready.check, self.places.port, &log);
        let deadline = Instant::now() + ready.within.0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A patience of zero would mean "for ever" to the socket.
            let patience = left.clamp(Duration::from_millis(10), Duration::from_secs(1));
            let Err(not_ready) = check_ready(&probe, patience) else { return Ok(()) };
            if left.is_zero() {
                let within = ready.within.0.as_secs_f64();
                let why = format!("after {within} s the server still {}", not_ready.0);
                return Err(Course::Outcome(Outcome::NeverReady, Some(why)));
            }
            site.step(Phase::Boot, None).map_err(|halt| self.halted(halt, Outcome::NeverReady))?;
        }
    }

    fn drive(
        &self,
        site: &mut Site<'_>,
        spec: LoadSpec,
        phase: Phase,
    ) -> Result<LoadReport, Course> {
        let generator = Generator::spawn(&self.workshop.exe, &spec).map_err(TrialError::from)?;
        if let Some(tree) = &mut site.tree {
            tree.leave_out(generator.pid());
        }
        site.generator = Some(generator);
        loop {
            let Some(generator) = &mut site.generator else {
                return Err(TrialError::Interrupted.into());
            };
            if let Some(report) = generator.poll().map_err(TrialError::from)? {
                site.generator = None;
                return Ok(report);
            }
            let done = generator.progress().share();
            site.step(phase, done).map_err(|halt| self.halted(halt, Outcome::Crashed))?;
        }
    }
}

fn contradiction(error: LoadTableError) -> TrialError {
    TrialError::from(LoadError::from(error))
}

fn sampler(experiment: &Experiment) -> Sampler {
    let every = experiment.measure.sample_every.0;
    Sampler::new(ProcRoot::default(), SampleOptions { every, ..SampleOptions::default() })
}

fn lingered(grace: Duration) -> String {
    format!("was still there {} s after TERM and had to be killed", grace.as_secs_f64())
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}
