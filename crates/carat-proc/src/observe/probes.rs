//! The probes of a process tree, followed from sample to sample.

use crate::observe::{MallocFigures, ProbePage, probe_figures};
use crate::process::{Identity, ProcRoot};
use carat_model::{Bytes, InsideSample};
use carat_wire::page::{AllocationReading, Feature, FeatureState, Gc, Malloc, PageReading};
use std::collections::HashMap;
use std::time::Duration;

/// How often to search a process without a page again: a Ruby that boots has none yet, and a search reads its `maps`.
const SEARCH_EVERY: Duration = Duration::from_secs(1);
/// Figures are requested at most this often, and so rarely that walking malloc's free lists takes at most a thousandth
/// of the time.
const REQUEST_EVERY: Duration = Duration::from_secs(1);
const REQUEST_SHARE: u32 = 1000;

/// Reads the probes' pages of a tree. Reading costs the server nothing; [`Probes::request`] does.
#[derive(Debug, Default)]
pub struct Probes {
    followed: HashMap<Identity, Followed>,
    searched_at: Option<Duration>,
    requested_at: Option<Duration>,
    /// Allocations that were sampled in processes that have ended.
    ended: Vec<AllocationReading>,
}

/// Allocations that the probes of a tree sampled.
#[derive(Debug, Default)]
pub struct SampledAllocations {
    /// One for each process, also those that have ended.
    pub readings: Vec<AllocationReading>,
    /// Processes in which nothing was sampled, and why.
    pub refused: Vec<(u32, &'static str)>,
}

/// A process and the latest figures of its probe.
#[derive(Debug, Default)]
struct Followed {
    page: Option<ProbePage>,
    /// When the latest collection ended, on the monotonic clock, and the number of old objects then.
    kept: Option<(u64, u64)>,
    /// When the allocator's figures were last read, on the monotonic clock.
    malloc_at: Option<u64>,
    /// How long that took.
    cost: Duration,
    /// Whether samples of allocations were requested.
    samples_allocations: bool,
}

impl Probes {
    /// The figures of the probes in these processes, `at` after the start; `None` if there is no probe.
    pub fn read(
        &mut self,
        root: &ProcRoot,
        members: &[Identity],
        at: Duration,
    ) -> Option<InsideSample> {
        self.find(root, members, at);
        let mut found = TreeReadings::default();
        for followed in self.followed.values_mut() {
            let Some(reading) = followed.page.as_ref().and_then(ProbePage::read) else { continue };
            found.kept_is_fresh |= followed.update_kept(&reading);
            found.malloc_is_fresh |= followed.update_malloc(&reading);
            found.readings.push((reading, followed.kept));
        }
        (!found.readings.is_empty()).then(|| found.summed())
    }

    /// Requests fresh figures of every probe, if that is due, and does not wait for them.
    pub fn request(&mut self, at: Duration) {
        // The slowest decides for all, because all are requested at once.
        let highest_cost = self.followed.values().map(|followed| followed.cost).max();
        let every = REQUEST_EVERY.max(highest_cost.unwrap_or_default() * REQUEST_SHARE);
        if self.requested_at.is_some_and(|requested| at < requested + every) {
            return;
        }
        self.requested_at = Some(at);
        let pages = self.followed.values().filter_map(|followed| followed.page.as_ref());
        pages.for_each(ProbePage::request);
    }

    /// Requests samples of allocations, for so long from now on, of every probe of which none were requested yet. Returns
    /// whether any probe was asked so far.
    pub fn sample_allocations(&mut self, time: Duration) -> bool {
        for followed in self.followed.values_mut().filter(|one| !one.samples_allocations) {
            let page = followed.page.as_ref();
            followed.samples_allocations = page.is_some_and(|page| page.request_allocations(time));
        }
        !self.ended.is_empty() || self.followed.values().any(|one| one.samples_allocations)
    }

    /// Ends the samples at once.
    pub fn end_allocations(&self) {
        let sampled = self.followed.values().filter(|one| one.samples_allocations);
        for page in sampled.filter_map(|one| one.page.as_ref()) {
            page.request_allocations(Duration::ZERO);
        }
    }

    /// The allocations that were sampled so far.
    pub fn allocations(&self) -> SampledAllocations {
        let mut found =
            SampledAllocations { readings: self.ended.clone(), ..SampledAllocations::default() };
        for (identity, followed) in &self.followed {
            let page = followed.page.as_ref().filter(|_| followed.samples_allocations);
            let Some((page, reading)) = page.and_then(|page| Some((page, page.read()?))) else {
                continue;
            };
            match why_not_sampled(&reading) {
                Some(why) => found.refused.push((identity.pid, why)),
                None => found.readings.extend(page.read_allocations()),
            }
        }
        found
    }

    fn find(&mut self, root: &ProcRoot, members: &[Identity], at: Duration) {
        let ended = self.followed.extract_if(|identity, _| !members.contains(identity));
        self.ended.extend(ended.filter_map(|(_, followed)| followed.sampled()));
        let again = self.searched_at.is_none_or(|searched| at >= searched + SEARCH_EVERY);
        for &member in members {
            let known = self.followed.get(&member);
            let needs_page = |known: &Followed| known.page.as_ref().is_none_or(ProbePage::is_gone);
            if !known.is_none_or(|known| again && needs_page(known)) {
                continue;
            }
            let (is_new, page) = (known.is_none(), ProbePage::find(root, member));
            if is_new || page.is_some() {
                let before = self.followed.insert(member, Followed { page, ..Followed::default() });
                self.ended.extend(before.and_then(Followed::sampled));
            }
        }
        if again {
            self.searched_at = Some(at);
        }
    }
}

impl Followed {
    /// The allocations that were sampled in a process that has ended, or that runs another program now.
    fn sampled(self) -> Option<AllocationReading> {
        // Its file stays as it was for as long as it is open.
        self.page.filter(|_| self.samples_allocations)?.read_allocations()
    }

    /// Stores the old objects of the latest collection; `true` if there was one since the last call.
    fn update_kept(&mut self, reading: &PageReading) -> bool {
        let written_at = reading.gc.at.map(|moment| moment.ns);
        // Counts are also written between collections, when only a part of the old objects may be counted.
        let ended_at = written_at.filter(|_| written_at == reading.gc.get(Gc::LastNotedNs));
        let Some(found) = ended_at.zip(reading.gc.get(Gc::OldObjects)) else { return false };
        self.kept.replace(found).is_none_or(|before| before.0 != found.0)
    }

    /// Stores when the allocator's figures were read and how long that took; `true` if they are new since the last call.
    fn update_malloc(&mut self, reading: &PageReading) -> bool {
        let read_at = reading.malloc.at.map(|moment| moment.ns);
        self.cost = Duration::from_nanos(reading.malloc.get(Malloc::CostNs).unwrap_or(0));
        let before = std::mem::replace(&mut self.malloc_at, read_at);
        read_at.is_some() && read_at != before
    }
}

/// Why a process whose allocations should be sampled has none; `None` if it has.
fn why_not_sampled(reading: &PageReading) -> Option<&'static str> {
    let state = reading.features.iter().find(|(feature, _)| *feature == Feature::Allocations);
    match state.map(|(_, state)| *state)? {
        FeatureState::On => None,
        FeatureState::NotYet => Some("Ruby did not answer"),
        FeatureState::NoFunction => Some("this Ruby lacks a function that samples require"),
        FeatureState::UnknownRuby => Some("the size of this Ruby's slots is not known"),
        FeatureState::OtherCollector => Some("its collector is not CRuby's own"),
        FeatureState::Refused => Some("there is no room for samples; free some space in TMPDIR"),
        FeatureState::Fault => Some("the probe switched itself off"),
        FeatureState::OtherAllocator | FeatureState::Absent => Some("it is not available"),
    }
}

/// The pages of a tree at one moment, and which of their figures are new.
#[derive(Default)]
struct TreeReadings {
    readings: Vec<(PageReading, Option<(u64, u64)>)>,
    kept_is_fresh: bool,
    malloc_is_fresh: bool,
}

impl TreeReadings {
    fn summed(&self) -> InsideSample {
        let kept: Option<u64> =
            self.readings.iter().map(|(_, kept)| kept.map(|(_, objects)| objects)).sum();
        let majors = self.readings.iter().map(|(reading, _)| reading.gc.get(Gc::Major));
        InsideSample {
            probes: self.readings.len() as u32,
            major_gcs: majors.sum(),
            // Repeated between collections, one number would look like new evidence each time.
            kept_objects: kept.filter(|_| self.kept_is_fresh),
            malloc_live: self.malloc_sum(|figures| figures.live + figures.large),
            malloc_free: self.malloc_sum(|figures| figures.free),
        }
    }

    fn malloc_sum(&self, figure: fn(&MallocFigures) -> Bytes) -> Option<Bytes> {
        let figures = self.readings.iter().map(|(reading, _)| probe_figures(reading).malloc);
        let sum: Option<Bytes> = figures.map(|malloc| malloc.as_ref().map(figure)).sum();
        sum.filter(|_| self.malloc_is_fresh)
    }
}
