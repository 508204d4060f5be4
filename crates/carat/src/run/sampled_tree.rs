//! One process tree, from its start to its end, sampled whenever a sample is due.
//!
//! Trials, recordings and `exec --verify` share it. They differ in what they do with the samples.

use crate::run::Interrupt;
use crate::target::{
    CommandGroup, ExitWatch, LaunchError, LaunchSpec, PendingServer, Reaper, Server, StopReport,
    stop,
};
use carat_load::{Generator, GeneratorError};
use carat_model::{Bytes, Ledger, LoadSpec, Moment, Sample, SamplerCost};
use carat_outside::census::LookOptions;
use carat_proc::observe::{
    Probes, SampleOptions, SampledAllocations, Sampler, known_figures, ledger, memory_gate,
    read_outside,
};
use carat_proc::process::{Identity, ProcRoot, Stat, Tree, tree_ticks, with_own_memory};
use carat_wire::env::TOKEN;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a trial notes of a process that may not be the server's.
const DOUBTFUL: &str = "lost its parent and does not show whether the server or something beside it started it; it counts as the server's";

/// How a tree is sampled.
#[derive(Debug, Clone)]
pub(crate) struct TreeOptions {
    /// Period and budget of the sampler.
    pub(crate) sampling: SampleOptions,
    /// How long the result of a scan for members may be used. A scan reads every process of the machine.
    pub(crate) rescan_after: Duration,
    /// Longest pause between two steps.
    pub(crate) longest_pause: Duration,
    /// Numbers of answered requests at which a full sample is taken.
    pub(crate) full_at_requests: Vec<u64>,
}

/// What a sample includes besides memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeAccess {
    /// The probes' pages are not read.
    Ignored,
    /// The pages are read as they are. This costs the server nothing.
    Read,
    /// The pages are read, and the probes are requested to refresh them.
    ReadAndRefreshed,
}

/// The result of one step.
#[derive(Debug)]
pub(crate) enum TreeStep {
    /// No sample was due.
    NotDue,
    /// The tree has no member left.
    TreeEnded,
    /// The sample that was due.
    Sampled(Box<Sample>),
}

/// One process tree, its sampler, and the server process if carat launched it.
#[derive(Debug)]
pub(crate) struct SampledTree<'a> {
    /// Carat's own binary, which is executed again for every helper process.
    exe: PathBuf,
    root: ProcRoot,
    options: TreeOptions,
    sampler: Sampler,
    probes: Probes,
    began: Instant,
    interrupt: Interrupt,
    reaper: Option<&'a mut Reaper>,
    tree: Option<Tree>,
    /// The process that it launched.
    process: Option<Server>,
    /// The control group of the server alone, or why it has none; `None` where nobody asked for one.
    group: Option<Result<CommandGroup, String>>,
    launched: bool,
    members: Vec<Identity>,
    scanned_at: Option<Duration>,
    /// Processes in the newest sample.
    sampled: usize,
}

impl<'a> SampledTree<'a> {
    /// Starts the clock. Every member is registered with `reaper`, if given.
    ///
    /// # Errors
    /// If carat's own binary cannot be found.
    pub(crate) fn new(
        options: TreeOptions,
        interrupt: Interrupt,
        reaper: Option<&'a mut Reaper>,
    ) -> io::Result<Self> {
        let root = ProcRoot::default();
        let known = reaper.as_ref().map(|reaper| reaper.exe().to_owned());
        Ok(Self {
            exe: known.map_or_else(std::env::current_exe, Ok)?,
            sampler: Sampler::new(root.clone(), options.sampling),
            root,
            options,
            probes: Probes::default(),
            began: Instant::now(),
            interrupt,
            reaper,
            tree: None,
            process: None,
            group: None,
            launched: false,
            members: Vec::new(),
            scanned_at: None,
            sampled: 0,
        })
    }

    /// Samples a tree that it does not stop.
    pub(crate) fn attach(&mut self, tree: Tree) {
        self.tree = Some(tree);
    }

    /// Starts a server whose environment carries a token; returns when `exec` began. The trees of carat's children in
    /// `others` are not part of its tree.
    pub(crate) fn launch(
        &mut self,
        spec: &LaunchSpec,
        others: impl IntoIterator<Item = u32>,
    ) -> Result<Instant, LaunchError> {
        let pending = self.start_pending(spec)?;
        let token = spec.env.get(TOKEN).cloned().unwrap_or_default();
        let reaper = self.reaper.as_ref().map(|reaper| reaper.pid());
        // The reaper is a child of this process too, and no orphan of the server.
        let mut tree = Tree::new(self.root.clone(), pending.identity(), token)
            .with_subreaper(std::process::id(), reaper);
        others.into_iter().for_each(|leader| tree.exclude_tree(leader));
        self.tree = Some(tree);
        // Before `exec`: a server whose start fails half way is stopped as well.
        self.launched = true;
        if let Some(Ok(group)) = &self.group
            && let Err(reason) = group.add(pending.identity().pid)
        {
            self.group = Some(Err(reason));
        }
        // What came before is the time of the helper.
        let started = Instant::now();
        self.process = Some(pending.exec()?);
        Ok(started)
    }

    /// Lets the server that is launched next have a control group of its own, where one can be made.
    pub(crate) fn give_own_group(&mut self) {
        self.group = Some(CommandGroup::create(&self.root));
    }

    /// Highest memory that the kernel charged to the server's own control group so far.
    ///
    /// # Errors
    /// Why it is unknown.
    pub(crate) fn group_peak(&self) -> Result<Bytes, String> {
        let group = self.group.as_ref().ok_or("it has no control group of its own")?;
        group.as_ref()?.peak().ok_or_else(|| "its control group is gone".to_owned())
    }

    /// Starts the exec helper of a server or service. The reaper knows the process before it can fork.
    pub(crate) fn start_pending(
        &mut self,
        spec: &LaunchSpec,
    ) -> Result<PendingServer, LaunchError> {
        let pending = PendingServer::start(&self.exe, spec)?;
        if let Some(reaper) = &mut self.reaper {
            reaper.register([pending.identity()]);
        }
        Ok(pending)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed().as_millis() as u64
    }

    pub(crate) fn root(&self) -> &ProcRoot {
        &self.root
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Exit status of the server that the session launched; `None` while it runs.
    pub(crate) fn server_ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Server::ended)
    }

    /// Highest memory of the largest of its processes that were waited for, as the kernel recorded it; `None` while it runs.
    pub(crate) fn server_peak(&mut self) -> Option<Bytes> {
        self.process.as_mut().and_then(Server::peak)
    }

    /// A note if the server printed more than its log may have.
    pub(crate) fn log_note(&self) -> Option<String> {
        self.process.as_ref()?.log_note().map(|note| format!("the server {note}"))
    }

    /// Whether the process that the session launched and that ended this way has left a server in the background, as
    /// `unicorn -D` does.
    pub(crate) fn runs_in_background(&mut self, ended: ExitStatus) -> bool {
        // After a failure, what is left is a rest and no server.
        ended.success() && !self.members().is_empty()
    }

    /// Begins to wait for the end of the server that the session launched.
    pub(crate) fn watch_exit(&self) -> Option<ExitWatch> {
        self.process.as_ref().map(|server| ExitWatch::start(server.identity()))
    }

    /// The last lines that the server printed.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        self.process.as_ref().map(|server| server.log_tail(lines)).unwrap_or_default()
    }

    /// Starts a load generator, which is not part of the tree.
    pub(crate) fn spawn_generator(&mut self, load: &LoadSpec) -> Result<Generator, GeneratorError> {
        let generator = Generator::spawn(&self.exe, load)?;
        if let Some(tree) = &mut self.tree {
            tree.exclude(generator.pid());
        }
        Ok(generator)
    }

    /// Excludes the tree of a process that was started beside the server from the server's.
    pub(crate) fn exclude_tree(&mut self, leader: u32) {
        if let Some(tree) = &mut self.tree {
            tree.exclude_tree(leader);
        }
    }

    /// Notes on processes that are counted although they may not be the server's.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.tree.iter().flat_map(Tree::doubtful).collect();
        names.into_iter().map(|name| format!("`{name}` {DOUBTFUL}")).collect()
    }

    /// Takes a sample if one is due, or if `answered` requests reach a number at which a full one is requested.
    pub(crate) fn step(&mut self, answered: Option<u64>, access: ProbeAccess) -> TreeStep {
        let reached = answered.and_then(|answered| self.reached_full_sample(answered));
        // A number of requests does not wait for the next period.
        if reached.is_none() && !self.sampler.wait(self.elapsed()).is_zero() {
            return TreeStep::NotDue;
        }
        let members = self.recent_members();
        if members.is_empty() {
            return TreeStep::TreeEnded;
        }
        // After the scan, which can take longer than the sample.
        let at = self.elapsed();
        let mut sample = match reached {
            Some(_) => self.sampler.full(&members, at),
            None => self.sampler.sample(&members, at),
        };
        sample.answered = answered;
        sample.moment = reached.map(Moment::Requests);
        if access != ProbeAccess::Ignored {
            sample.inside = self.probes.read(&self.root, &members, at);
        }
        // After reading: the answer belongs to the next sample.
        if access == ProbeAccess::ReadAndRefreshed {
            self.probes.request(self.elapsed());
        }
        self.sampled = sample.members.len();
        TreeStep::Sampled(Box::new(sample))
    }

    /// Has every probe that is known sample allocations for so long from now on, if it does not yet. Returns whether there
    /// was one so far.
    pub(crate) fn sample_allocations(&mut self, time: Duration) -> bool {
        self.probes.sample_allocations(time)
    }

    /// Ends the samples of allocations and returns them.
    pub(crate) fn end_allocations(&mut self) -> SampledAllocations {
        let members = self.members();
        // Renews the figures, and finds who has ended.
        self.probes.read(&self.root, &members, self.elapsed());
        self.probes.end_allocations();
        self.probes.allocations()
    }

    /// Sleeps until the next sample is due, but not longer than the options allow.
    pub(crate) fn pause(&self) {
        let wait = self.sampler.wait(self.elapsed());
        // At least a millisecond, so that a late sample does not make the loop a busy one.
        sleep(wait.clamp(Duration::from_millis(1), self.options.longest_pause));
    }

    /// A sample with every figure, whatever it costs; `None` if the tree has ended.
    pub(crate) fn full_sample(&mut self, access: ProbeAccess) -> Option<Sample> {
        let members = self.members();
        if members.is_empty() {
            return None;
        }
        let at = self.elapsed();
        let mut sample = self.sampler.full(&members, at);
        if access != ProbeAccess::Ignored {
            sample.inside = self.probes.read(&self.root, &members, at);
        }
        Some(sample)
    }

    /// The ledger of the tree at this moment.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let members = self.members();
        ledger(&self.root, &members, &known_figures(&self.root, &members, None))
    }

    /// The same with what the memory of the Rubies says from outside.
    pub(crate) fn ledger_from_outside(&mut self) -> Ledger {
        let members = self.members();
        let memory = memory_gate(&self.root, |_| {});
        let options = LookOptions { classes: false, memory, ..LookOptions::default() };
        let reading = read_outside(&members, &options);
        ledger(&self.root, &members, &known_figures(&self.root, &members, Some(&reading)))
    }

    /// Scans for the current members and registers them with the reaper.
    pub(crate) fn members(&mut self) -> Vec<Identity> {
        self.scanned_at = Some(self.elapsed());
        let found =
            self.tree.as_mut().map(|tree| self.sampler.find_members(tree)).unwrap_or_default();
        if let Some(reaper) = self.reaper.as_deref_mut().filter(|_| self.launched) {
            // Strays too: if carat dies, only the list still knows of them.
            let strays = self.tree.iter().flat_map(Tree::strays).copied();
            reaper.register(found.iter().map(Stat::identity).chain(strays));
        }
        self.members = with_own_memory(&self.root, found).iter().map(Stat::identity).collect();
        self.members.clone()
    }

    /// Processor time of the tree so far, in clock ticks, including its dead children.
    pub(crate) fn cpu_ticks(&mut self) -> u64 {
        self.tree.as_mut().map_or(0, |tree| tree_ticks(&tree.members()))
    }

    /// What sampling has cost so far.
    pub(crate) fn cost(&self) -> SamplerCost {
        self.sampler.cost()
    }

    /// The kernel's first refusal, with what to do about it.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.sampler.refusal()
    }

    /// As [`Interrupt::grace`].
    pub(crate) fn grace(&self, grace: Duration) -> Duration {
        self.interrupt.grace(grace)
    }

    /// Stops the tree, if the session launched it.
    pub(crate) fn stop(&mut self, grace: Duration) -> StopReport {
        let interrupt = self.interrupt.clone();
        let grace = || interrupt.grace(grace);
        // Only what the session launched: a process that ran before is never stopped.
        let tree = self.tree.take().filter(|_| self.launched);
        let report = tree.map(|mut tree| {
            stop(&mut tree, grace, || {
                // Its status is collected meanwhile, or it would stay a zombie of carat.
                self.process.as_mut().map(Server::ended);
            })
        });
        // After its tree, because dropping the handle kills the leader alone.
        self.process = None;
        report.unwrap_or_default()
    }

    /// Stops every orphan that is left once all that carat started has been stopped, whosever it was.
    pub(crate) fn stop_orphans(&mut self, grace: Duration) -> StopReport {
        let grace = || self.grace(grace);
        let Some(reaper) = &self.reaper else { return StopReport::default() };
        let (root, carat) = (self.root.clone(), std::process::id());
        stop(&mut Tree::of_orphans(root, carat, [reaper.pid()]), grace, || {})
    }

    /// The members of a recent scan, as long as none of them has ended. A scan precedes every sample with PSS,
    /// because an unread child hides its share of its parent's pages.
    fn recent_members(&mut self) -> Vec<Identity> {
        let at = self.elapsed();
        let complete = self.sampled == self.members.len() && !self.members.is_empty();
        let recent = self.scanned_at.is_some_and(|scan| at < scan + self.options.rescan_after);
        if complete && recent && !self.sampler.will_read_pss(at) {
            return self.members.clone();
        }
        self.members()
    }

    /// The number that `answered` requests have just reached. Where they passed several, the one nearest to them: the
    /// sample says nothing about the others.
    fn reached_full_sample(&mut self, answered: u64) -> Option<u64> {
        let ahead = &mut self.options.full_at_requests;
        let reached = ahead.iter().copied().filter(|requests| *requests <= answered).max();
        ahead.retain(|requests| *requests > answered);
        reached
    }
}

impl Drop for SampledTree<'_> {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
