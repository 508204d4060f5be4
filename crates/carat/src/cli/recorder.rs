//! Follows one process tree and writes down what is seen of it.

use crate::core::recording::{Entry, Marker, MarkerKind};
use crate::core::{Bytes, Sample, SamplerCost, ThinnedSeries};
use crate::observe::{Probes, SampleOptions, Sampler, ledger, read_insides};
use crate::process::{Identity, ProcRoot, Tree};
use crate::store::recording::Journal;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Finding the tree reads every process of the machine.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A tree that ends by itself leaves at least a ledger of this age.
const LEDGER_EVERY: Duration = Duration::from_secs(60);

/// What is seen of one tree, as it is seen. It keeps no more of it than a screen can show.
pub(crate) struct Recorder {
    journal: Journal,
    root: ProcRoot,
    tree: Tree,
    sampler: Sampler,
    began: Instant,
    probes: Probes,
    drawn: Option<Duration>,
    slots: BTreeMap<u32, u32>,
    members: (Duration, Vec<Identity>),
    major_gcs: Option<u64>,
    /// Requests answered so far, where load is driven.
    pub(crate) requests: Option<u64>,
    /// The newest sample.
    pub(crate) last: Option<Sample>,
    /// The newest sample with the whole tree's memory.
    pub(crate) weighed: Option<Sample>,
    /// The tree's memory so far.
    pub(crate) course: ThinnedSeries<Weight>,
    /// When the markers were set, in milliseconds since the recording began.
    pub(crate) marked: ThinnedSeries<u64>,
}

/// The tree's memory at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    pub(crate) at_ms: u64,
    pub(crate) pss: Bytes,
    pub(crate) uss: Option<Bytes>,
}

impl Recorder {
    pub(crate) fn new(
        root: ProcRoot,
        tree: Tree,
        options: SampleOptions,
        journal: Journal,
    ) -> Self {
        Self {
            journal,
            sampler: Sampler::new(root.clone(), options),
            root,
            tree,
            began: Instant::now(),
            probes: Probes::default(),
            drawn: None,
            slots: BTreeMap::new(),
            members: (Duration::ZERO, Vec::new()),
            major_gcs: None,
            requests: None,
            last: None,
            weighed: None,
            course: ThinnedSeries::default(),
            marked: ThinnedSeries::default(),
        }
    }

    pub(crate) fn tree(&mut self) -> &mut Tree {
        &mut self.tree
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn cost(&self) -> SamplerCost {
        self.sampler.cost()
    }

    pub(crate) fn refusal(&self) -> Option<&str> {
        self.sampler.refusal()
    }

    /// How many lines could not be written so far, and why.
    pub(crate) fn loss(&self) -> Option<(u64, &io::Error)> {
        self.journal.loss()
    }

    /// The file, when nothing more will be seen.
    pub(crate) fn into_journal(self) -> Journal {
        self.journal
    }

    /// How long until the next sample is due.
    pub(crate) fn wait(&self) -> Duration {
        self.sampler.wait(self.elapsed())
    }

    /// Takes the sample that is due; the tree's members, none where it has ended.
    pub(crate) fn sample(&mut self) -> Vec<Identity> {
        let members = self.recent_members();
        if members.is_empty() {
            return members;
        }
        let sample = self.sampler.sample(&members, self.elapsed());
        self.note_joining_and_leaving(&sample);
        self.keep(sample, &members);
        self.probes.ask(self.began.elapsed());
        if self.drawn.is_none_or(|drawn| self.elapsed() >= drawn + LEDGER_EVERY) {
            // The first one would meet a server that only boots.
            if self.drawn.is_some() {
                self.draw(&members);
            }
            self.drawn = Some(self.elapsed());
        }
        members
    }

    /// The last figures of a tree that still runs.
    pub(crate) fn finish(&mut self) {
        let members = self.members();
        if !members.is_empty() {
            let sample = self.sampler.full(&members, self.elapsed());
            self.keep(sample, &members);
            self.draw(&members);
        }
    }

    /// Completes a sample with what the probes say and with the work done so far.
    fn keep(&mut self, mut sample: Sample, members: &[Identity]) {
        sample.answered = self.requests;
        sample.inside = self.probes.read(&self.root, members, self.elapsed());
        let major_gcs = sample.inside.and_then(|inside| inside.major_gcs);
        if self.major_gcs.is_some() && major_gcs > self.major_gcs {
            self.mark(MarkerKind::MajorGc);
        }
        self.major_gcs = major_gcs;
        if let Some(pss) = sample.pss {
            self.course.push(Weight { at_ms: sample.at_ms, pss, uss: sample.uss });
            self.weighed = Some(sample.clone());
        }
        self.last = Some(sample.clone());
        self.journal.append(&Entry::Sample(Box::new(sample)));
    }

    /// Marks this moment.
    pub(crate) fn mark(&mut self, what: MarkerKind) {
        let at_ms = self.elapsed().as_millis() as u64;
        self.marked.push(at_ms);
        self.journal.append(&Entry::Marker(Marker { at_ms, what }));
    }

    /// The members as of a second ago at most, as long as none of those has ended; those of now for a pass
    /// over the tree, because a child that is not read takes its share of its parent's pages along.
    fn recent_members(&mut self) -> Vec<Identity> {
        let at = self.elapsed();
        let (looked_at, known) = &self.members;
        let complete = self.last.as_ref().is_some_and(|last| last.members.len() == known.len());
        let recent = at < *looked_at + LOOK_EVERY;
        if complete && recent && !known.is_empty() && !self.sampler.will_pass(at) {
            return known.clone();
        }
        self.members = (at, self.members());
        self.members.1.clone()
    }

    fn members(&mut self) -> Vec<Identity> {
        self.sampler.look(&mut self.tree).iter().map(|stat| stat.identity()).collect()
    }

    fn draw(&mut self, members: &[Identity]) {
        let ledger = ledger(&self.root, members, &read_insides(&self.root, members));
        self.journal.append(&Entry::Ledger(ledger));
    }

    fn note_joining_and_leaving(&mut self, sample: &Sample) {
        let now: BTreeMap<u32, u32> =
            sample.members.iter().map(|member| (member.slot, member.pid)).collect();
        let before = std::mem::replace(&mut self.slots, now.clone());
        // Who is there from the start has not joined.
        if self.last.is_none() {
            return;
        }
        for (&slot, &pid) in before.iter().filter(|(slot, pid)| now.get(slot) != Some(pid)) {
            self.mark(MarkerKind::Exit { slot, pid });
        }
        for (&slot, &pid) in now.iter().filter(|(slot, pid)| before.get(slot) != Some(pid)) {
            self.mark(MarkerKind::Fork { slot, pid });
        }
    }
}
