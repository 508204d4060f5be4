//! What one moment says about the memory of the process tree.

use crate::core::ledger::Ledger;
use crate::core::units::Bytes;
use serde::{Deserialize, Serialize};

/// One moment of the tree. Unknown is `None`, never 0.
///
/// `pss = uss + shared` wherever all three are known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since the trial or recording began.
    pub at_ms: u64,
    /// Processes in the tree at this moment.
    pub processes: u32,
    /// Resident memory; only where the tree is one process, because RSS is never summed.
    pub rss: Option<Bytes>,
    /// Proportional memory of the tree: each shared page is divided by its sharers (proc(5), `Pss`).
    pub pss: Option<Bytes>,
    /// Memory that exactly one process maps.
    pub uss: Option<Bytes>,
    /// The tree's proportional part of memory that several processes map.
    #[serde(default)]
    pub shared: Option<Bytes>,
    /// Memory of the tree in swap.
    pub swap: Option<Bytes>,
    /// Highest resident memory so far, as the kernel recorded it; only where the tree is one process.
    #[serde(default)]
    pub rss_peak: Option<Bytes>,
    /// Requests or broadcasts answered since the measured load began, rightly or not; `None` while none is driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// A process vanished or was refused while it was read, so that the tree's sums are unknown.
    #[serde(default)]
    pub partial: bool,
    /// Every process of the tree, by slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSample>,
    /// The control group of the tree; `None` where it shares its group with strangers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupSample>,
    /// What the probes inside Ruby say, summed over the tree; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<InsideSample>,
    /// What it is made of; only of the sample that a trial ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<Ledger>>,
}

/// What the probes of a tree say at one moment; a figure that any of them lacks is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideSample {
    /// Processes with a probe.
    pub probes: u32,
    /// Full collections.
    pub major_gcs: Option<u64>,
    /// Objects that had survived several collections when each Ruby's latest one ended; `None` also where none has ended
    /// since the sample before.
    pub kept_objects: Option<u64>,
    /// In use from malloc; `None` also where no allocator was asked since the sample before.
    pub malloc_live: Option<Bytes>,
    /// Held by malloc and not in use; `None` as above.
    pub malloc_free: Option<Bytes>,
}

/// The figure to follow over time: resident memory where the tree was one process throughout, which is known at every
/// sample, else proportional memory. A mixture of the two would draw a saw.
pub fn tracked_memory(samples: &[Sample]) -> fn(&Sample) -> Option<Bytes> {
    let whole = || samples.iter().filter(|sample| !sample.partial);
    let alone = whole().all(|sample| sample.rss.is_some());
    if alone || whole().all(|sample| sample.pss.is_none()) {
        |sample| sample.rss.filter(|_| !sample.partial)
    } else {
        |sample| sample.pss.filter(|_| !sample.partial)
    }
}

/// One moment of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSample {
    /// Its place, kept by the worker that replaces it.
    pub slot: u32,
    /// Its process id.
    pub pid: u32,
    /// Threads.
    pub threads: Option<u32>,
    /// Resident memory.
    pub rss: Option<Bytes>,
    /// Highest resident memory so far (proc(5), `VmHWM`).
    pub rss_peak: Option<Bytes>,
    /// Resident memory that no file backs.
    pub anonymous: Option<Bytes>,
    /// Proportional memory.
    pub pss: Option<Bytes>,
    /// Memory that only this process maps.
    pub uss: Option<Bytes>,
    /// Memory in swap.
    pub swap: Option<Bytes>,
}

/// What the kernel charges to the tree's own control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupSample {
    /// Everything charged, page cache included.
    pub current: Bytes,
    /// The most that was ever charged.
    pub peak: Option<Bytes>,
    /// Charged without the page cache that could be dropped at once: what a platform kills on.
    pub working_set: Option<Bytes>,
    /// Memory of sockets, which no process maps.
    pub sockets: Option<Bytes>,
    /// Kernel objects charged to the group; version 1 does not say.
    pub slab: Option<Bytes>,
    /// Processes that the kernel killed in it for want of memory.
    pub oom_kills: Option<u64>,
}

/// What sampling itself cost.
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
    /// That as a share of one core over the time sampled, as a fraction.
    pub core_share: f64,
    /// Samples that came a whole period or more after they were due, or never.
    pub late: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

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
