//! The probes of a process tree, followed from sample to sample.

use crate::core::{Bytes, InsideSample};
use crate::observe::{MallocFigures, ProbePage, probe_figures};
use crate::process::{Identity, ProcRoot};
use carat_wire::page::{Gc, Malloc, PageReading};
use std::collections::HashMap;
use std::time::Duration;

/// How often a process without a page is looked at again: a Ruby that boots has none yet, and looking reads its `maps`.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The probes are asked at most so often, and so seldom that walking malloc's free lists takes a thousandth of the time.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_SHARE: u32 = 1000;

/// Reads the probes' pages of a tree. Reading costs the server nothing; only [`Probes::request`] does.
#[derive(Debug, Default)]
pub struct Probes {
    followed: HashMap<Identity, Followed>,
    looked: Option<Duration>,
    asked: Option<Duration>,
}

/// One process.
#[derive(Debug, Default)]
struct Followed {
    page: Option<ProbePage>,
    /// When the latest collection ended, on the probe's clock, and the old objects then.
    kept: Option<(u64, u64)>,
    /// When the allocator was last asked, on the probe's clock.
    malloc_at: Option<u64>,
    /// What that took.
    cost: Duration,
}

impl Probes {
    /// What the probes of these processes say, `at` after the start; `None` where there is none.
    pub fn read(
        &mut self,
        root: &ProcRoot,
        members: &[Identity],
        at: Duration,
    ) -> Option<InsideSample> {
        self.find(root, members, at);
        let mut seen = TreeReadings::default();
        for followed in self.followed.values_mut() {
            let Some(reading) = followed.page.as_ref().and_then(ProbePage::read) else { continue };
            seen.kept_is_fresh |= followed.note_collection(&reading);
            seen.malloc_is_fresh |= followed.note_malloc(&reading);
            seen.readings.push((reading, followed.kept));
        }
        (!seen.readings.is_empty()).then(|| seen.summed())
    }

    /// Asks every probe for fresh figures, where that is due, and does not wait for them.
    pub fn request(&mut self, at: Duration) {
        let dearest = self.followed.values().map(|followed| followed.cost).max();
        let every = ASK_EVERY.max(dearest.unwrap_or_default() * ASK_SHARE);
        if self.asked.is_some_and(|asked| at < asked + every) {
            return;
        }
        self.asked = Some(at);
        let pages = self.followed.values().filter_map(|followed| followed.page.as_ref());
        pages.for_each(ProbePage::request);
    }

    fn find(&mut self, root: &ProcRoot, members: &[Identity], at: Duration) {
        self.followed.retain(|identity, _| members.contains(identity));
        let again = self.looked.is_none_or(|looked| at >= looked + LOOK_EVERY);
        for &member in members {
            let known = self.followed.get(&member);
            if known.is_none_or(|known| again && known.page.is_none()) {
                let page = ProbePage::find(root, member);
                self.followed.insert(member, Followed { page, ..Followed::default() });
            }
        }
        if again {
            self.looked = Some(at);
        }
    }
}

impl Followed {
    /// Keeps the old objects of a collection that has just ended; whether there was one since the last time.
    fn note_collection(&mut self, reading: &PageReading) -> bool {
        let written_at = reading.gc.at.map(|moment| moment.ns);
        // Counts are also written between collections, where the old objects may be half counted.
        let ended_at = written_at.filter(|_| written_at == reading.gc.get(Gc::LastNotedNs));
        let Some(found) = ended_at.zip(reading.gc.get(Gc::OldObjects)) else { return false };
        self.kept.replace(found).is_none_or(|before| before.0 != found.0)
    }

    /// Keeps when the allocator was asked and what that took; whether it was since the last time.
    fn note_malloc(&mut self, reading: &PageReading) -> bool {
        let asked = reading.malloc.at.map(|moment| moment.ns);
        self.cost = Duration::from_nanos(reading.malloc.get(Malloc::CostNs).unwrap_or(0));
        let before = std::mem::replace(&mut self.malloc_at, asked);
        asked.is_some() && asked != before
    }
}

/// What the pages of a tree say at one moment, and what of it is new.
#[derive(Default)]
struct TreeReadings {
    readings: Vec<(PageReading, Option<(u64, u64)>)>,
    kept_is_fresh: bool,
    malloc_is_fresh: bool,
}

impl TreeReadings {
    fn summed(&self) -> InsideSample {
        let readings = || self.readings.iter().map(|(reading, _)| reading);
        let malloc = |figure: fn(&MallocFigures) -> Bytes| -> Option<Bytes> {
            let of = |reading: &PageReading| probe_figures(reading).malloc.as_ref().map(figure);
            readings().map(of).sum::<Option<Bytes>>().filter(|_| self.malloc_is_fresh)
        };
        let kept: Option<u64> =
            self.readings.iter().map(|(_, kept)| kept.map(|(_, objects)| objects)).sum();
        InsideSample {
            probes: self.readings.len() as u32,
            major_gcs: readings().map(|reading| reading.gc.get(Gc::Major)).sum(),
            kept_objects: kept.filter(|_| self.kept_is_fresh),
            malloc_live: malloc(|figures| figures.live + figures.large),
            malloc_free: malloc(|figures| figures.free),
        }
    }
}
