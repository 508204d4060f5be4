//! Writes samples, markers and ledgers of one process tree to the recording's file.

use crate::run::sampled_tree::{ProbeAccess, SampledTree, TreeStep};
use crate::store::recording::Journal;
use carat_analysis::growth::{innermost_growth, of_readings, sentence};
use carat_model::recording::{Entry, Marker, MarkerKind};
use carat_model::{Bytes, KeptReading, ProgressUnit, Sample, ThinnedSeries};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// A tree that ends by itself leaves a ledger that is at most this old.
const LEDGER_INTERVAL: Duration = Duration::from_secs(60);

/// Records one tree. It keeps only as much in memory as a screen can show.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    pub(super) tree: SampledTree<'a>,
    journal: Journal,
    ledger_at: Option<Duration>,
    /// Whether a request had been answered when the compiler's code was written; `None` before it is written.
    code_after_answer: Option<bool>,
    /// Pids by slot.
    slots: BTreeMap<u32, u32>,
    /// Requests answered so far, if load is driven.
    pub(super) requests: Option<u64>,
    /// Why the load that was asked for has not begun, in words.
    pub(crate) load_waits: Option<String>,
    /// A reading from outside that goes into the next sample.
    reading: Option<Box<KeptReading>>,
    /// All readings so far; there are some hundreds at most, unless the user asks for more.
    readings: Vec<KeptReading>,
    /// How what is kept grows, in words, as soon as its rate is known.
    pub(crate) kept_growth: Option<String>,
    /// The newest sample.
    pub(crate) last: Option<Sample>,
    /// The newest sample with PSS.
    pub(crate) last_with_pss: Option<Sample>,
    /// The tree's memory so far.
    pub(crate) memory: ThinnedSeries<MemoryPoint>,
    /// When markers were set, in milliseconds since the start.
    pub(crate) markers: ThinnedSeries<u64>,
}

/// The tree's memory at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPoint {
    pub(crate) at_ms: u64,
    pub(crate) pss: Bytes,
    pub(crate) uss: Option<Bytes>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(tree: SampledTree<'a>, journal: Journal) -> Self {
        Self {
            tree,
            journal,
            ledger_at: None,
            code_after_answer: None,
            slots: BTreeMap::new(),
            requests: None,
            load_waits: None,
            reading: None,
            readings: Vec::new(),
            kept_growth: None,
            last: None,
            last_with_pss: None,
            memory: ThinnedSeries::default(),
            markers: ThinnedSeries::default(),
        }
    }

    /// Share of one core that recording takes.
    pub(crate) fn core_share(&self) -> f64 {
        self.tree.cost().core_share
    }

    /// How many lines could not be written so far, and the latest cause.
    pub(crate) fn loss(&self) -> Option<(u64, &io::Error)> {
        self.journal.loss()
    }

    /// Adds a marker for this moment.
    pub(crate) fn mark(&mut self, what: MarkerKind) {
        let at_ms = self.tree.elapsed_ms();
        self.markers.push(at_ms);
        self.journal.append(&Entry::Marker(Marker { at_ms, what }));
    }

    /// Takes and writes a sample if one is due.
    pub(super) fn step(&mut self) -> RecorderStep {
        match self.tree.step(self.requests, ProbeAccess::ReadAndRefreshed) {
            TreeStep::NotDue => RecorderStep::NotDue,
            TreeStep::TreeEnded => RecorderStep::TreeEnded,
            TreeStep::Sampled(sample) => {
                self.mark_forks_and_exits(&sample);
                self.keep(*sample);
                self.write_jit_code_if_due();
                self.write_ledger_if_due();
                RecorderStep::Sampled
            }
        }
    }

    /// Writes the last figures of a tree that still runs; `looks` says that its memory is read from outside.
    pub(super) fn write_last(&mut self, looks: bool) {
        if let Some(mut sample) = self.tree.full_sample(ProbeAccess::Read) {
            sample.answered = self.requests;
            self.keep(sample);
            let ledger = match looks {
                true => self.tree.ledger_from_outside(),
                false => self.tree.ledger(),
            };
            self.journal.append(&Entry::Ledger(ledger));
        }
    }

    /// The file, once nothing more is recorded.
    pub(super) fn into_journal(self) -> Journal {
        self.journal
    }

    /// Keeps a reading from outside.
    pub(super) fn keep_reading(&mut self, reading: KeptReading) {
        self.readings.push(reading.clone());
        let readings: Vec<&KeptReading> = self.readings.iter().collect();
        // Readings count in requests where a load is driven, as growth does.
        let progress = match reading.answered {
            Some(_) => ProgressUnit::Requests,
            None => ProgressUnit::Seconds,
        };
        let growth = of_readings(progress, &readings);
        let known = innermost_growth(&growth).or(growth.iter().find(|part| part.rate.is_some()));
        self.kept_growth = known.map(sentence);
        self.reading = Some(Box::new(reading));
    }

    fn keep(&mut self, mut sample: Sample) {
        sample.kept = self.reading.take();
        let collections = self.last.as_ref().and_then(|last| sample.full_collections_since(last));
        if collections.is_some_and(|count| count > 0) {
            self.mark(MarkerKind::MajorGc);
        }
        // Most samples have no PSS, so the newest one that has it is kept apart.
        if let Some(pss) = sample.pss {
            self.memory.push(MemoryPoint { at_ms: sample.at_ms, pss, uss: sample.uss });
            self.last_with_pss = Some(sample.clone());
        }
        self.last = Some(sample.clone());
        self.journal.append(&Entry::Sample(Box::new(sample)));
    }

    /// Writes what is compiled when recording begins, and again when the first request is answered, from which on the growth
    /// under a driven load counts.
    fn write_jit_code_if_due(&mut self) {
        let is_answered = Some(self.requests > Some(0));
        // Never, before an answer, after one: in this order.
        if self.code_after_answer >= is_answered {
            return;
        }
        self.code_after_answer = is_answered;
        let code = self.tree.ledger().jit_code_by_process();
        self.journal.append(&Entry::JitCodeBefore(code));
    }

    fn write_ledger_if_due(&mut self) {
        let now = self.tree.elapsed();
        match self.ledger_at {
            // At the first sample a server only boots.
            None => self.ledger_at = Some(now),
            Some(at) if now >= at + LEDGER_INTERVAL => {
                self.write_ledger();
                self.ledger_at = Some(self.tree.elapsed());
            }
            Some(_) => {}
        }
    }

    fn write_ledger(&mut self) {
        let ledger = self.tree.ledger();
        self.journal.append(&Entry::Ledger(ledger));
    }

    fn mark_forks_and_exits(&mut self, sample: &Sample) {
        let now: BTreeMap<u32, u32> =
            sample.members.iter().map(|member| (member.slot, member.pid)).collect();
        let before = std::mem::replace(&mut self.slots, now.clone());
        // The processes of the first sample have not joined.
        if self.last.is_none() {
            return;
        }
        // By slot: a worker that was replaced is an exit and a fork in one place.
        for (&slot, &pid) in before.iter().filter(|(slot, pid)| now.get(slot) != Some(pid)) {
            self.mark(MarkerKind::Exit { slot, pid });
        }
        for (&slot, &pid) in now.iter().filter(|(slot, pid)| before.get(slot) != Some(pid)) {
            self.mark(MarkerKind::Fork { slot, pid });
        }
    }
}

/// The result of one step of a recorder.
pub(super) enum RecorderStep {
    NotDue,
    TreeEnded,
    Sampled,
}
