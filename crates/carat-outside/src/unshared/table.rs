//! The table of causes: plain data, and how pages add up to it.

use crate::memory::PAGE;
use crate::unshared::{Cause, Remedy};
use carat_ruby::version::RubyVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why the memory of one forked process is private, compared with its parent. In bytes of whole pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsharedTable {
    /// The parent's process number.
    pub parent: u32,
    /// The child's process number.
    pub child: u32,
    /// Whether the kernel shows page frames (`CAP_SYS_ADMIN`). Without them a page counts as shared where any other
    /// process maps it too.
    pub frames_known: bool,
    /// Pages of the child that the parent maps too.
    pub shared_bytes: u64,
    /// Pages that the child shares with other processes but no longer with the parent, because the parent wrote to them.
    /// `None` without page frames.
    pub parted_bytes: Option<u64>,
    /// Pages that only the child maps: the sum of the causes.
    pub private_bytes: u64,
    /// Why, the largest first.
    pub causes: Vec<CauseShare>,
    /// The same pages by what lies on them.
    pub areas: Vec<AreaShare>,
    /// What could not be compared, and why.
    pub unknown: Vec<String>,
}

/// The share of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CauseShare {
    pub cause: Cause,
    /// Bytes of pages, where a page with several causes is divided among them in equal parts.
    pub bytes: f64,
    /// Bytes of the pages on which it occurs.
    pub touched_bytes: u64,
    /// Bytes of the pages on which it is the only cause: what would stay shared without it.
    pub alone_bytes: u64,
    /// Bytes that differ, in words of eight; `None` where nothing was compared.
    pub changed_bytes: Option<u64>,
    /// What addresses it and is not in effect yet.
    pub remedy: Option<Remedy>,
}

/// What lies on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// Ruby's heap pages.
    Slots,
    /// Chunks of malloc.
    Malloc,
    /// Ruby's transient heap.
    TransientHeap,
    /// Machine code of Ruby's compiler.
    Jit,
    /// Data of libraries.
    LibraryData,
    /// Stacks.
    Stacks,
    /// Other anonymous memory.
    Other,
    /// Files and shared memory.
    Files,
}

/// The private and shared pages of one area, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaShare {
    pub area: Area,
    /// Pages that other processes map too.
    pub shared_bytes: u64,
    /// Private pages where the parent has none.
    pub new_bytes: u64,
    /// Private pages where the parent has one.
    pub unshared_bytes: u64,
}

/// How one page of the child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageState {
    Shared,
    /// Shared with others, not with the parent.
    Parted,
    New,
    Unshared,
}

/// Causes on one page, with the number of words that each explains.
pub(super) type PageCauses = BTreeMap<Cause, u64>;

/// Adds pages up.
#[derive(Debug, Default)]
pub(super) struct Tally {
    causes: BTreeMap<Cause, CauseTally>,
    areas: BTreeMap<Area, [u64; 3]>,
    shared: u64,
    parted: u64,
    private: u64,
}

#[derive(Debug, Default)]
struct CauseTally {
    share: f64,
    pages: u64,
    alone: u64,
    words: u64,
}

impl Tally {
    /// Counts a page by its state.
    pub(super) fn page(&mut self, area: Area, state: PageState) {
        let row = self.areas.entry(area).or_default();
        match state {
            PageState::Shared => {
                self.shared += 1;
                row[0] += 1;
            }
            PageState::Parted => {
                self.parted += 1;
                row[0] += 1;
            }
            PageState::New => {
                self.private += 1;
                row[1] += 1;
            }
            PageState::Unshared => {
                self.private += 1;
                row[2] += 1;
            }
        }
    }

    /// Divides one private page among its causes; one without any counts as unread.
    pub(super) fn divide(&mut self, causes: &PageCauses) {
        if causes.is_empty() {
            self.whole(Cause::Unread, 1);
            return;
        }
        for (&cause, &words) in causes {
            let row = self.causes.entry(cause).or_default();
            // In equal parts, because nobody can say which of the writes came first.
            row.share += 1.0 / causes.len() as f64;
            row.pages += 1;
            row.words += words;
            // Only without a page's single cause would it still be shared.
            row.alone += u64::from(causes.len() == 1);
        }
    }

    /// Private pages with one cause of which nothing was compared.
    pub(super) fn whole(&mut self, cause: Cause, pages: u64) {
        let row = self.causes.entry(cause).or_default();
        row.share += pages as f64;
        row.pages += pages;
        row.alone += pages;
    }

    /// Private pages of files, which are not compared, and pages of files that others map too.
    pub(super) fn files(&mut self, private: u64, shared: u64) {
        if private > 0 {
            self.whole(Cause::Files, private);
        }
        self.private += private;
        self.shared += shared;
        let row = self.areas.entry(Area::Files).or_default();
        row[0] += shared;
        row[1] += private;
    }

    /// The finished table of that pair.
    pub(super) fn table(
        self,
        parent: u32,
        child: u32,
        version: RubyVersion,
        frames_known: bool,
    ) -> UnsharedTable {
        let mut causes: Vec<CauseShare> =
            self.causes.into_iter().map(|(cause, row)| row.share_of(cause, version)).collect();
        causes.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
        let areas = self.areas.into_iter().map(|(area, [shared, new, unshared])| AreaShare {
            area,
            shared_bytes: shared * PAGE,
            new_bytes: new * PAGE,
            unshared_bytes: unshared * PAGE,
        });
        UnsharedTable {
            parent,
            child,
            frames_known,
            shared_bytes: self.shared * PAGE,
            // Without frames such pages cannot be told from those shared with the parent: unknown, and not none.
            parted_bytes: frames_known.then_some(self.parted * PAGE),
            private_bytes: self.private * PAGE,
            causes,
            areas: areas.collect(),
            unknown: Vec::new(),
        }
    }
}

impl CauseTally {
    fn share_of(self, cause: Cause, version: RubyVersion) -> CauseShare {
        // Of the others no words were compared, so that none is known to differ.
        let compared =
            !matches!(cause, Cause::NewSinceFork | Cause::Files | Cause::Unread | Cause::SameBytes);
        CauseShare {
            cause,
            bytes: self.share * PAGE as f64,
            touched_bytes: self.pages * PAGE,
            alone_bytes: self.alone * PAGE,
            changed_bytes: compared.then_some(self.words * 8),
            remedy: cause.remedy(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: RubyVersion = RubyVersion::new(3, 1);

    #[test]
    fn the_causes_add_up_to_the_private_pages_however_they_meet() {
        let mut tally = Tally::default();
        for state in [PageState::Shared, PageState::Parted, PageState::New, PageState::Unshared] {
            tally.page(Area::Slots, state);
        }
        tally.whole(Cause::NewSinceFork, 1);
        tally.divide(&PageCauses::from([
            (Cause::AgeBits, 3),
            (Cause::GcBitmaps, 1),
            (Cause::SlotsReused, 9),
        ]));
        tally.files(2, 5);
        let table = tally.table(10, 11, VERSION, true);
        let sum: f64 = table.causes.iter().map(|share| share.bytes).sum();
        assert!((sum - table.private_bytes as f64).abs() < 1e-6, "{table:?}");
        assert_eq!((table.private_bytes, table.shared_bytes), (4 * PAGE, 6 * PAGE));
        assert_eq!(table.parted_bytes, Some(PAGE));
        assert_eq!(table.causes[0].cause, Cause::Files);
        let ages = table.causes.iter().find(|share| share.cause == Cause::AgeBits).unwrap();
        assert_eq!((ages.touched_bytes, ages.alone_bytes), (PAGE, 0));
        assert_eq!(ages.changed_bytes, Some(24));
    }

    #[test]
    fn a_private_page_without_a_cause_is_not_lost() {
        let mut tally = Tally::default();
        tally.page(Area::Other, PageState::Unshared);
        tally.divide(&PageCauses::new());
        let table = tally.table(1, 2, VERSION, false);
        assert_eq!(table.causes[0].cause, Cause::Unread);
        assert_eq!((table.private_bytes, table.parted_bytes), (PAGE, None));
    }
}
