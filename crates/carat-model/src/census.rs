//! Objects by class: of one trial, and compared between variants.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The objects of one class in all Rubies of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassAmount {
    pub objects: u64,
    pub slot_bytes: u64,
    /// Bytes of malloc that they hold; `None` where the owners were not read.
    pub malloc_bytes: Option<u64>,
}

impl ClassAmount {
    /// No object, where the owners are known.
    pub const NONE: Self = Self { objects: 0, slot_bytes: 0, malloc_bytes: Some(0) };

    /// Bytes of slots, and of malloc where those are known.
    pub fn bytes(&self) -> u64 {
        self.slot_bytes.saturating_add(self.malloc_bytes.unwrap_or_default())
    }

    /// The sum of both; bytes of malloc only where both know them.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // Unknown plus anything is unknown; a known part alone would look like all of it.
        let malloc = self.malloc_bytes.zip(other.malloc_bytes);
        Self {
            objects: self.objects.saturating_add(other.objects),
            slot_bytes: self.slot_bytes.saturating_add(other.slot_bytes),
            // Saturating: the counts come from another process's memory, or from a file.
            malloc_bytes: malloc.map(|(one, other)| one.saturating_add(other)),
        }
    }
}

/// The objects of a server at the end of a trial, read from outside. Every Ruby of the tree was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialCensus {
    /// Rubies in the tree.
    pub rubies: u32,
    /// The classes with most bytes, by name.
    pub classes: BTreeMap<String, ClassAmount>,
    /// Number of the other classes.
    pub other_classes: u64,
    /// Their objects.
    pub others: ClassAmount,
}

impl TrialCensus {
    /// Classes that are kept by name.
    const KEPT: usize = 400;

    /// The census of a tree with these classes.
    pub fn new(rubies: u32, classes: BTreeMap<String, ClassAmount>) -> Self {
        let mut by_bytes: Vec<(String, ClassAmount)> = classes.into_iter().collect();
        by_bytes.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.bytes()));
        // The rest stays as one sum, so that totals are right whatever is cut off.
        let others = by_bytes.split_off(by_bytes.len().min(Self::KEPT));
        Self {
            rubies,
            classes: by_bytes.into_iter().collect(),
            other_classes: others.len() as u64,
            others: others.iter().fold(ClassAmount::NONE, |sum, (_, amount)| sum.plus(*amount)),
        }
    }

    /// The objects of a class; `None` if it may be among those without a name here.
    pub fn amount(&self, class: &str) -> Option<ClassAmount> {
        // A class that is not listed has no objects only if none were left out.
        let none = (self.other_classes == 0).then_some(ClassAmount::NONE);
        self.classes.get(class).copied().or(none)
    }

    /// All objects.
    pub fn all(&self) -> ClassAmount {
        self.classes.values().fold(self.others, |sum, amount| sum.plus(*amount))
    }
}

/// The objects of a variant by class, compared with the baseline's at the end of the trials.
///
/// Exploratory: differences of medians without intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassComparison {
    pub variant: String,
    pub baseline_trials: ReadTrials,
    /// Trials of the variant.
    pub trials: ReadTrials,
    /// Whether bytes include what the objects hold in malloc; otherwise they are those of slots.
    pub with_malloc: bool,
    /// All objects together.
    pub all: ClassMedians,
    /// Classes whose medians differ, or are unknown on one side, the largest difference of bytes first; at most 100.
    pub classes: Vec<ClassDifference>,
}

/// How many of the trials that count have a census.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTrials {
    /// Trials that count.
    pub counted: u32,
    /// Those whose census could be read.
    pub read: u32,
}

/// One class of a [`ClassComparison`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassDifference {
    /// Its name.
    pub class: String,
    /// Its objects; in JSON the fields are beside the name.
    #[serde(flatten)]
    pub medians: ClassMedians,
}

/// The objects of one class, or of all, in the trials of the baseline and of the variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassMedians {
    /// Median number of objects in the baseline's trials; `None` where no trial tells.
    pub baseline_objects: Option<f64>,
    /// The same of the variant.
    pub objects: Option<f64>,
    /// Median of their bytes in the baseline's trials.
    pub baseline_bytes: Option<f64>,
    /// The same of the variant.
    pub bytes: Option<f64>,
}

impl ClassMedians {
    /// The variant's median number of objects less the baseline's.
    pub fn objects_difference(&self) -> Option<f64> {
        Some(self.objects? - self.baseline_objects?)
    }

    /// The variant's median of bytes less the baseline's.
    pub fn bytes_difference(&self) -> Option<f64> {
        Some(self.bytes? - self.baseline_bytes?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(objects: u64) -> ClassAmount {
        ClassAmount { objects, slot_bytes: objects * 40, malloc_bytes: Some(objects) }
    }

    #[test]
    fn the_largest_classes_keep_their_names_and_the_others_stay_in_the_sum() {
        let classes =
            |number: u64| (1..=number).map(|n| (format!("Class{n}"), amount(n))).collect();
        let few = TrialCensus::new(2, classes(3));
        assert_eq!((few.classes.len(), few.other_classes), (3, 0));
        assert_eq!(few.amount("Class2"), Some(amount(2)));
        assert_eq!(few.amount("Other"), Some(ClassAmount::NONE));
        let many = TrialCensus::new(2, classes(1000));
        assert_eq!((many.classes.len(), many.other_classes), (400, 600));
        assert_eq!(many.all(), amount(500_500));
        assert_eq!((many.amount("Class601"), many.amount("Class600")), (Some(amount(601)), None));
    }
}
