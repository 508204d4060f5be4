//! The probes of a process tree, followed from sample to sample.

use crate::model::{Bytes, InsideSample};
use crate::process::{Identity, ProcRoot};
use crate::sample::{MallocFigures, ProbePage, inside};
use carat_wire::page::{Gc, PageReading};
use std::collections::HashMap;
use std::time::Duration;

/// How often a process without a page is looked at again: a Ruby that boots has none yet, and looking reads its `maps`.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Reads the probes' pages of a tree. Reading costs the server nothing; only [`Probes::ask`] does.
#[derive(Debug, Default)]
pub struct Probes {
    followed: HashMap<Identity, Followed>,
    looked: Option<Duration>,
}

/// One process.
#[derive(Debug, Default)]
struct Followed {
    page: Option<ProbePage>,
    /// Live slots when the latest collection ended.
    live: Option<u64>,
    /// When the allocator was last asked, on the probe's clock.
    malloc_at: Option<u64>,
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
        let mut readings = Vec::new();
        let mut malloc_is_fresh = false;
        for followed in self.followed.values_mut() {
            let Some(reading) = followed.page.as_ref().and_then(ProbePage::read) else { continue };
            malloc_is_fresh |= followed.note(&reading);
            readings.push((reading, followed.live));
        }
        (!readings.is_empty()).then(|| summed(&readings, malloc_is_fresh))
    }

    /// Asks every probe for fresh figures and does not wait for them.
    pub fn ask(&self) {
        self.followed
            .values()
            .filter_map(|followed| followed.page.as_ref())
            .for_each(ProbePage::ask);
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
    /// Keeps what is true only at certain moments; whether the allocator has been asked since the last time.
    fn note(&mut self, reading: &PageReading) -> bool {
        let counted_at = reading.gc.at.map(|moment| moment.ns);
        // Counts are also written between collections, when they include young garbage.
        if counted_at.is_some() && counted_at == reading.gc.get(Gc::LastSweepNs) {
            self.live = reading.gc.get(Gc::LiveSlots);
        }
        let asked = reading.malloc.at.map(|moment| moment.ns);
        let fresh = asked.is_some() && asked != self.malloc_at;
        self.malloc_at = asked;
        fresh
    }
}

fn summed(readings: &[(PageReading, Option<u64>)], malloc_is_fresh: bool) -> InsideSample {
    let count = |word: Gc| readings.iter().map(|(reading, _)| reading.gc.get(word)).sum();
    let malloc = |figure: fn(&MallocFigures) -> Bytes| -> Option<Bytes> {
        let of = |reading: &PageReading| inside(reading).malloc.as_ref().map(figure);
        readings.iter().map(|(reading, _)| of(reading).filter(|_| malloc_is_fresh)).sum()
    };
    InsideSample {
        probes: readings.len() as u32,
        gcs: count(Gc::Count),
        major_gcs: count(Gc::Major),
        live_slots: readings.iter().map(|(_, live)| *live).sum(),
        live_after_major: count(Gc::LiveAfterMajor),
        malloc_live: malloc(|figures| figures.live + figures.large),
        malloc_free: malloc(|figures| figures.free),
    }
}
