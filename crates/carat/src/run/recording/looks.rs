//! Readings of the recorded Rubies from outside, at intervals, in a thread of their own so that no sample is late.

use carat_analysis::growth::{ClassSeries, growing_classes};
use carat_model::OutsideReading;
use carat_model::{ClassGrowth, ProgressUnit};
use carat_outside::census::LookOptions;
use carat_proc::observe::{memory_gate, read_outside};
use carat_proc::process::{Identity, ProcRoot};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Counts objects by class again and again.
#[derive(Debug)]
pub(super) struct ClassWatch {
    every: Duration,
    due: Duration,
    running: Option<(Progress, JoinHandle<OutsideReading>)>,
    readings: Vec<(Progress, BTreeMap<String, u64>)>,
    refusal: Option<String>,
}

/// How far the recording was when a reading began.
#[derive(Debug, Clone, Copy)]
struct Progress {
    elapsed: Duration,
    requests: Option<u64>,
}

impl ClassWatch {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, due: every, running: None, readings: Vec::new(), refusal: None }
    }

    /// Whether a reading should begin. Collects the one before if it is complete.
    pub(super) fn is_due(&mut self, elapsed: Duration) -> bool {
        if self.running.as_ref().is_some_and(|(_, thread)| thread.is_finished()) {
            self.collect();
        }
        self.running.is_none() && elapsed >= self.due
    }

    /// Begins a reading of these processes.
    pub(super) fn begin(
        &mut self,
        members: Vec<Identity>,
        elapsed: Duration,
        requests: Option<u64>,
    ) {
        self.due = elapsed + self.every;
        let options = LookOptions { malloc: false, ..LookOptions::default() };
        let thread = thread::spawn(move || read_outside(&members, &options));
        self.running = Some((Progress { elapsed, requests }, thread));
    }

    fn collect(&mut self) {
        let Some((progress, thread)) = self.running.take() else { return };
        let Ok(reading) = thread.join() else { return };
        if let Some((_, reason)) = reading.refused.into_iter().next() {
            self.refusal = Some(reason);
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for class in reading.processes.into_iter().filter_map(|census| census.classes).flatten() {
            *counts.entry(class.name).or_default() += class.objects;
        }
        if !counts.is_empty() {
            self.readings.push((progress, counts));
        }
    }

    /// The classes that grow, and a note where nothing could be read. One last reading of processes that still run says
    /// how large their objects are.
    pub(super) fn end(mut self, members: &[Identity]) -> (Vec<ClassGrowth>, Option<String>) {
        self.collect();
        let number = self.readings.len();
        if number < 6 {
            let reason = self.refusal.take().map(|reason| format!(": {reason}"));
            let note = format!(
                "classes: {number} readings are too few to tell which grow{}; record for longer or give a shorter --look",
                reason.unwrap_or_default()
            );
            return (Vec::new(), Some(note));
        }
        let driven = self.readings.last().is_some_and(|(last, _)| last.requests > Some(0));
        let unit = if driven { ProgressUnit::Requests } else { ProgressUnit::Seconds };
        let mut series = ClassSeries::new();
        let names: BTreeSet<&String> =
            self.readings.iter().flat_map(|(_, counts)| counts.keys()).collect();
        for (progress, counts) in &self.readings {
            let Some(at) = progress.in_unit(unit) else { continue };
            for &class in &names {
                // A class that a reading does not name had no object then.
                let objects = counts.get(class).copied().unwrap_or_default();
                series.entry(class.clone()).or_default().push((at, objects as f64));
            }
        }
        (growing_classes(&series, unit, &bytes_each(members)), None)
    }
}

impl Progress {
    fn in_unit(self, unit: ProgressUnit) -> Option<f64> {
        match unit {
            ProgressUnit::Requests => self.requests.map(|requests| requests as f64),
            ProgressUnit::Seconds => Some(self.elapsed.as_secs_f64()),
        }
    }
}

/// Mean bytes of an object of every class with what it holds alone, where that could be read.
fn bytes_each(members: &[Identity]) -> BTreeMap<String, f64> {
    let memory = memory_gate(&ProcRoot::default(), |_| {});
    let options = LookOptions { owners: true, held: true, memory, ..LookOptions::default() };
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let reading = read_outside(members, &options);
    for class in reading.processes.into_iter().filter_map(|census| census.classes).flatten() {
        let Some(held) = class.with_held_bytes else { continue };
        let (objects, bytes) = sums.entry(class.name).or_default();
        *objects += class.objects;
        *bytes += held;
    }
    sums.into_iter()
        .filter(|(_, (objects, _))| *objects > 0)
        .map(|(class, (objects, bytes))| (class, bytes as f64 / objects as f64))
        .collect()
}
