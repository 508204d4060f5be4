//! Compares the objects of the variants by class, as they were read at the end of each trial.
//!
//! Objects of one class have no interval: hundreds of classes are looked at, and the largest differences are chosen from them.

use crate::pairs::Blocks;
use crate::question::Question;
use carat_model::{
    ClassAmount, ClassComparison, ClassDifference, ClassMedians, Outcome, ReadTrials, Trial,
    TrialCensus,
};
use carat_stats::summary::median;
use std::collections::BTreeSet;

/// Classes of one comparison.
const CLASSES: usize = 100;

/// Every variant after the baseline; empty if no trial that counts has a census.
pub fn class_comparisons(question: &Question, trials: &[Trial]) -> Vec<ClassComparison> {
    let blocks = Blocks::new(trials);
    let Some(baseline) = question.baseline() else { return Vec::new() };
    let baseline = VariantCensuses::of(&blocks, baseline);
    let variants: Vec<(&String, VariantCensuses<'_>)> = question
        .compared()
        .iter()
        .map(|variant| (variant, VariantCensuses::of(&blocks, variant)))
        .collect();
    // Neither side was read, as in a run without censuses: no empty tables.
    let none_read = variants.iter().all(|(_, censuses)| censuses.read.is_empty());
    if baseline.read.is_empty() && none_read {
        return Vec::new();
    }
    variants.iter().map(|(variant, censuses)| compare(variant, &baseline, censuses)).collect()
}

/// The censuses of the trials of one variant that count.
struct VariantCensuses<'a> {
    counted: usize,
    read: Vec<&'a TrialCensus>,
}

impl<'a> VariantCensuses<'a> {
    fn of(blocks: &Blocks<'a>, variant: &str) -> Self {
        let trials = blocks.trials().filter(|trial| trial.variant == variant);
        let counted: Vec<&Trial> = trials.filter(|trial| trial.outcome == Outcome::Ok).collect();
        let samples = counted.iter().filter_map(|trial| {
            // The last sample with a census: it is read at the end of the trial.
            trial.samples.iter().rev().find_map(|sample| sample.census.as_deref())
        });
        Self { counted: counted.len(), read: samples.collect() }
    }

    fn trials(&self) -> ReadTrials {
        ReadTrials { counted: self.counted as u32, read: self.read.len() as u32 }
    }

    fn knows_malloc(&self) -> bool {
        // With malloc only if every census knows it, or the medians would be of different things.
        self.read.iter().all(|census| census.all().malloc_bytes.is_some())
    }

    /// Medians of objects and bytes over the trials that tell the amount.
    fn medians(&self, with_malloc: bool, amount: AmountOf<'_>) -> (Option<f64>, Option<f64>) {
        let amounts: Vec<ClassAmount> =
            self.read.iter().filter_map(|census| amount(census)).collect();
        let bytes: fn(&ClassAmount) -> u64 = if with_malloc { ClassAmount::bytes } else { slots };
        (median_of(&amounts, |amount| amount.objects), median_of(&amounts, bytes))
    }
}

/// Reads one amount of a census; `None` where that does not tell it.
type AmountOf<'a> = &'a dyn Fn(&TrialCensus) -> Option<ClassAmount>;

fn median_of(amounts: &[ClassAmount], value: fn(&ClassAmount) -> u64) -> Option<f64> {
    median(&amounts.iter().map(|amount| value(amount) as f64).collect::<Vec<f64>>())
}

const fn slots(amount: &ClassAmount) -> u64 {
    amount.slot_bytes
}

/// The trials of the baseline and of a variant.
struct ComparedCensuses<'a> {
    baseline: &'a VariantCensuses<'a>,
    variant: &'a VariantCensuses<'a>,
    with_malloc: bool,
}

impl ComparedCensuses<'_> {
    fn medians(&self, amount: AmountOf<'_>) -> ClassMedians {
        let (baseline_objects, baseline_bytes) = self.baseline.medians(self.with_malloc, amount);
        let (objects, bytes) = self.variant.medians(self.with_malloc, amount);
        ClassMedians { baseline_objects, objects, baseline_bytes, bytes }
    }
}

fn compare(
    variant: &str,
    baseline: &VariantCensuses<'_>,
    censuses: &VariantCensuses<'_>,
) -> ClassComparison {
    // The same on both sides: bytes with malloc against bytes without would be a difference.
    let with_malloc = baseline.knows_malloc() && censuses.knows_malloc();
    let compared = ComparedCensuses { baseline, variant: censuses, with_malloc };
    let read = baseline.read.iter().chain(&censuses.read);
    let names: BTreeSet<&String> = read.flat_map(|census| census.classes.keys()).collect();
    let mut classes: Vec<ClassDifference> = names
        .into_iter()
        .map(|class| ClassDifference {
            class: class.clone(),
            medians: compared.medians(&|census| census.amount(class)),
        })
        .filter(|class| differs(&class.medians))
        .collect();
    // Differences are chosen by size, so they have no interval (see above).
    classes.sort_by(|one, other| size(&other.medians).total_cmp(&size(&one.medians)));
    classes.truncate(CLASSES);
    ClassComparison {
        variant: variant.to_owned(),
        baseline_trials: baseline.trials(),
        trials: censuses.trials(),
        with_malloc,
        all: compared.medians(&|census| Some(census.all())),
        classes,
    }
}

fn differs(medians: &ClassMedians) -> bool {
    medians.objects_difference() != Some(0.0) || medians.bytes_difference() != Some(0.0)
}

/// The difference of bytes without its sign; where one side is unknown, the bytes of the other.
fn size(medians: &ClassMedians) -> f64 {
    let known = medians.bytes.or(medians.baseline_bytes);
    medians.bytes_difference().or(known).unwrap_or(0.0).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_model::Sample;
    use std::collections::BTreeMap;

    fn amount(objects: u64, malloc_bytes: Option<u64>) -> ClassAmount {
        ClassAmount { objects, slot_bytes: objects * 40, malloc_bytes }
    }

    fn read(block: u32, variant: &str, classes: &[(&str, ClassAmount)]) -> Trial {
        let classes: BTreeMap<String, ClassAmount> =
            classes.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        let census = Some(Box::new(TrialCensus::new(1, classes)));
        let samples = vec![Sample { census, ..Sample::default() }];
        Trial { samples, ..trial(block, variant, &[]) }
    }

    fn question() -> Question {
        Question::new(&["default", "trim"], "memory.pss.final")
    }

    #[test]
    fn a_saving_is_explained_by_the_classes_whose_medians_differ_the_largest_first() {
        let mut trials = Vec::new();
        for block in 0..=4_u64 {
            let strings = |objects| ("String", amount(objects + block, Some(objects * 100)));
            let same = ("Same", amount(7, Some(0)));
            let post = ("Post", amount(50, Some(0)));
            trials.push(read(block as u32, "default", &[strings(1000), same]));
            trials.push(read(block as u32, "trim", &[strings(400), same, post]));
        }
        let found = class_comparisons(&question(), &trials);
        let [trim] = &found[..] else { panic!("{found:?}") };
        let all = ReadTrials { counted: 4, read: 4 };
        assert_eq!((trim.trials, trim.baseline_trials, trim.with_malloc), (all, all, true));
        let names: Vec<&str> = trim.classes.iter().map(|class| class.class.as_str()).collect();
        assert_eq!(names, ["String", "Post"]);
        let strings = &trim.classes[0].medians;
        assert_eq!((strings.baseline_objects, strings.objects), (Some(1002.5), Some(402.5)));
        assert_eq!(strings.bytes_difference(), Some(-600.0 * 140.0));
        assert_eq!(trim.classes[1].medians.baseline_objects, Some(0.0));
        assert_eq!(trim.all.objects_difference(), Some(-550.0));
    }

    #[test]
    fn a_trial_that_could_not_be_read_is_unknown_and_never_zero() {
        let strings = [("String", amount(10, Some(0)))];
        let mut trials = vec![read(1, "default", &strings), read(2, "default", &strings)];
        trials.extend([trial(1, "trim", &[]), read(2, "trim", &strings)]);
        let trim = &class_comparisons(&question(), &trials)[0];
        assert_eq!(trim.trials, ReadTrials { counted: 2, read: 1 });
        assert_eq!(trim.all.objects, Some(10.0));
        assert!(trim.classes.is_empty(), "{trim:?}");
        trials.pop();
        let unknown = &class_comparisons(&question(), &trials)[0];
        assert_eq!((unknown.all.objects, unknown.all.objects_difference()), (None, None));
        assert_eq!(unknown.classes[0].medians.bytes_difference(), None);
        assert!(class_comparisons(&question(), &[trial(1, "trim", &[])]).is_empty());
    }

    #[test]
    fn bytes_are_those_of_slots_where_a_trial_does_not_know_the_owners_of_malloc() {
        let trials = [
            read(1, "default", &[("String", amount(10, Some(9000)))]),
            read(1, "trim", &[("String", amount(9, None))]),
        ];
        let trim = &class_comparisons(&question(), &trials)[0];
        assert!(!trim.with_malloc);
        assert_eq!(trim.all.bytes_difference(), Some(-40.0));
    }

    #[test]
    fn trials_that_failed_and_the_warm_up_block_do_not_count() {
        let strings = [("String", amount(10, Some(0)))];
        let mut crashed = read(1, "trim", &strings);
        crashed.outcome = Outcome::Crashed;
        let trials = [read(0, "default", &strings), read(1, "default", &strings), crashed];
        let trim = &class_comparisons(&question(), &trials)[0];
        assert_eq!(trim.baseline_trials, ReadTrials { counted: 1, read: 1 });
        assert_eq!(trim.trials, ReadTrials::default());
    }
}
