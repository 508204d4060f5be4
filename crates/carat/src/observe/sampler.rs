//! Samples of a process tree, the dear figures on a budget.

use crate::core::{Bytes, MemberSample, Sample, SamplerCost};
use crate::observe::cgroup::Cgroup;
use crate::observe::directory::Directory;
use crate::observe::{Rollup, SamplingBudget, Slots, parse_rollup, parse_status};
use crate::process::{Identity, ProcError, ProcRoot, Stat, Tree};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How a tree is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleOptions {
    /// Time from one sample to the next.
    pub every: Duration,
    /// Share of one core that sampling may take, as a fraction.
    pub share: f64,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { every: Duration::from_secs(1), share: 0.005 }
    }
}

/// Reads the memory of a tree again and again, and accounts for its own cost.
///
/// Belongs to one thread, whose processor time it counts.
#[derive(Debug)]
pub struct Sampler {
    root: ProcRoot,
    options: SampleOptions,
    budget: SamplingBudget,
    slots: Slots,
    cgroup: Cgroup,
    held: HashMap<Identity, Directory>,
    buffer: Vec<u8>,
    cost: SamplerCost,
    first_at: Option<Duration>,
    last_at: Duration,
    next_due: u32,
    refusal: Option<String>,
}

/// Figures are only comparable across processes that were all read.
const ATTEMPTS: u32 = 3;

impl Sampler {
    /// A sampler that has read nothing yet.
    pub fn new(root: ProcRoot, options: SampleOptions) -> Self {
        Self {
            cgroup: Cgroup::beside(&root),
            root,
            options,
            budget: SamplingBudget::new(options.share),
            slots: Slots::default(),
            held: HashMap::new(),
            buffer: Vec::new(),
            cost: SamplerCost::default(),
            first_at: None,
            last_at: Duration::ZERO,
            next_due: 0,
            refusal: None,
        }
    }

    /// How long to wait for the next sample when `at` has passed since the start.
    ///
    /// Samples are due at the start plus a multiple of the period, so a slow one cannot shift the others.
    pub fn wait(&self, at: Duration) -> Duration {
        (self.options.every * self.next_due).saturating_sub(at)
    }

    /// Whether a sample `at` this time would bring proportional memory, and so needs every process of now.
    pub fn will_read_pss(&mut self, at: Duration) -> bool {
        self.budget.allows(at)
    }

    /// Who belongs to the tree now; finding out is part of the cost.
    pub fn find_members(&mut self, tree: &mut Tree) -> Vec<Stat> {
        let cpu = thread_cpu();
        let members = tree.members();
        let cpu = thread_cpu().saturating_sub(cpu);
        self.budget.charge(cpu);
        self.cost.cpu_s += cpu.as_secs_f64();
        members
    }

    /// One sample, `at` after the start; proportional memory only when the budget allows it.
    pub fn sample(&mut self, members: &[Identity], at: Duration) -> Sample {
        self.note_due(at);
        let dear = self.budget.allows(at);
        self.measured(at, |sampler| sampler.read(members, at, dear))
    }

    /// One sample with everything, whatever it costs; for the figures that a trial ends with.
    pub fn full(&mut self, members: &[Identity], at: Duration) -> Sample {
        let mut sample = self.measured(at, |sampler| sampler.read(members, at, true));
        for _ in 1..ATTEMPTS {
            if !sample.partial || self.refusal.is_some() {
                break;
            }
            sample = self.measured(at, |sampler| sampler.read(members, at, true));
        }
        sample
    }

    /// What sampling has cost so far.
    pub fn cost(&self) -> SamplerCost {
        let sampled = self.last_at.saturating_sub(self.first_at.unwrap_or_default()).as_secs_f64();
        let core_share = if sampled > 0.0 { self.cost.cpu_s / sampled } else { 0.0 };
        SamplerCost { core_share, ..self.cost }
    }

    /// The first refusal of the kernel, with what to do about it; figures are missing because of it.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn note_due(&mut self, at: Duration) {
        let every = self.options.every.as_nanos().max(1);
        let passed = u32::try_from(at.as_nanos() / every).unwrap_or(u32::MAX);
        self.cost.late += u64::from(passed.saturating_sub(self.next_due));
        self.next_due = passed.saturating_add(1);
    }

    fn measured(&mut self, at: Duration, read: impl FnOnce(&mut Self) -> Sample) -> Sample {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        let sample = read(self);
        let cpu = thread_cpu().saturating_sub(cpu);
        if sample.members.iter().any(|member| member.pss.is_some()) {
            self.budget.charge_pass(at, wall.elapsed(), cpu);
            self.cost.full_samples += 1;
        } else {
            self.budget.charge(cpu);
        }
        self.cost.samples += 1;
        self.cost.cpu_s += cpu.as_secs_f64();
        self.first_at.get_or_insert(at);
        self.last_at = self.last_at.max(at);
        sample
    }

    fn read(&mut self, members: &[Identity], at: Duration, dear: bool) -> Sample {
        self.follow(members);
        let slots = self.assign(members);
        let mut sample = Sample {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            ..Sample::default()
        };
        for (&member, slot) in members.iter().zip(slots) {
            match self.read_status_of(member, slot) {
                Ok(Some(figures)) => sample.members.push(figures),
                // Gone or a zombie before anything was read: not of the tree at this moment.
                Ok(None) | Err(ProcError::Ended(_)) => {}
                Err(error) => self.note_loss(&mut sample, &error),
            }
        }
        let alive: Vec<Identity> = members
            .iter()
            .filter(|member| sample.members.iter().any(|figures| figures.pid == member.pid))
            .copied()
            .collect();
        if dear {
            for (index, &member) in alive.iter().enumerate() {
                match self.read_pss(member) {
                    Ok(rollup) => {
                        let figures = &mut sample.members[index];
                        figures.pss = Some(rollup.pss);
                        figures.uss = Some(rollup.private);
                        figures.swap = rollup.swap_pss.or(figures.swap);
                    }
                    Err(error) => self.note_loss(&mut sample, &error),
                }
            }
        }
        sum(&mut sample);
        sample.cgroup = self.cgroup.read(&self.root, members);
        sample
    }

    /// Holds a directory for every member and lets go of those that left.
    fn follow(&mut self, members: &[Identity]) {
        self.held.retain(|identity, _| members.contains(identity));
        for &member in members {
            if !self.held.contains_key(&member) {
                match Directory::open(&self.root, member) {
                    Ok(directory) => {
                        self.held.insert(member, directory);
                    }
                    Err(ProcError::Ended(_)) => {}
                    Err(error) => self.refuse(&error),
                }
            }
        }
    }

    fn assign(&mut self, members: &[Identity]) -> Vec<u32> {
        let root = &self.root;
        self.slots.assign(members, |member| root.stat(member.pid).ok().map(|stat| stat.parent))
    }

    fn read_status_of(
        &mut self,
        member: Identity,
        slot: u32,
    ) -> Result<Option<MemberSample>, ProcError> {
        let directory = self.held.get_mut(&member).ok_or(ProcError::Ended(member.pid))?;
        directory.read_status(&mut self.buffer)?;
        self.cost.reads += 1;
        let status = parse_status(&self.buffer);
        Ok(status.has_memory().then_some(MemberSample {
            slot,
            pid: member.pid,
            threads: status.threads,
            rss: status.rss,
            rss_peak: status.rss_peak,
            anonymous: status.anonymous,
            pss: None,
            uss: None,
            swap: status.swap,
        }))
    }

    fn read_pss(&mut self, member: Identity) -> Result<Rollup, ProcError> {
        let directory = self.held.get(&member).ok_or(ProcError::Ended(member.pid))?;
        self.cost.reads += 1;
        read_rollup(directory, &mut self.buffer)
    }

    fn note_loss(&mut self, sample: &mut Sample, error: &ProcError) {
        sample.partial = true;
        if !matches!(error, ProcError::Ended(_)) {
            self.refuse(error);
        }
    }

    fn refuse(&mut self, error: &ProcError) {
        self.refusal.get_or_insert_with(|| error.to_string());
    }
}

/// The kernel's sums for one process: `smaps_rollup`, or `smaps` before Linux 4.14.
pub(crate) fn read_rollup(
    directory: &Directory,
    buffer: &mut Vec<u8>,
) -> Result<Rollup, ProcError> {
    let name = match directory.read("smaps_rollup", buffer) {
        Ok(()) => "smaps_rollup",
        Err(ProcError::Ended(_)) => {
            directory.read("smaps", buffer)?;
            "smaps"
        }
        Err(error) => return Err(error),
    };
    // A process that ends while its map is read leaves an empty text.
    if buffer.is_empty() {
        return Err(ProcError::Ended(directory.pid()));
    }
    parse_rollup(buffer).ok_or_else(|| ProcError::Unexpected { path: directory.file(name) })
}

/// Fills in the figures of the tree from those of its members; a partial sample has none that are sums.
fn sum(sample: &mut Sample) {
    sample.processes = u32::try_from(sample.members.len()).unwrap_or(u32::MAX);
    if sample.partial || sample.members.is_empty() {
        return;
    }
    let total = |figure: fn(&MemberSample) -> Option<Bytes>| -> Option<Bytes> {
        sample.members.iter().map(figure).sum()
    };
    let (pss, uss, swap) = (total(|m| m.pss), total(|m| m.uss), total(|m| m.swap));
    if let [only] = sample.members.as_slice() {
        sample.rss = only.rss;
        sample.rss_peak = only.rss_peak;
    }
    sample.pss = pss;
    sample.uss = uss;
    sample.shared = pss.zip(uss).map(|(pss, uss)| pss.saturating_sub(uss));
    sample.swap = swap;
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const SECOND: Duration = Duration::from_secs(1);

    fn who(pid: u32) -> Identity {
        Identity { pid, start_ticks: 7 }
    }

    fn capture(folder: &Path, pid: u32, parent: u32, pss_kib: u64) {
        let path = folder.join(pid.to_string());
        fs::create_dir_all(&path).unwrap();
        let stat = format!("{pid} (ruby) S {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 7 0");
        fs::write(path.join("stat"), stat).unwrap();
        let status = "Name:\truby\nVmHWM:\t900 kB\nVmRSS:\t800 kB\nVmSwap:\t0 kB\nThreads:\t2\n";
        fs::write(path.join("status"), status).unwrap();
        let rollup = format!("Rss: 800 kB\nPss: {pss_kib} kB\nPrivate_Dirty: 100 kB\n");
        fs::write(path.join("smaps_rollup"), rollup).unwrap();
    }

    fn captured() -> (tempfile::TempDir, Sampler) {
        let folder = tempfile::tempdir().unwrap();
        capture(folder.path(), 10, 1, 500);
        capture(folder.path(), 11, 10, 300);
        let sampler = Sampler::new(ProcRoot::new(folder.path()), SampleOptions::default());
        (folder, sampler)
    }

    #[test]
    fn a_trees_memory_is_the_sum_of_proportions_and_never_of_residents() {
        let (_folder, mut sampler) = captured();
        let sample = sampler.full(&[who(10), who(11)], SECOND);
        assert_eq!((sample.at_ms, sample.processes, sample.rss), (1000, 2, None));
        assert_eq!(sample.pss, Some(Bytes::from_kib(800)));
        assert_eq!(sample.uss, Some(Bytes::from_kib(200)));
        assert_eq!(sample.shared, Some(Bytes::from_kib(600)));
        assert_eq!(sample.members[1].rss_peak, Some(Bytes::from_kib(900)));
        let alone = sampler.full(&[who(11)], SECOND);
        assert_eq!(alone.rss, Some(Bytes::from_kib(800)));
        assert_eq!(alone.members[0].slot, 1);
    }

    #[test]
    fn a_process_that_vanishes_while_it_is_read_leaves_the_sums_unknown() {
        let (folder, mut sampler) = captured();
        fs::remove_file(folder.path().join("11/smaps_rollup")).unwrap();
        let sample = sampler.full(&[who(10), who(11)], SECOND);
        assert!(sample.partial);
        assert_eq!(sample.pss, None);
        assert_eq!(sample.members[0].pss, Some(Bytes::from_kib(500)));
    }

    #[test]
    fn a_process_that_ended_before_is_simply_not_of_the_tree() {
        let (folder, mut sampler) = captured();
        fs::write(folder.path().join("11/status"), "Name:\truby\nState:\tZ (zombie)\n").unwrap();
        let sample = sampler.full(&[who(10), who(11), who(12)], SECOND);
        assert!(!sample.partial);
        assert_eq!((sample.processes, sample.pss), (1, Some(Bytes::from_kib(500))));
    }

    #[test]
    fn between_two_passes_only_the_cheap_figures_are_read() {
        let (_folder, mut sampler) = captured();
        let members = [who(10), who(11)];
        assert!(sampler.sample(&members, Duration::ZERO).pss.is_some());
        let cheap = sampler.sample(&members, Duration::from_nanos(1));
        assert_eq!((cheap.pss, cheap.partial), (None, false));
        assert_eq!(cheap.members[0].rss, Some(Bytes::from_kib(800)));
        let cost = sampler.cost();
        assert_eq!((cost.samples, cost.full_samples, cost.reads), (2, 1, 6));
    }

    #[test]
    fn samples_are_due_from_the_start_and_missed_ones_are_counted() {
        let (_folder, mut sampler) = captured();
        sampler.sample(&[], Duration::ZERO);
        assert_eq!(sampler.wait(SECOND / 4), SECOND * 3 / 4);
        sampler.sample(&[], SECOND * 21 / 20);
        assert_eq!((sampler.cost().late, sampler.wait(SECOND * 3 / 2)), (0, SECOND / 2));
        sampler.sample(&[], SECOND * 5);
        assert_eq!(sampler.cost().late, 3);
        assert_eq!(sampler.wait(SECOND * 5), SECOND);
    }

    #[test]
    fn this_very_process_weighs_what_the_kernel_says() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let sample = Sampler::new(root, SampleOptions::default()).full(&[me], SECOND);
        let (pss, uss, rss) = (sample.pss.unwrap(), sample.uss.unwrap(), sample.rss.unwrap());
        assert!(Bytes(0) < uss && uss <= pss, "{uss} {pss} {rss}");
        assert!(sample.rss_peak >= sample.rss);
    }
}
