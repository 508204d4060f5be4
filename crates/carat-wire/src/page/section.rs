//! Sections (words by name) and tables (rows of words), each with a sequence.

use crate::page::word::{UNKNOWN, VALUES, Word};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words by name. Bit `n` of `known` says whether word `n` was ever written.
#[repr(C)]
#[derive(Debug)]
pub struct Section<W> {
    sequence: AtomicU64,
    at_ns: AtomicU64,
    known: AtomicU64,
    values: [AtomicU64; VALUES],
    words: PhantomData<W>,
}

/// Rows of `WORDS` words each; an unknown word of a row is [`UNKNOWN`].
#[repr(C)]
#[derive(Debug)]
pub struct Table<const WORDS: usize, const ROWS: usize> {
    sequence: AtomicU64,
    at_ns: AtomicU64,
    count: AtomicU64,
    found: AtomicU64,
    sum: AtomicU64,
    reserved: [AtomicU64; 3],
    rows: [[AtomicU64; WORDS]; ROWS],
}

/// Writes words of one section. Its sequence is odd meanwhile.
#[derive(Debug)]
pub struct Writer<'a, W> {
    section: &'a Section<W>,
}

impl<W: Word> Writer<'_, W> {
    /// Writes one word.
    pub fn set(&mut self, word: W, value: u64) {
        self.section.set(word, value);
    }

    /// Writes one word if its value is known; otherwise the old value stays.
    pub fn set_known(&mut self, word: W, value: Option<u64>) {
        if let Some(value) = value {
            self.set(word, value);
        }
    }
}

impl<W: Word> Section<W> {
    /// Writes several words that a reader sees together; `now_ns` is the monotonic clock.
    ///
    /// Returns `false` without waiting if another thread is writing; the figures are then skipped.
    pub fn update(&self, now_ns: u64, write: impl FnOnce(&mut Writer<'_, W>)) -> bool {
        // The writer may hold Ruby's lock or run inside its collector: it must not wait.
        if !begin(&self.sequence) {
            return false;
        }
        write(&mut Writer { section: self });
        self.at_ns.store(now_ns, Ordering::Relaxed);
        end(&self.sequence);
        true
    }

    /// Writes one word that is meaningful by itself.
    pub fn set(&self, word: W, value: u64) {
        self.values[word.index()].store(value, Ordering::Relaxed);
        self.known.fetch_or(1 << word.index(), Ordering::Relaxed);
    }

    /// Adds to a word that counts.
    pub fn add(&self, word: W, amount: u64) {
        self.values[word.index()].fetch_add(amount, Ordering::Relaxed);
        self.known.fetch_or(1 << word.index(), Ordering::Relaxed);
    }

    /// Raises a word to `value` if that is more.
    pub fn raise(&self, word: W, value: u64) {
        self.values[word.index()].fetch_max(value, Ordering::Relaxed);
        self.known.fetch_or(1 << word.index(), Ordering::Relaxed);
    }

    /// One word; `None` if it was never written.
    pub fn get(&self, word: W) -> Option<u64> {
        // Without the sequence: each of these words is meaningful by itself.
        let known = self.known.load(Ordering::Relaxed) & 1 << word.index() != 0;
        known.then(|| self.values[word.index()].load(Ordering::Relaxed))
    }
}

impl<const WORDS: usize, const ROWS: usize> Table<WORDS, ROWS> {
    /// Replaces all rows, as many as there is room for. `sum` describes the rows together; its meaning depends on the
    /// table.
    ///
    /// Returns `false` without waiting if another thread is writing.
    pub fn replace<I>(&self, now_ns: u64, sum: u64, rows: I) -> bool
    where
        I: IntoIterator<Item = [Option<u64>; WORDS]>,
    {
        if !begin(&self.sequence) {
            return false;
        }
        let mut found = 0;
        for row in rows {
            // Rows beyond the room are counted, so that a reader knows how many are missing.
            if let Some(place) = self.rows.get(found) {
                for (word, value) in place.iter().zip(row) {
                    // Unknown is written too: the row may hold older words of another pool.
                    word.store(value.unwrap_or(UNKNOWN), Ordering::Relaxed);
                }
            }
            found += 1;
        }
        self.count.store(found.min(ROWS) as u64, Ordering::Relaxed);
        self.found.store(found as u64, Ordering::Relaxed);
        self.sum.store(sum, Ordering::Relaxed);
        self.at_ns.store(now_ns, Ordering::Relaxed);
        end(&self.sequence);
        true
    }

    /// The sum that belongs to the rows; 0 before the first [`Table::replace`].
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// Makes the sequence odd; `false` if it is odd already, because another thread is writing.
fn begin(sequence: &AtomicU64) -> bool {
    let current = sequence.load(Ordering::Relaxed);
    let free = current & 1 == 0
        && sequence
            .compare_exchange(current, current + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    // Orders the odd sequence before the words (Boehm, "Can seqlocks get along with programming
    // language memory models?", MSPC 2012).
    fence(Ordering::Release);
    free
}

fn end(sequence: &AtomicU64) {
    // Release: no word may become visible after the sequence is even again.
    sequence.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use crate::page::{Gc, Page};

    #[test]
    fn a_word_is_unknown_until_it_is_written_and_zero_is_a_value() {
        let page = Page::new_boxed();
        assert_eq!(page.gc.get(Gc::Count), None);
        page.gc.set(Gc::Count, 0);
        assert_eq!(page.gc.get(Gc::Count), Some(0));
        page.gc.add(Gc::Count, 2);
        page.gc.raise(Gc::Count, 1);
        assert_eq!(page.gc.get(Gc::Count), Some(2));
    }

    #[test]
    fn a_second_writer_is_refused_without_waiting() {
        let page = Page::new_boxed();
        let mut inner = true;
        assert!(page.gc.update(7, |_| inner = page.gc.update(8, |_| ())));
        assert!(!inner);
        assert!(page.gc.update(9, |_| ()));
    }
}
