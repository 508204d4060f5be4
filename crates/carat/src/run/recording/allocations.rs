//! Samples of allocations during a part of a recording.

use crate::run::sampled_tree::SampledTree;
use carat_analysis::allocation_profile;
use carat_model::{AllocationProfile, Span};
use std::time::Duration;

const UNSAMPLED: &str = "no allocations were sampled: no process had carat's probe meanwhile, which `carat record -- COMMAND` loads into Ruby";

/// The part of a recording in which allocations are sampled.
#[derive(Debug)]
pub(super) struct AllocationWindow {
    length: Duration,
    ends: Option<Duration>,
}

impl AllocationWindow {
    pub(super) fn new(length: Span) -> Self {
        Self { length: length.0, ends: None }
    }

    /// Has the probes sample until the end of the window, also those of processes that have joined the tree. The first probe
    /// that is found begins the window, so that a slow start takes nothing of it.
    pub(super) fn follow(&mut self, tree: &mut SampledTree<'_>) {
        let now = tree.elapsed();
        let left = self.ends.map_or(self.length, |ends| ends.saturating_sub(now));
        if !left.is_zero() && tree.sample_allocations(left) {
            self.ends.get_or_insert(now + self.length);
        }
    }

    /// Ends the window. Returns what was allocated where, and what a reader should know of it.
    pub(super) fn end(
        self,
        tree: &mut SampledTree<'_>,
    ) -> (Option<AllocationProfile>, Vec<String>) {
        let found = tree.end_allocations();
        let profile = allocation_profile(&found.readings);
        let refused = found.refused.iter();
        let mut notes: Vec<String> = refused
            .map(|(pid, why)| format!("allocations of process {pid} were not sampled: {why}"))
            .collect();
        if profile.is_none() && notes.is_empty() {
            notes.push(UNSAMPLED.to_owned());
        }
        (profile, notes)
    }
}
