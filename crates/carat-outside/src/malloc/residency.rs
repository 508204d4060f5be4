//! The pages of an arena that are in memory, and how many bytes of each are in use.

use crate::bytes::{align_down, align_up};
use crate::malloc::data::{MAP_CELLS, Occupancy};
use crate::memory::{Memory, PAGE};

/// A run of resident pages.
#[derive(Debug, Clone, Copy)]
struct PageRun {
    start: u64,
    end: u64,
    /// Place of its first page in the list of all.
    first: usize,
}

/// Resident pages and the bytes in use on each. Needs two bytes per resident page and nothing for others.
#[derive(Debug, Default, Clone)]
pub(super) struct ResidentPages {
    runs: Vec<PageRun>,
    live: Vec<u16>,
}

impl ResidentPages {
    /// The resident pages of these stretches of addresses; none is in use yet.
    pub(super) fn of(memory: &dyn Memory, spans: &[(u64, u64)]) -> Self {
        let mut spans = spans.to_vec();
        spans.sort_by_key(|span| span.0);
        let mut runs = Vec::new();
        for region in memory.regions() {
            let first = spans.partition_point(|span| span.1 <= region.start);
            if spans.get(first).is_none_or(|span| span.0 >= region.end) {
                continue;
            }
            for (page, count) in region.pages.runs(u64::MAX) {
                let start = region.start.saturating_add(page.saturating_mul(PAGE));
                let end = start.saturating_add(count.saturating_mul(PAGE));
                let first = spans.partition_point(|span| span.1 <= start);
                for span in spans[first..].iter().take_while(|span| span.0 < end) {
                    // Spans need not begin or end at a page, and a page counts as a whole.
                    let (start, end) = (start.max(align_down(span.0, PAGE)), end.min(span.1));
                    runs.push(PageRun { start, end: align_up(end, PAGE), first: 0 });
                }
            }
        }
        runs.sort_by_key(|run| run.start);
        // Two spans can meet within one page.
        runs.dedup_by_key(|run| run.start);
        let mut pages = 0;
        for run in &mut runs {
            run.first = pages;
            pages += ((run.end - run.start) / PAGE) as usize;
        }
        Self { runs, live: vec![0; pages] }
    }

    /// Bytes of all resident pages.
    pub(super) fn bytes(&self) -> u64 {
        self.live.len() as u64 * PAGE
    }

    /// Bytes of resident pages that lie wholly in a range.
    pub(super) fn within(&self, start: u64, end: u64) -> u64 {
        self.present(align_up(start, PAGE), align_down(end, PAGE))
    }

    /// Bytes of a range that lie on resident pages.
    pub(super) fn present(&self, start: u64, end: u64) -> u64 {
        let first = self.runs.partition_point(|run| run.end <= start);
        let runs = self.runs[first..].iter().take_while(|run| run.start < end);
        runs.map(|run| run.end.min(end).saturating_sub(run.start.max(start))).sum()
    }

    /// Marks the bytes of a range as in use.
    pub(super) fn use_bytes(&mut self, start: u64, end: u64) {
        self.change(start, end, |live, bytes| live.saturating_add(bytes));
    }

    /// Marks them as not in use.
    pub(super) fn free_bytes(&mut self, start: u64, end: u64) {
        self.change(start, end, |live, bytes| live.saturating_sub(bytes));
    }

    fn change(&mut self, start: u64, end: u64, change: fn(u16, u16) -> u16) {
        let first = self.runs.partition_point(|run| run.end <= start);
        for run in self.runs[first..].iter().take_while(|run| run.start < end) {
            let mut at = start.max(run.start);
            let limit = end.min(run.end);
            while at < limit {
                let page = align_down(at, PAGE);
                let next = (page + PAGE).min(limit);
                let place = run.first + ((page - run.start) / PAGE) as usize;
                if let Some(live) = self.live.get_mut(place) {
                    // A torn read can count a chunk twice, and no page has more bytes in use than it has.
                    *live = change(*live, (next - at) as u16).min(PAGE as u16);
                }
                at = next;
            }
        }
    }

    /// Pages by the share of their bytes in use.
    pub(super) fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::default();
        for live in self.live.iter().map(|live| u64::from(*live)) {
            let class = (live * 10 / PAGE).min(10) as usize;
            occupancy.page_bytes[class] += PAGE;
            occupancy.live_bytes[class] += live;
            occupancy.empty_bytes += if live == 0 { PAGE } else { 0 };
        }
        occupancy
    }

    /// The pages by address as a strip of cells; each is the mean percentage of bytes in use.
    pub(super) fn map(&self) -> Vec<u8> {
        let per_cell = (self.live.len() as u64).div_ceil(MAP_CELLS).max(1) as usize;
        let cells = self.live.chunks(per_cell).map(|cell| {
            let live: u64 = cell.iter().map(|live| u64::from(*live)).sum();
            (live * 100 / (cell.len() as u64 * PAGE)) as u8
        });
        cells.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> ResidentPages {
        let runs = vec![
            PageRun { start: 0x1000, end: 0x3000, first: 0 },
            PageRun { start: 0x5000, end: 0x6000, first: 2 },
        ];
        ResidentPages { runs, live: vec![0; 3] }
    }

    #[test]
    fn only_whole_resident_pages_inside_a_range_count() {
        let pages = pages();
        assert_eq!(pages.within(0x1000, 0x6000), 3 * PAGE);
        assert_eq!(pages.within(0x1001, 0x5fff), PAGE);
        assert_eq!(pages.within(0x3000, 0x5000), 0);
        assert_eq!(pages.bytes(), 3 * PAGE);
        assert_eq!(pages.present(0x2ff0, 0x5010), 0x20);
    }

    #[test]
    fn a_chunk_across_pages_and_a_hole_is_in_use_where_it_is_resident() {
        let mut pages = pages();
        pages.use_bytes(0x2f00, 0x5100);
        assert_eq!(pages.live, [0, 0x100, 0x100]);
        let occupancy = pages.occupancy();
        assert_eq!(occupancy.page_bytes[0], 3 * PAGE);
        assert_eq!((occupancy.empty_bytes, occupancy.nearly_free()), (PAGE, 2 * PAGE));
        assert_eq!(occupancy.live_bytes[0], 0x200);
        pages.free_bytes(0x2f00, 0x3000);
        pages.use_bytes(0x5100, 0x6000);
        assert_eq!(pages.occupancy().page_bytes, [2 * PAGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, PAGE]);
        assert_eq!(pages.map(), [0, 0, 100]);
    }

    #[test]
    fn freeing_more_than_is_in_use_ends_at_zero() {
        let mut pages = pages();
        pages.free_bytes(0, u64::MAX);
        assert_eq!(pages.live, [0, 0, 0]);
    }
}
