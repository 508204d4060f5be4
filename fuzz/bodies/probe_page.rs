//! Whatever stands in a probe's page, reading it ends, stays within its rooms, and never panics.
//!
//! The first byte of an input says what of a sound page's beginning is put before the rest, so that mutations
//! come past the first word; between two reads of the same place the page may change, as a live one does.

use carat_wire::page::{
    ARENAS, MAGIC, PAGE_BYTES, POOLS, RANGES, SITES, VERSION, read, read_allocations,
};
use std::io;

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((&kind, rest)) = input.split_first() else { return };
    let mut page = vec![0; PAGE_BYTES];
    let start = if kind & 1 == 1 {
        page[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        page[8..16].copy_from_slice(&VERSION.to_ne_bytes());
        16
    } else {
        0
    };
    let length = rest.len().min(PAGE_BYTES - start);
    page[start..start + length].copy_from_slice(&rest[..length]);
    let short = if kind & 2 == 2 { start + length } else { PAGE_BYTES };
    let mut fetches = 0_usize;
    let mut fetch = |offset: u64, buffer: &mut [u8]| {
        fetches += 1;
        assert!(fetches < 1000, "reading does not end");
        let offset = usize::try_from(offset).expect("within the file");
        let found = page.get(offset..offset + buffer.len()).expect("within the page");
        if offset + buffer.len() > short {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.copy_from_slice(found);
        if kind & 4 == 4
            && let Some(word) = rest.get(fetches).and_then(|&at| page.get_mut(usize::from(at) * 8))
        {
            *word = word.wrapping_add(1);
        }
        Ok(())
    };
    let reading = read(&mut fetch);
    if let Ok(allocations) = read_allocations(&mut fetch) {
        assert!(allocations.sites.len() <= SITES);
    }
    if let Ok(reading) = reading {
        assert!(reading.pools.len() <= POOLS && reading.arenas.len() <= ARENAS);
        assert!(reading.heap_pages.ranges.len() <= RANGES);
        let _ = carat_proc::observe::probe_figures(&reading);
    }
}
