//! What is observed during a trial and during its load, before it becomes metrics.

use crate::ledger::Ledger;
use crate::load::{LoadReport, StepReport};
use crate::memory::Sample;
use crate::units::Bytes;
use carat_stats::summary::late_median;
use carat_stats::summary::median;
use std::time::Duration;

/// The kernel's peak as a multiple of the sampled one from which on the difference is noted.
const MISSED: f64 = 1.05;

/// What was observed during one trial.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// From exec to ready.
    pub boot: Option<Duration>,
    /// From exec to the end of a command that ends by itself.
    pub run_time: Option<Duration>,
    /// Highest resident memory of the largest process of a command that ended by itself, as the kernel recorded it.
    pub kernel_peak: Option<Bytes>,
    /// Highest memory that the kernel charged to a control group with all processes of such a command and no other.
    pub group_peak: Option<Bytes>,
    /// `RUBY_DESCRIPTION` of the server, from its probe.
    pub ruby: Option<String>,
    /// The tree when ready, before any load.
    pub ready: Option<Sample>,
    /// The tree when the measured load is about to begin, after the warm-up.
    pub start: Option<Sample>,
    /// Every sample of the trial.
    pub samples: Vec<Sample>,
    /// Start and end of the measured load on the samples' clock, in milliseconds.
    pub window_ms: Option<(u64, u64)>,
    /// The tree after the last request; `None` for a command that ends by itself, which is gone then.
    pub last: Option<Sample>,
    /// The tree after the idle time that follows `last`.
    pub idle: Option<Sample>,
    /// The generator's report.
    pub load: Option<LoadReport>,
    /// Processor time of the tree during the load.
    pub cpu: Option<Duration>,
    /// Processor time of the kernel's thread that merges equal pages, during the load.
    pub merging: Option<Duration>,
    /// Collections, full collections and nanoseconds in garbage collection during the load.
    pub collections: [Option<u64>; 3],
    /// Settings that are not in effect.
    pub notes: Vec<String>,
    /// The machine's available memory before the start and after the last request.
    pub available: (Option<Bytes>, Option<Bytes>),
}

impl Observations {
    pub(crate) fn pss_peak(&self) -> Option<Bytes> {
        // Samples that end early may have missed the peak.
        self.is_followed(|sample| sample.pss).then_some(())?;
        self.samples.iter().chain(&self.last).filter_map(|sample| sample.pss).max()
    }

    /// Highest resident memory of the one process; unknown if any sample of a command that has ended has several.
    pub fn rss_peak(&self) -> Option<Bytes> {
        // A server is still there at the end, and the kernel has its record.
        if let Some(last) = &self.last {
            return last.rss_peak;
        }
        // The peak of several processes is not that of one.
        let several = self.samples.iter().any(|sample| sample.processes > 1);
        self.process_peak().filter(|_| !several)
    }

    /// Highest resident memory of the largest process.
    pub fn process_peak(&self) -> Option<Bytes> {
        let members = self.samples.iter().chain(&self.last).flat_map(|sample| &sample.members);
        let sampled = members.filter_map(|member| member.rss_peak).max();
        match self.kernel_peak {
            // A process for which nobody waited is not in the kernel's record.
            Some(peak) => Some(sampled.map_or(peak, |sampled| sampled.max(peak))),
            // Without the kernel's record only samples that reach to the end can be trusted.
            None => sampled.filter(|_| self.is_followed(largest)),
        }
    }

    /// A note if the command had so much more memory between two samples that the sampled peak is not its own.
    pub fn missed_peak(&self) -> Option<String> {
        self.missed_peak_of_process().or_else(|| self.missed_peak_of_group())
    }

    fn missed_peak_of_process(&self) -> Option<String> {
        // Only moments at which the sampled peak of the tree could have been seen.
        let sampled = self.samples.iter().filter(|sample| sample.pss.is_some());
        let sampled = sampled.filter_map(largest).max()?;
        // Within 5 % it may be the same moment, read a little later.
        let missed = self.kernel_peak?.0 as f64 >= MISSED * sampled.0 as f64;
        missed.then(|| "its memory was highest between two samples: `memory.pss.peak` is at least 5 % too low, and `memory.process.peak` has the kernel's record".to_owned())
    }

    /// Of several processes together, each of which may be sampled at its own peak.
    fn missed_peak_of_group(&self) -> Option<String> {
        let sampled = self.samples.iter().filter(|sample| sample.pss.is_some());
        let sampled = sampled.filter_map(|sample| Some(sample.cgroup.as_ref()?.current)).max()?;
        let several = self.samples.iter().any(|sample| sample.processes > 1);
        let missed = several && self.group_peak?.0 as f64 >= MISSED * sampled.0 as f64;
        missed.then(|| "the memory of its processes together was highest between two samples: `memory.pss.peak` may be 5 % too low or more, and `memory.group.peak` has the kernel's record".to_owned())
    }

    /// Whether samples with this figure reach to the end. Those of a command that has ended need not: one that ran for a
    /// moment may have a single sample of its first millisecond.
    fn is_followed(&self, figure: impl Fn(&Sample) -> Option<Bytes>) -> bool {
        self.last.is_some() || self.late(figure).is_some()
    }

    /// The ledger after the last request.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.last.as_ref()?.ledger.as_deref()
    }

    /// Memory of `sample` per process that serves. The ledger after the last request counts these, so a tree of another
    /// number of processes has an unknown number of them.
    pub fn pss_per_instance(&self, sample: Option<&Sample>) -> Option<f64> {
        // A worker more or less, and the ledger's count is not this sample's.
        let sample = sample.filter(|one| Some(one.processes) == self.processes_at_end())?;
        Some(amount(sample.pss)? / self.ledger()?.instances()? as f64)
    }

    fn processes_at_end(&self) -> Option<u32> {
        Some(self.last.as_ref()?.processes)
    }

    pub(crate) fn free_malloc_share(&self) -> Option<f64> {
        let (free, all) = self.ledger()?.free_and_all_malloc()?;
        (all.0 > 0).then(|| free.0 as f64 / all.0 as f64)
    }

    /// Fall of the machine's available memory. It is negative where other processes freed more in the meantime;
    /// leaving such a trial out would select by value.
    pub fn available_fall(&self) -> Option<f64> {
        let (before, after) = self.available;
        Some(before?.0 as f64 - after?.0 as f64)
    }

    /// The median over the last quarter of the load, the final sample included, or over the last quarter of a run.
    ///
    /// The last value alone would depend on chance: variants that return memory produce a sawtooth.
    pub fn late(&self, figure: impl Fn(&Sample) -> Option<Bytes>) -> Option<f64> {
        let (from, to) = self.window_ms?;
        let mut series: Vec<(f64, f64)> = self
            .samples
            .iter()
            .filter(|sample| (from..=to).contains(&sample.at_ms))
            .filter_map(|sample| Some((sample.at_ms as f64, amount(figure(sample))?)))
            .collect();
        let Some(last) = &self.last else {
            // Of the whole run, also where the last samples lack the figure.
            let late_from = from as f64 + 0.75 * to.saturating_sub(from) as f64;
            let late = series.iter().filter(|(at, _)| *at >= late_from);
            return median(&late.map(|(_, amount)| *amount).collect::<Vec<f64>>());
        };
        // The last sample was taken after the load, so it counts as its end.
        series.extend(amount(figure(last)).map(|last| (to as f64, last)));
        late_median(&series)
    }
}

/// What the generator counted and timed during one load.
pub struct LoadTotals<'a> {
    /// Correct responses or deliveries.
    pub completed: u64,
    /// Responses or deliveries that were due.
    pub expected: u64,
    /// Those of them to which nothing came in time.
    pub unanswered: u64,
    /// Seconds from the first send to the last response.
    pub seconds: f64,
    /// The latency in seconds at a quantile from 0 to 1 of those that were answered.
    pub latency: &'a dyn Fn(f64) -> Option<f64>,
    /// Steps of a cable load, in order.
    pub steps: &'a [StepReport],
}

impl LoadTotals<'_> {
    /// The latency in seconds at a quantile of all, of which those without an answer were slower than any with one; `None` where
    /// the quantile is among them.
    pub(crate) fn latency_at(&self, quantile: f64) -> Option<f64> {
        let completed = self.completed as f64;
        let among_answered = quantile * (completed + self.unanswered as f64) / completed;
        // Not above 1, also where rounding has made it so.
        (among_answered <= 1.0 + f64::EPSILON).then(|| (self.latency)(among_answered.min(1.0)))?
    }

    pub(crate) fn throughput(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.completed as f64 / self.seconds)
    }

    pub(crate) fn error_share(&self) -> Option<f64> {
        let failed = self.expected.saturating_sub(self.completed);
        (self.expected > 0).then(|| failed as f64 / self.expected as f64)
    }
}

/// Resident memory of the largest process in a sample.
fn largest(sample: &Sample) -> Option<Bytes> {
    sample.members.iter().filter_map(|member| member.rss).max()
}

pub(crate) fn amount(bytes: Option<Bytes>) -> Option<f64> {
    bytes.map(|bytes| bytes.0 as f64)
}

/// Start and end of the measured load in milliseconds after the trial began, which was at `began_ms` of the report's clock.
///
/// From the first send to the last response where the report has them, and never outside `around`: neither the start of
/// the generator nor its connections belong to the load.
pub fn load_window(report: &LoadReport, began_ms: u64, around: (u64, u64)) -> (u64, u64) {
    let Some((first, last)) = report.window_ms else { return around };
    let [first, last] =
        // The generator starts before the load and ends after it; clocks may differ by a moment.
        [first, last].map(|moment| moment.saturating_sub(began_ms).clamp(around.0, around.1));
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_the_load_is_the_one_that_the_generator_reports() {
        let silent = LoadReport::default();
        assert_eq!(load_window(&silent, 50_000, (100, 900)), (100, 900));
        for (reported, expected) in [((50_150, 50_880), (150, 880)), ((50_099, 50_901), (100, 900))]
        {
            let report = LoadReport { window_ms: Some(reported), ..LoadReport::default() };
            assert_eq!(load_window(&report, 50_000, (100, 900)), expected);
        }
    }
}
