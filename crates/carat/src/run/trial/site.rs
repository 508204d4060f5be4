//! Everything that runs during one trial, so that all of it can be watched and all of it be removed.

use crate::core::{Bytes, Ledger, Sample};
use crate::load::Generator;
use crate::observe::{Probes, Sampler, ledger, read_insides};
use crate::process::{Identity, ProcRoot, Tree};
use crate::run::trial::service::Service;
use crate::run::trial::{Interrupt, Phase, Progress};
use crate::target::{Guard, Server, stop};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What runs during one trial.
pub(crate) struct Site<'a> {
    pub(crate) services: Vec<Service>,
    pub(crate) server: Option<Server>,
    pub(crate) tree: Option<Tree>,
    pub(crate) generator: Option<Generator>,
    pub(crate) sampler: Sampler,
    pub(crate) samples: Vec<Sample>,
    /// Numbers of answered requests at which a full sample is still to be taken.
    pub(crate) marks: Vec<u64>,
    /// Followed during the measured load only.
    pub(crate) probes: Probes,
    pub(crate) began: Instant,
    pub(crate) guard: &'a mut Guard,
    pub(crate) interrupt: Interrupt,
    pub(crate) watch: &'a mut dyn FnMut(Progress),
}

/// Why waiting ended before what was waited for.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The user asked.
    Interrupted,
    /// The server ended by itself.
    Ended(ExitStatus),
}

impl<'a> Site<'a> {
    /// Nothing runs yet; the trial's clock does from now on.
    pub(crate) fn new(
        sampler: Sampler,
        guard: &'a mut Guard,
        interrupt: Interrupt,
        watch: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self {
            services: Vec::new(),
            server: None,
            tree: None,
            generator: None,
            sampler,
            samples: Vec::new(),
            marks: Vec::new(),
            probes: Probes::default(),
            began: Instant::now(),
            guard,
            interrupt,
            watch,
        }
    }

    /// Milliseconds since the trial began.
    pub(crate) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// One short step of waiting: notices an end or a wish to stop, samples when that is due.
    pub(crate) fn step(&mut self, phase: Phase, done: Option<f64>) -> Result<(), Halt> {
        if self.interrupt.asked() {
            return Err(Halt::Interrupted);
        }
        if let Some(status) = self.server.as_mut().and_then(Server::ended) {
            return Err(Halt::Ended(status));
        }
        let answered = self.generator.as_ref().filter(|_| phase == Phase::Load);
        let answered = answered.map(|load| load.done());
        let marked = answered.is_some_and(|answered| self.passes_a_mark(answered));
        let wait = self.sampler.wait(self.began.elapsed());
        if wait.is_zero() || marked {
            let members = self.members();
            let at = self.began.elapsed();
            let mut sample = match marked {
                true => self.sampler.full(&members, at),
                false => self.sampler.sample(&members, at),
            };
            sample.answered = answered;
            if phase == Phase::Load {
                // Read, not asked: asking makes the server work.
                sample.inside = self.probes.read(&ProcRoot::default(), &members, at);
            }
            let memory = weight(&sample);
            self.keep(sample);
            (self.watch)(Progress { phase, done, memory });
        }
        sleep(wait.clamp(Duration::from_millis(1), Duration::from_millis(20)));
        Ok(())
    }

    /// Keeps a sample; the later one of two within a millisecond.
    pub(crate) fn keep(&mut self, sample: Sample) {
        if self.samples.last().is_some_and(|last| last.at_ms == sample.at_ms) {
            self.samples.pop();
        }
        self.samples.push(sample);
    }

    fn passes_a_mark(&mut self, answered: u64) -> bool {
        let ahead = self.marks.len();
        self.marks.retain(|mark| *mark > answered);
        self.marks.len() < ahead
    }

    /// Steps for a fixed time.
    pub(crate) fn rest(&mut self, phase: Phase, time: Duration) -> Result<(), Halt> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step(phase, None)?;
        }
        Ok(())
    }

    /// Every figure of this moment, whatever it costs.
    pub(crate) fn full_sample(&mut self) -> Sample {
        let members = self.members();
        self.sampler.full(&members, self.began.elapsed())
    }

    /// What the tree is made of at this moment.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let (root, members) = (ProcRoot::default(), self.members());
        ledger(&root, &members, &read_insides(&root, &members))
    }

    /// Who belongs to the server now; the guard is told of each.
    pub(crate) fn members(&mut self) -> Vec<Identity> {
        let Some(tree) = &mut self.tree else { return Vec::new() };
        let members: Vec<Identity> =
            self.sampler.look(tree).iter().map(|stat| stat.identity()).collect();
        self.guard.watch(members.iter().copied());
        members
    }

    /// Processor time of the tree so far, in clock ticks, its dead children included.
    pub(crate) fn cpu_ticks(&mut self) -> u64 {
        let members = self.tree.as_mut().map(Tree::members).unwrap_or_default();
        members.iter().map(|stat| stat.own_ticks + stat.children_ticks).sum()
    }

    /// Stops generator, server and services; the names of survivors, and whether the server had to be killed.
    pub(crate) fn close(&mut self, grace: Duration) -> (Vec<String>, bool) {
        let grace = if self.interrupt.impatient() { Duration::ZERO } else { grace };
        self.generator = None;
        let (mut left, mut forced) = (Vec::new(), false);
        if let Some(mut tree) = self.tree.take() {
            let server = &mut self.server;
            let stopped = stop(&mut tree, grace, || {
                server.as_mut().map(Server::ended);
            });
            (left, forced) = (stopped.left, stopped.forced);
        }
        self.server = None;
        for mut service in self.services.drain(..).rev() {
            left.extend(service.stop(grace));
        }
        (left, forced)
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// What to show as the weight of a sample: proportional memory, or resident memory of one process.
pub(crate) fn weight(sample: &Sample) -> Option<Bytes> {
    sample.pss.or(sample.rss)
}
