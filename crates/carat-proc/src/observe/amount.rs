//! Amounts of memory that can be split and added without losing any.

use crate::observe::{Mapping, Pages};
use carat_model::Bytes;
use carat_model::ledger::{LedgerPart, PartKind};
use std::ops::AddAssign;

/// An amount of memory in bytes: resident, proportional and private.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MemoryAmount {
    pub resident: f64,
    pub pss: f64,
    pub private: f64,
}

impl MemoryAmount {
    /// The memory of a whole mapping.
    pub(super) fn of_mapping(mapping: &Mapping) -> Self {
        Self {
            resident: mapping.rss.0 as f64,
            pss: mapping.pss.0 as f64,
            private: mapping.private.0 as f64,
        }
    }

    /// The memory of some pages of a mapping. Shared pages count with the proportion that the kernel's figures imply.
    pub(super) fn of_pages(pages: Pages, mapping: &Mapping) -> Self {
        let (resident, private) = (pages.present.0 as f64, pages.exclusive.0 as f64);
        let pss = private + (resident - private) * mapping.pss_per_shared_byte();
        Self { resident, pss, private }
    }

    /// Removes and returns up to `bytes` of resident memory, private and shared in proportion.
    pub(super) fn take(&mut self, bytes: Bytes) -> Self {
        // The allocator's figures are of another moment, so they can exceed the kernel's.
        let fraction =
            if self.resident > 0.0 { (bytes.0 as f64 / self.resident).min(1.0) } else { 0.0 };
        let taken = self.scaled(fraction);
        self.remove(taken);
        taken
    }

    /// Removes and returns everything.
    pub(super) fn take_all(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Subtracts `other`, down to zero.
    pub(super) fn remove(&mut self, other: Self) {
        // Floats round, so a little more can be subtracted than there is.
        self.resident = (self.resident - other.resident).max(0.0);
        self.pss = (self.pss - other.pss).max(0.0);
        self.private = (self.private - other.private).max(0.0);
    }

    /// The same memory, no more than `most` in any respect.
    pub(super) fn at_most(self, most: Self) -> Self {
        Self {
            resident: self.resident.min(most.resident),
            pss: self.pss.min(most.pss),
            private: self.private.min(most.private),
        }
    }

    /// As a line of the ledger, rounded to bytes.
    pub(super) fn part(self, kind: PartKind) -> LedgerPart {
        LedgerPart {
            kind,
            pss: rounded(self.pss),
            private: rounded(self.private),
            resident: rounded(self.resident),
        }
    }

    fn scaled(self, by: f64) -> Self {
        Self { resident: self.resident * by, pss: self.pss * by, private: self.private * by }
    }
}

fn rounded(amount: f64) -> Bytes {
    Bytes(amount.round() as u64)
}

impl AddAssign for MemoryAmount {
    fn add_assign(&mut self, other: Self) {
        self.resident += other.resident;
        self.pss += other.pss;
        self.private += other.private;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_taken_and_the_rest_add_up_to_the_whole() {
        let whole = MemoryAmount { resident: 1000.0, pss: 700.0, private: 400.0 };
        for bytes in [0, 1, 333, 1000, 5000] {
            let mut rest = whole;
            let mut sum = rest.take(Bytes(bytes));
            sum += rest;
            assert!((sum.pss - whole.pss).abs() < 1e-9, "{bytes}");
            assert!((sum.resident - whole.resident).abs() < 1e-9, "{bytes}");
        }
    }

    #[test]
    fn nothing_can_be_taken_from_nothing() {
        assert_eq!(MemoryAmount::default().take(Bytes(10)), MemoryAmount::default());
    }
}
