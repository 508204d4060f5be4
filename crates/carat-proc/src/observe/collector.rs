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
    /// count it, if none has a probe, or if one has come or gone: what one that has ended did in the end nobody has read, and the
    /// counters of a new one begin with those of its parent.
    pub fn since(&self, before: &Self) -> [Option<u64>; 3] {
        if !self.0.keys().eq(before.0.keys()) {
            return [None; 3];
        }
        std::array::from_fn(|figure| {
            let grown = self.0.iter().map(|(member, now)| {
                // One unknown makes the sum unknown: a smaller one would claim fewer collections.
                Some(now[figure]?.saturating_sub(before.0.get(member)?[figure]?))
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
        let after = collections(&[(1, all([14, 3, 900])), (2, all([2, 0, 15]))]);
        assert_eq!(after.since(&before), all([5, 1, 405]));
        assert_eq!(collections(&[]).since(&collections(&[])), [None; 3]);
        let untimed =
            |counts: [u64; 2]| collections(&[(1, [Some(counts[0]), Some(counts[1]), None])]);
        assert_eq!(untimed([14, 3]).since(&untimed([10, 1])), [Some(4), Some(2), None]);
    }

    #[test]
    fn where_a_process_was_replaced_forked_or_has_ended_nothing_is_known() {
        let all = |pid, count| (pid, [count, 0, count].map(Some));
        let before = collections(&[all(1, 40), all(2, 510)]);
        for after in [
            vec![all(1, 40), all(3, 45)],
            vec![all(1, 40), all(2, 511), all(3, 45)],
            vec![all(1, 40)],
            vec![],
        ] {
            assert_eq!(collections(&after).since(&before), [None; 3], "{after:?}");
        }
    }
}
