//! Where sampled allocations were made: a table that only grows, with one row for each class and place.

use crate::page::word::set_text;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mean bytes of slots from one sample to the next.
pub const SAMPLE_BYTES: u64 = 512 << 10;

/// A request of no time: samples end, if they have not ended by themselves, and what was sampled stays.
pub const END_SAMPLES: u64 = 1;

/// Room for places.
pub const SITES: usize = 1024;

/// One class at one place, with the number of its samples.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) samples: AtomicU64,
    pub(crate) line: AtomicU64,
    pub(crate) class: [AtomicU64; 16],
    pub(crate) path: [AtomicU64; 30],
}

/// Rows of [`Site`]. A row is complete before it is counted, and only its number of samples changes afterwards; so a reader
/// needs no sequence. There must be one writer at a time.
#[repr(C)]
#[derive(Debug)]
pub struct Sites {
    pub(crate) count: AtomicU64,
    reserved: [AtomicU64; 7],
    /// A hash of class, path and line, for each row.
    keys: [AtomicU64; SITES],
    pub(crate) rows: [Site; SITES],
}

const _: () = {
    assert!(size_of::<Site>() == 384);
    assert!(Sites::HEAD_BYTES == 64 + 8 * SITES);
};

impl Sites {
    /// Bytes before the first row.
    pub const HEAD_BYTES: usize = offset_of!(Self, rows);

    /// Forgets all rows.
    pub fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    /// Counts `samples` more of this class at this place. `has_room` says whether so many bytes from the beginning of the
    /// table can be written. Returns `false` if there is no room. Allocates nothing.
    pub fn add(
        &self,
        class: &[u8],
        (path, line): (&[u8], u64),
        samples: u64,
        has_room: impl FnOnce(usize) -> bool,
    ) -> bool {
        let key = [class, b"\0", path, b"\0", &line.to_le_bytes()].into_iter().fold(START, hash);
        let count = (self.count.load(Ordering::Relaxed) as usize).min(SITES);
        let known =
            self.keys[..count].iter().position(|known| known.load(Ordering::Relaxed) == key);
        if let Some(known) = known {
            self.rows[known].samples.fetch_add(samples, Ordering::Relaxed);
            return true;
        }
        let end = Self::HEAD_BYTES + (count + 1) * size_of::<Site>();
        let Some(row) = self.rows.get(count).filter(|_| has_room(end)) else { return false };
        self.keys[count].store(key, Ordering::Relaxed);
        row.samples.store(samples, Ordering::Relaxed);
        row.line.store(line, Ordering::Relaxed);
        set_text(&row.class, class);
        // The end of a long path tells more than its beginning.
        let room = row.path.len() * 8;
        set_text(&row.path, &path[path.len().saturating_sub(room)..]);
        self.count.store(count as u64 + 1, Ordering::Release);
        true
    }
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits.
fn hash(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
