//! Samples of the memory of a process tree.

use crate::census::TrialCensus;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One sample of the tree. Unknown is `None`, never 0.
///
/// `pss = uss + shared` wherever all three are known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since the trial or recording began.
    pub at_ms: u64,
    /// The moment of the trial that this sample is of; `None` between moments and in files from before samples had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Processes in the tree.
    pub processes: u32,
    /// Resident memory; only where the tree is one process, because RSS cannot be summed.
    pub rss: Option<Bytes>,
    /// Proportional memory of the tree: each shared page is divided by its sharers (proc(5), `Pss`).
    pub pss: Option<Bytes>,
    /// Memory that exactly one process maps.
    pub uss: Option<Bytes>,
    /// The tree's proportional part of memory that several processes map.
    #[serde(default)]
    pub shared: Option<Bytes>,
    /// Memory of the tree in swap: proportional where `pss` is known (proc(5), `SwapPss`), otherwise the sum of what each process
    /// has, which counts shared pages again (`VmSwap`).
    pub swap: Option<Bytes>,
    /// Highest resident memory so far, as the kernel recorded it; only where the tree is one process.
    #[serde(default)]
    pub rss_peak: Option<Bytes>,
    /// Requests or broadcasts answered since the measured load began, correctly or not; `None` while no load is driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// A process exited or could not be read, so that the sums of the tree are unknown.
    #[serde(default)]
    pub partial: bool,
    /// Every process of the tree, by slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSample>,
    /// The control group of the tree; `None` where other processes are in the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupSample>,
    /// Figures of the probes inside Ruby, summed over the tree; `None` without a probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<InsideSample>,
    /// The ledger; only in the sample after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<Ledger>>,
    /// Objects by class; only in the sample after the load, of an experiment that asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub census: Option<Box<TrialCensus>>,
    /// What the Rubies of the tree keep, where a reading from outside was completed since the sample before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<KeptReading>>,
}

impl Sample {
    /// How many processes of this sample a later one does not have.
    pub fn processes_missing_in(&self, later: &Self) -> usize {
        self.pids().difference(&later.pids()).count()
    }

    fn pids(&self) -> BTreeSet<u32> {
        self.members.iter().map(|member| member.pid).collect()
    }

    /// Full collections since an earlier sample, summed over the tree. `None` without a probe, and where a process came or went
    /// meanwhile: a new one brings a count of its own, or that of the one that forked it.
    pub fn full_collections_since(&self, earlier: &Self) -> Option<u64> {
        let (now, before) = (self.inside?, earlier.inside?);
        let is_same = now.probes == before.probes && self.pids() == earlier.pids();
        now.major_gcs?.checked_sub(before.major_gcs?).filter(|_| is_same)
    }
}

/// What the roots of a tree's Rubies reach, read from outside: what a full collection would leave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptReading {
    /// Milliseconds since the recording began, halfway through the reading.
    pub at_ms: u64,
    /// Requests answered by then; `None` while no load is driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// The Rubies that were read: all of the tree.
    pub rubies: Vec<u32>,
    /// Objects that are reached.
    pub objects: u64,
    /// Present bytes of their slots and of what they hold in malloc; `None` where the owners are unknown.
    pub bytes: Option<Bytes>,
    /// Objects that nothing reaches.
    pub garbage_objects: u64,
    /// Processor time of the reading in seconds.
    pub cpu_s: f64,
}

/// Figures of the probes of a tree. A figure that any of them lacks is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideSample {
    /// Processes with a probe.
    pub probes: u32,
    /// Full collections.
    pub major_gcs: Option<u64>,
    /// Objects that had survived several collections when the latest collection of each Ruby ended; `None` also where no
    /// collection has ended since the sample before.
    pub kept_objects: Option<u64>,
    /// Allocated from malloc; `None` also where no allocator was queried since the sample before.
    pub malloc_live: Option<Bytes>,
    /// Held by malloc and not allocated; `None` as above.
    pub malloc_free: Option<Bytes>,
}

/// Whether the figure to track over time is resident memory: where the tree was always one process, because every sample has
/// it; otherwise it is proportional memory. A mixture of the two would produce a sawtooth.
pub fn tracks_resident<'a>(samples: impl IntoIterator<Item = &'a Sample, IntoIter: Clone>) -> bool {
    let mut whole = samples.into_iter().filter(|sample| !sample.partial);
    // A partial sample lacks processes, so it says nothing about which figure is complete.
    let one_process = whole.clone().all(|sample| sample.rss.is_some());
    // Without any proportional figure resident memory is all there is.
    one_process || whole.all(|sample| sample.pss.is_none())
}

/// The figure to track over time.
pub fn tracked_memory<'a>(
    samples: impl IntoIterator<Item = &'a Sample, IntoIter: Clone>,
) -> fn(&Sample) -> Option<Bytes> {
    if tracks_resident(samples) {
        |sample| sample.rss.filter(|_| !sample.partial)
    } else {
        |sample| sample.pss.filter(|_| !sample.partial)
    }
}

/// One sample of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSample {
    /// Slot of the process; a worker that replaces it gets the same slot.
    pub slot: u32,
    /// Process id.
    pub pid: u32,
    pub threads: Option<u32>,
    /// Resident memory.
    pub rss: Option<Bytes>,
    /// Highest resident memory so far (proc(5), `VmHWM`).
    pub rss_peak: Option<Bytes>,
    /// Resident memory without a file behind it.
    pub anonymous: Option<Bytes>,
    /// Proportional memory.
    pub pss: Option<Bytes>,
    /// Memory that only this process maps.
    pub uss: Option<Bytes>,
    /// Memory in swap.
    pub swap: Option<Bytes>,
}

/// Memory that the kernel charges to the control group of the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupSample {
    /// All memory charged, including the page cache.
    pub current: Bytes,
    /// Highest amount charged.
    pub peak: Option<Bytes>,
    /// Memory charged without inactive page cache; platforms kill by this figure.
    pub working_set: Option<Bytes>,
    /// Memory of sockets, which no process maps.
    pub sockets: Option<Bytes>,
    /// Kernel objects charged to the group; unknown in version 1.
    pub slab: Option<Bytes>,
    /// Processes of the group that the kernel killed because memory ran out.
    pub oom_kills: Option<u64>,
}

/// The cost of sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplerCost {
    /// Samples taken.
    pub samples: u64,
    /// Samples with proportional memory.
    pub full_samples: u64,
    /// Files read.
    pub reads: u64,
    /// Processor time of the sampling thread, in seconds.
    pub cpu_s: f64,
    /// Processor time as a fraction of one core.
    pub core_share: f64,
    /// Samples that were a period or more late, or missing.
    pub late: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_or_replaced_is_no_full_collection() {
        let sample = |pids: &[u32], probes, major_gcs| Sample {
            members: pids.iter().map(|&pid| MemberSample { pid, ..Default::default() }).collect(),
            inside: Some(InsideSample { probes, major_gcs, ..InsideSample::default() }),
            ..Sample::default()
        };
        let before = sample(&[2, 3], 2, Some(5));
        for (after, expected) in [
            (sample(&[3, 2], 2, Some(7)), Some(2)),
            (sample(&[2, 3], 2, Some(5)), Some(0)),
            (sample(&[2, 4], 2, Some(7)), None),
            (sample(&[2, 3, 4], 3, Some(7)), None),
            (sample(&[2, 3], 1, Some(7)), None),
            (sample(&[2, 3], 2, Some(4)), None),
            (sample(&[2, 3], 2, None), None),
            (Sample::default(), None),
        ] {
            assert_eq!(after.full_collections_since(&before), expected, "{after:?}");
        }
    }

    #[test]
    fn resident_and_proportional_memory_are_never_mixed() {
        let sample = |rss: Option<u64>, pss: Option<u64>| Sample {
            rss: rss.map(Bytes),
            pss: pss.map(Bytes),
            ..Sample::default()
        };
        let alone = [sample(Some(9), Some(7)), sample(Some(10), None)];
        assert_eq!(alone.each_ref().map(tracked_memory(&alone)), [Some(Bytes(9)), Some(Bytes(10))]);
        let forked = [sample(Some(9), None), sample(None, Some(15)), sample(None, None)];
        assert_eq!(forked.each_ref().map(tracked_memory(&forked)), [None, Some(Bytes(15)), None]);
    }
}
