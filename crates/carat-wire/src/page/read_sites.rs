//! Reading sampled allocations from outside.

use crate::page::layout::{MAGIC, Page, VERSION};
use crate::page::read::{PageError, SectionReading, fetch_words};
use crate::page::section::Section;
use crate::page::sites::{SITES, Site, Sites};
use crate::page::word::text;
use crate::page::words::Allocations;
use std::io;
use std::mem::offset_of;

/// Samples of one class at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteReading {
    /// The class's name, or what the object is where it has no class.
    pub class: String,
    /// File; empty where no Ruby code ran. Of a path of more than 240 bytes, its end.
    pub path: String,
    pub line: u64,
    pub samples: u64,
}

/// What a process allocated where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationReading {
    /// Number and cost of the samples. Each word is updated by itself.
    pub words: SectionReading<Allocations>,
    pub sites: Vec<SiteReading>,
}

/// Reads the sampled allocations of a page through `fetch`, as [`crate::page::read`] does.
pub fn read_allocations(
    mut fetch: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<AllocationReading, PageError> {
    match fetch_words(&mut fetch, 0, 2)?[..] {
        [MAGIC, VERSION] => {}
        [MAGIC, other] => return Err(PageError::Version(other)),
        _ => return Err(PageError::NotReady),
    }
    let section = offset_of!(Page, allocations);
    let words = fetch_words(&mut fetch, section, size_of::<Section<Allocations>>() / 8)?;
    let sites = offset_of!(Page, sites);
    let count = fetch_words(&mut fetch, sites, 1)?[0];
    // Another process wrote the count: more rows than there is room for are other parts.
    let count = (count as usize).min(SITES);
    let row = size_of::<Site>() / 8;
    let rows = fetch_words(&mut fetch, sites + Sites::HEAD_BYTES, count * row)?;
    Ok(AllocationReading {
        words: SectionReading::of(&words),
        sites: rows.chunks_exact(row).map(site).collect(),
    })
}

fn site(row: &[u64]) -> SiteReading {
    let (class, path) = (offset_of!(Site, class) / 8, offset_of!(Site, path) / 8);
    SiteReading {
        class: text(&row[class..path]),
        path: text(&row[path..]),
        line: row[offset_of!(Site, line) / 8],
        samples: row[offset_of!(Site, samples) / 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn read_page(page: &Page) -> Result<AllocationReading, PageError> {
        let first = std::ptr::from_ref(page).cast::<u8>();
        read_allocations(|offset, buffer| {
            let offset = offset as usize;
            assert!(offset + buffer.len() <= size_of::<Page>());
            // SAFETY: the range lies within the page, and this test has no other thread.
            buffer.copy_from_slice(unsafe {
                std::slice::from_raw_parts(first.add(offset), buffer.len())
            });
            Ok(())
        })
    }

    fn ready() -> Box<Page> {
        let page = Page::new_boxed();
        page.header.version.store(VERSION, Ordering::Relaxed);
        page.header.magic.store(MAGIC, Ordering::Release);
        page
    }

    #[test]
    fn samples_of_one_class_at_one_place_are_one_row() {
        let page = ready();
        let place = (&b"/app/post.rb"[..], 7);
        for (class, place, samples) in
            [("Post", place, 1), ("Post", place, 2), ("Post", (place.0, 8), 1), ("Page", place, 1)]
        {
            assert!(page.sites.add(class.as_bytes(), place, samples, |_| true));
        }
        page.allocations.set(Allocations::Samples, 5);
        let found = read_page(&page).unwrap();
        assert_eq!(found.words.get(Allocations::Samples), Some(5));
        assert_eq!(found.words.get(Allocations::Objects), None);
        let rows: Vec<_> =
            found.sites.iter().map(|site| (site.class.as_str(), site.line, site.samples)).collect();
        assert_eq!(rows, [("Post", 7, 3), ("Post", 8, 1), ("Page", 7, 1)]);
        assert_eq!(found.sites[0].path, "/app/post.rb");
        page.sites.clear();
        assert_eq!(read_page(&page).unwrap().sites, []);
    }

    #[test]
    fn a_full_table_refuses_new_places_counts_known_ones_and_a_long_path_keeps_its_end() {
        let page = ready();
        let long = [b'x'; 250].into_iter().chain(*b"/end.rb").collect::<Vec<u8>>();
        for line in 0..SITES as u64 {
            assert!(page.sites.add(b"A", (&long, line), 1, |_| true));
        }
        assert!(!page.sites.add(b"B", (&long, 1), 1, |_| true));
        assert!(page.sites.add(b"A", (&long, 1), 1, |_| true));
        let sites = read_page(&page).unwrap().sites;
        assert_eq!((sites.len(), sites[1].samples), (SITES, 2));
        assert!(sites[0].path.ends_with("x/end.rb") && sites[0].path.len() == 240);
    }

    #[test]
    fn without_room_nothing_is_written_and_a_hostile_count_reads_no_further_than_the_table() {
        let page = ready();
        let mut asked = 0;
        let refuse = |end| {
            asked = end;
            false
        };
        assert!(!page.sites.add(b"A", (b"a.rb", 1), 1, refuse));
        assert_eq!(asked, 64 + 8 * SITES + 384);
        assert_eq!(read_page(&page).unwrap().sites, []);
        page.sites.count.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(read_page(&page).unwrap().sites.len(), SITES);
        page.header.version.store(VERSION + 1, Ordering::Relaxed);
        assert!(matches!(read_page(&page), Err(PageError::Version(_))));
    }
}
