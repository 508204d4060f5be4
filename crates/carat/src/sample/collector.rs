//! What the garbage collectors of a tree did so far, as the probe counts it.

use crate::process::{Identity, ProcRoot};
use crate::sample::ProbePage;
use carat_wire::page::Gc;
use std::collections::BTreeMap;

/// Collections of each process since it began, and the time they took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collections(BTreeMap<Identity, [u64; 3]>);

impl Collections {
    /// Reads the probe's page of every process; processes without one are left out.
    pub fn read(root: &ProcRoot, members: &[Identity]) -> Self {
        let of = |&member: &Identity| {
            let page = ProbePage::find(root, member)?.read()?;
            let time = page.gc.get(Gc::TimeNs).or(page.gc.get(Gc::SeenNs))?;
            Some((member, [page.gc.get(Gc::Count)?, page.gc.get(Gc::Major)?, time]))
        };
        Self(members.iter().filter_map(of).collect())
    }

    /// Collections, full collections and nanoseconds since `before`, over all processes; `None` where no
    /// process has a probe.
    ///
    /// A process that is new since `before` counts whole, although its counters include its parent's: a
    /// worker that was forked meanwhile makes this an upper bound.
    pub fn since(&self, before: &Self) -> Option<[u64; 3]> {
        if self.0.is_empty() {
            return None;
        }
        let mut sum = [0; 3];
        for (member, now) in &self.0 {
            let then = before.0.get(member).unwrap_or(&[0; 3]);
            for ((total, now), then) in sum.iter_mut().zip(now).zip(then) {
                *total += now.saturating_sub(*then);
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collections(rows: &[(u32, [u64; 3])]) -> Collections {
        let row = |&(pid, counts): &(u32, [u64; 3])| (Identity { pid, start_ticks: 1 }, counts);
        Collections(rows.iter().map(row).collect())
    }

    #[test]
    fn differences_are_summed_over_processes_and_unknown_without_a_probe() {
        let before = collections(&[(1, [10, 2, 500]), (2, [1, 0, 10])]);
        let after = collections(&[(1, [14, 3, 900]), (2, [2, 0, 15]), (3, [1, 1, 7])]);
        assert_eq!(after.since(&before), Some([6, 2, 412]));
        assert_eq!(collections(&[]).since(&before), None);
    }
}
