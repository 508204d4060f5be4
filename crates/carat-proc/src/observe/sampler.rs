//! Samples a process tree. Expensive figures (PSS) are read within a time budget.

use crate::observe::cgroup::Cgroup;
use crate::observe::directory::Directory;
use crate::observe::{Rollup, SamplingBudget, Slots, parse_rollup, parse_status};
use crate::process::{Identity, ProcError, ProcRoot, Stat, Tree};
use carat_model::{Bytes, MemberSample, Sample, SamplerCost};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

/// When a tree is sampled and at what cost.
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

/// Reads the memory of a tree repeatedly and measures its own cost.
///
/// It must stay on one thread, whose processor time it counts.
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

/// Attempts to get a complete sample: sums are meaningful only if every process was read.
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

    /// Time until the next sample is due, at `at` after the start.
    ///
    /// Samples are due at the start plus a multiple of the period, so a slow sample does not delay the others.
    pub fn wait(&self, at: Duration) -> Duration {
        (self.options.every * self.next_due).saturating_sub(at)
    }

    /// Whether a sample at this time would read PSS. It then needs the complete list of processes.
    pub fn will_read_pss(&mut self, at: Duration) -> bool {
        self.budget.allows(at)
    }

    /// The processes of the tree now. Finding them counts as cost.
    pub fn find_members(&mut self, tree: &mut Tree) -> Vec<Stat> {
        // Of this thread alone: what carat's other threads do is no cost of sampling.
        let cpu = thread_cpu();
        let members = tree.members();
        let cpu = thread_cpu().saturating_sub(cpu);
        self.budget.charge(cpu);
        self.cost.cpu_s += cpu.as_secs_f64();
        members
    }

    /// Takes a sample, `at` after the start. It has PSS only if the budget allows it.
    pub fn sample(&mut self, members: &[Identity], at: Duration) -> Sample {
        self.count_late(at);
        let with_pss = self.budget.allows(at);
        self.measured(members, at, with_pss)
    }

    /// Takes a sample with PSS, whatever it costs; for the figures at the end of a trial.
    pub fn full(&mut self, members: &[Identity], at: Duration) -> Sample {
        let mut sample = self.measured(members, at, true);
        for _ in 1..ATTEMPTS {
            // A refusal will be the same next time; only a race is worth another attempt.
            if !sample.partial || self.refusal.is_some() {
                break;
            }
            sample = self.measured(members, at, true);
        }
        sample
    }

    /// The cost of sampling so far.
    pub fn cost(&self) -> SamplerCost {
        // From the first sample on: what came before is not the time over which the cost is spread.
        let sampled = self.last_at.saturating_sub(self.first_at.unwrap_or_default()).as_secs_f64();
        let core_share = if sampled > 0.0 { self.cost.cpu_s / sampled } else { 0.0 };
        SamplerCost { core_share, ..self.cost }
    }

    /// The first read that the kernel refused, with what to do about it. Figures are missing because of it.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn count_late(&mut self, at: Duration) {
        let every = self.options.every.as_nanos().max(1);
        let passed = u32::try_from(at.as_nanos() / every).unwrap_or(u32::MAX);
        // What was due and has passed is counted, so that gaps in a series are explained.
        self.cost.late += u64::from(passed.saturating_sub(self.next_due));
        self.next_due = passed.saturating_add(1);
    }

    /// Takes a sample and charges its cost to the budget.
    fn measured(&mut self, members: &[Identity], at: Duration, with_pss: bool) -> Sample {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        let sample = self.read(members, at, with_pss);
        let cpu = thread_cpu().saturating_sub(cpu);
        // By what was read, not by what was wanted: a pass that failed at once was cheap.
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

    fn read(&mut self, members: &[Identity], at: Duration, with_pss: bool) -> Sample {
        // Each open directory of a process that has ended would keep a descriptor.
        self.held.retain(|identity, _| members.contains(identity));
        let slots = self.assign_slots(members);
        let mut sample = Sample {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            ..Sample::default()
        };
        for (&member, slot) in members.iter().zip(slots) {
            match self.read_status_of(member, slot) {
                Ok(Some(figures)) => sample.members.push(figures),
                // It ended or became a zombie before anything was read, so it is not part of the tree at this moment.
                Ok(None) | Err(ProcError::Ended(_)) => {}
                Err(error) => self.mark_partial(&mut sample, &error),
            }
        }
        if with_pss {
            self.add_pss(&mut sample, members);
        }
        add_sums(&mut sample);
        sample.cgroup = self.cgroup.read(&self.root, members, with_pss);
        sample
    }

    /// Adds the proportional figures of every process that has memory.
    fn add_pss(&mut self, sample: &mut Sample, members: &[Identity]) {
        for index in 0..sample.members.len() {
            let pid = sample.members[index].pid;
            let Some(&member) = members.iter().find(|member| member.pid == pid) else { continue };
            match self.read_pss(member) {
                Ok(rollup) => {
                    let figures = &mut sample.members[index];
                    figures.pss = Some(rollup.pss);
                    figures.uss = Some(rollup.private);
                    figures.swap = rollup.swap_pss.or(figures.swap);
                }
                Err(error) => self.mark_partial(sample, &error),
            }
        }
    }

    fn assign_slots(&mut self, members: &[Identity]) -> Vec<u32> {
        let root = &self.root;
        self.slots.assign(members, |member| root.stat(member.pid).ok().map(|stat| stat.parent))
    }

    fn read_status_of(
        &mut self,
        member: Identity,
        slot: u32,
    ) -> Result<Option<MemberSample>, ProcError> {
        let directory = match self.held.entry(member) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(new) => new.insert(Directory::open(&self.root, member)?),
        };
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

    fn mark_partial(&mut self, sample: &mut Sample, error: &ProcError) {
        // A process that ended between two reads makes the sums wrong as well, but is no refusal.
        sample.partial = true;
        if !matches!(error, ProcError::Ended(_)) {
            self.record_refusal(error);
        }
    }

    fn record_refusal(&mut self, error: &ProcError) {
        self.refusal.get_or_insert_with(|| error.to_string());
    }
}

/// The kernel's sums for one process, from `smaps_rollup`, or from `smaps` before Linux 4.14.
pub(super) fn read_rollup(
    directory: &Directory,
    buffer: &mut Vec<u8>,
) -> Result<Rollup, ProcError> {
    let name = match directory.read("smaps_rollup", buffer) {
        Ok(()) => "smaps_rollup",
        // Before Linux 4.14 the file is missing, which looks as if the process had ended.
        Err(ProcError::Ended(_)) => {
            directory.read("smaps", buffer)?;
            "smaps"
        }
        Err(error) => return Err(error),
    };
    // If a process ends while its mappings are read, the text is empty.
    if buffer.is_empty() {
        return Err(ProcError::Ended(directory.pid()));
    }
    parse_rollup(buffer).ok_or_else(|| ProcError::Unexpected { path: directory.file(name) })
}

/// Fills in the figures of the tree from those of its members. A partial sample has no sums.
fn add_sums(sample: &mut Sample) {
    sample.processes = u32::try_from(sample.members.len()).unwrap_or(u32::MAX);
    if sample.partial || sample.members.is_empty() {
        return;
    }
    let members = &sample.members;
    let pss: Option<Bytes> = members.iter().map(|member| member.pss).sum();
    let uss: Option<Bytes> = members.iter().map(|member| member.uss).sum();
    let swap: Option<Bytes> = members.iter().map(|member| member.swap).sum();
    // Of several, RSS would count shared pages twice, and their peaks are of different moments.
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
    fn the_memory_of_a_tree_is_the_sum_of_pss_and_never_of_rss() {
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

    /// The figures that are sums over a tree's processes, or that stand for the only one.
    fn sums(sample: &Sample) -> [Option<Bytes>; 6] {
        [sample.pss, sample.uss, sample.shared, sample.swap, sample.rss, sample.rss_peak]
    }

    #[test]
    fn a_process_that_ends_while_it_is_read_makes_the_sample_partial_and_leaves_no_sum() {
        let (folder, mut sampler) = captured();
        let members = [who(10), who(11)];
        let rollup = folder.path().join("11/smaps_rollup");
        let text = fs::read(&rollup).unwrap();
        fs::remove_file(&rollup).unwrap();
        for sample in [sampler.full(&members, SECOND), sampler.full(&members[1..], SECOND)] {
            assert!(sample.partial);
            assert_eq!(sums(&sample), [None; 6]);
            assert!(sample.members.iter().all(|member| member.rss.is_some()));
        }
        let sample = sampler.full(&members, SECOND);
        assert_eq!((sample.processes, sample.members.len()), (2, 2));
        assert_eq!(sample.members[0].pss, Some(Bytes::from_kib(500)));
        assert_eq!(sample.members[1].pss, None);
        assert_eq!(sampler.refusal(), None, "an ended process is not a refusal");
        fs::write(&rollup, text).unwrap();
        let whole = sampler.full(&members, SECOND);
        assert_eq!((whole.partial, whole.pss), (false, Some(Bytes::from_kib(800))));
    }

    #[test]
    fn a_process_whose_status_cannot_be_read_makes_the_sample_partial() {
        let (folder, mut sampler) = captured();
        let status = folder.path().join("11/status");
        fs::remove_file(&status).unwrap();
        fs::create_dir(&status).unwrap();
        let sample = sampler.sample(&[who(10), who(11)], Duration::ZERO);
        assert!(sample.partial);
        assert_eq!(sums(&sample), [None; 6]);
        assert_eq!(sample.processes, 1);
        assert!(sampler.refusal().unwrap().contains("11/status"));
    }

    #[test]
    fn a_process_whose_folder_cannot_be_opened_makes_the_sample_partial() {
        let (folder, mut sampler) = captured();
        let stat = folder.path().join("11/stat");
        let text = fs::read(&stat).unwrap();
        fs::remove_file(&stat).unwrap();
        fs::create_dir(&stat).unwrap();
        let sample = sampler.full(&[who(10), who(11)], SECOND);
        assert!(sample.partial);
        assert_eq!(sums(&sample), [None; 6]);
        assert!(sampler.refusal().unwrap().contains("11/stat"));
        fs::remove_dir(&stat).unwrap();
        fs::write(&stat, text).unwrap();
        let whole = sampler.full(&[who(10), who(11)], SECOND);
        assert_eq!((whole.partial, whole.pss), (false, Some(Bytes::from_kib(800))));
    }

    #[test]
    fn a_process_that_ended_before_the_sample_is_not_part_of_the_tree() {
        let (folder, mut sampler) = captured();
        fs::write(folder.path().join("11/status"), "Name:\truby\nState:\tZ (zombie)\n").unwrap();
        let sample = sampler.full(&[who(10), who(11), who(12)], SECOND);
        assert!(!sample.partial);
        assert_eq!((sample.processes, sample.pss), (1, Some(Bytes::from_kib(500))));
    }

    #[test]
    fn between_two_passes_only_status_is_read() {
        let (_folder, mut sampler) = captured();
        let members = [who(10), who(11)];
        assert!(sampler.sample(&members, Duration::ZERO).pss.is_some());
        let without_pss = sampler.sample(&members, Duration::from_nanos(1));
        assert_eq!((without_pss.pss, without_pss.partial), (None, false));
        assert_eq!(without_pss.members[0].rss, Some(Bytes::from_kib(800)));
        let cost = sampler.cost();
        assert_eq!((cost.samples, cost.full_samples, cost.reads), (2, 1, 6));
    }

    #[test]
    fn samples_are_due_from_the_start_and_late_ones_are_counted() {
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
    fn the_memory_of_this_process_is_what_the_kernel_says() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let sample = Sampler::new(root, SampleOptions::default()).full(&[me], SECOND);
        let (pss, uss, rss) = (sample.pss.unwrap(), sample.uss.unwrap(), sample.rss.unwrap());
        assert!(Bytes(0) < uss && uss <= pss, "{uss} {pss} {rss}");
        assert!(sample.rss_peak >= sample.rss);
    }
}
