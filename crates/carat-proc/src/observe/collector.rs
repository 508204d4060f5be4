//! The garbage collections of a tree so far, as the probes count them.

use crate::observe::ProbePage;
use crate::process::{Identity, ProcRoot};
use carat_wire::page::{Gc, PageReading};
use std::collections::BTreeMap;

/// For each process since its start: collections, full collections, and their time in nanoseconds, which some versions
/// do not count ([`carat_ruby::version::GC_TIME`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collections(BTreeMap<Identity, [Option<u64>; 3]>);

impl Collections {
    /// Reads the probe's page of every process. Processes without one are left out.
    pub fn read(root: &ProcRoot, members: &[Identity]) -> Self {
        let counts = members.iter().filter_map(|&member| {
            let page = ProbePage::find(root, member)?.read()?;
            Some((member, [Gc::Count, Gc::Major, Gc::TimeNs].map(|word| page.gc.get(word))))
        });
        Self(counts.collect())
    }

    /// Collections, full collections and nanoseconds since `before`, over all processes; `None` if one of them does not
    /// count it, or none has a probe.
    ///
    /// A process that is new since `before` counts in full, although its counters include its parent's. So a worker
    /// forked meanwhile makes this an upper bound.
    pub fn since(&self, before: &Self) -> [Option<u64>; 3] {
        std::array::from_fn(|figure| {
            let grown = self.0.iter().map(|(member, now)| {
                let then = before.0.get(member).map_or(Some(0), |then| then[figure]);
                // One unknown makes the sum unknown: a smaller one would claim fewer collections.
                Some(now[figure]?.saturating_sub(then?))
            });
            // The sum of nothing would be zero collections.
            grown.sum::<Option<u64>>().filter(|_| !self.0.is_empty())
        })
    }
}

/// Collections, full collections and nanoseconds of a tree that has ended, each up to the last collection that the probe
/// of a process recorded.
///
/// `None` if one of the processes does not count it, if none had a probe, or if one was forked: its counters began with
/// those of its parent, which nobody has read.
pub fn collections_of(pages: &[PageReading]) -> [Option<u64>; 3] {
    let forked = pages.iter().any(|page| page.fork_generation > 0);
    [Gc::Count, Gc::Major, Gc::TimeNs].map(|word| {
        let sum: Option<u64> = pages.iter().map(|page| page.gc.get(word)).sum();
        sum.filter(|_| !pages.is_empty() && !forked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collections(rows: &[(u32, [Option<u64>; 3])]) -> Collections {
        let row = |&(pid, counts): &(u32, _)| (Identity { pid, start_ticks: 1 }, counts);
        Collections(rows.iter().map(row).collect())
    }

    #[test]
    fn differences_are_summed_over_processes_and_unknown_if_one_is_unknown() {
        let all = |counts: [u64; 3]| counts.map(Some);
        let before = collections(&[(1, all([10, 2, 500])), (2, all([1, 0, 10]))]);
        let after =
            collections(&[(1, all([14, 3, 900])), (2, all([2, 0, 15])), (3, all([1, 1, 7]))]);
        assert_eq!(after.since(&before), all([6, 2, 412]));
        assert_eq!(collections(&[]).since(&before), [None; 3]);
        let untimed = collections(&[(1, [Some(14), Some(3), None])]);
        assert_eq!(untimed.since(&collections(&[])), [Some(14), Some(3), None]);
    }
}
