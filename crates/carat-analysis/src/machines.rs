//! Whether a variant's difference depends on the type of machine.

use crate::judge::estimate;
use crate::pairs::{Blocks, Pairs};
use crate::question::{Question, VariantComparison};
use carat_model::fleet::{HOST, MACHINE_TYPE};
use carat_model::{Estimate, MachineComparison, MachineTypeEstimate, Trial};
use carat_stats::Sequence;
use carat_stats::heterogeneity::permutation_p;
use carat_stats::student::interval;
use std::collections::BTreeMap;

/// Error of the claim that types differ, as a fraction.
const ERROR: f64 = 0.01;
/// Error of the intervals of all types together, as a fraction.
const INTERVALS: f64 = 0.05;
/// Fewest machines that are a sample of others: with fewer, Student's interval is several times as wide as that of the blocks.
const LEAST_MACHINES: usize = 6;
/// Fewest blocks of a type for a claim about it.
const LEAST_BLOCKS: usize = 3;
/// The p value must be the same whenever the results are read.
const SEED: u64 = 1;

/// Compares the types of machines for every compared variant, in the primary metric; empty with one type and fewer than six
/// machines.
pub fn machine_comparisons(question: &Question, trials: &[Trial]) -> Vec<MachineComparison> {
    let by_type = trials_by(MACHINE_TYPE, trials);
    let by_host = trials_by(HOST, trials);
    // One type and few machines: neither question has an answer.
    if by_type.is_empty() || by_type.len() < 2 && by_host.len() < LEAST_MACHINES {
        return Vec::new();
    }
    let all = Blocks::new(trials);
    let comparisons = question.with_baseline().map(|compared| {
        let whole = all.pairs(compared, &question.primary);
        // One scale for all: a typical value of each machine's own would make their differences incomparable.
        let pairs = |trials: &Vec<Trial>| {
            Blocks::new(trials).pairs(compared, &question.primary).on_scale_of(&whole)
        };
        MachineComparison {
            machines: by_host.len() as u32,
            general: general(by_host.values().map(pairs).collect()),
            ..compare_types(question, compared, by_type.iter().map(|(name, of)| (*name, pairs(of))))
        }
    });
    comparisons.collect()
}

/// Scored trials by the value of a fact, without their samples, which play no part here and can be large.
fn trials_by<'a>(fact: &str, trials: &'a [Trial]) -> BTreeMap<&'a str, Vec<Trial>> {
    let mut found: BTreeMap<&str, Vec<Trial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.block > 0) {
        if let Some(value) = trial.machine.get(fact) {
            // Samples can be hundreds of megabytes, and the clone would copy them for every type.
            found.entry(value).or_default().push(Trial { samples: Vec::new(), ..trial.clone() });
        }
    }
    found
}

fn compare_types<'a>(
    question: &Question,
    compared: VariantComparison<'_>,
    by_type: impl ExactSizeIterator<Item = (&'a str, Pairs)>,
) -> MachineComparison {
    // Intervals of all types hold together (Bonferroni).
    let alpha = INTERVALS / by_type.len() as f64;
    let (mut groups, mut types) = (Vec::new(), Vec::new());
    for (name, pairs) in by_type {
        let known = pairs.known();
        let blocks = known.len() as u32;
        // Blocks fixed in advance: these intervals describe, and nothing stops by them.
        let look = Sequence::at(&[blocks], alpha).look_at(blocks);
        let estimate = look.and_then(|look| estimate(&pairs, look));
        types.push(MachineTypeEstimate { machine_type: name.to_owned(), blocks, estimate });
        groups.push(known);
    }
    // A type with one or two blocks would make any difference look like chance.
    let enough = groups.iter().all(|group| group.len() >= LEAST_BLOCKS);
    let p = enough.then(|| permutation_p(&groups, SEED)).flatten();
    MachineComparison {
        variant: compared.variant.to_owned(),
        metric: question.primary.clone(),
        p,
        differs: p.is_some_and(|p| p <= ERROR),
        types,
        machines: 0,
        general: None,
    }
}

/// The difference on machines in general; `None` with few machines, or where some of them have no block that counts.
fn general(by_host: Vec<Pairs>) -> Option<Estimate> {
    let confidence = 1.0 - INTERVALS;
    let means = by_host.iter().map(|pairs| Some((mean(&pairs.known())?, mean(&pairs.plain())?)));
    let means: Option<Vec<(f64, f64)>> = means.collect();
    let (shares, amounts): (Vec<f64>, Vec<f64>) =
        // One machine without a block leaves the sample incomplete, so no general claim.
        means.filter(|means| means.len() >= LEAST_MACHINES)?.into_iter().unzip();
    // Machines are the replicates here, one mean each, so the interval is Student's.
    let (share, (low, high)) = interval(&shares, confidence)?;
    let (difference, difference_interval) = interval(&amounts, confidence)?;
    // That of all; see above.
    let scale = by_host.first()?;
    let in_own_unit = by_host.iter().any(Pairs::in_own_unit);
    let (ratio, ratio_interval) = match in_own_unit {
        true => (difference, difference_interval),
        false => (scale.as_ratio(share), (scale.as_ratio(low), scale.as_ratio(high))),
    };
    Some(Estimate {
        ratio,
        ratio_interval,
        difference,
        difference_interval,
        confidence,
        in_own_unit,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;

    const PSS: &str = "memory.pss.final";

    /// Blocks of two types in turn, with a difference of each.
    fn trials(blocks: u32, effects: [f64; 2]) -> Vec<Trial> {
        let mut trials = Vec::new();
        for block in 1..=blocks {
            let at = block as usize % 2;
            let noise = 1.0 + 0.001 * f64::from(block * 7 % 5);
            for (variant, value) in [("default", 1e8), ("other", 1e8 * effects[at] * noise)] {
                let mut trial = trial(block, variant, &[(PSS, value)]);
                trial.machine.insert(MACHINE_TYPE.into(), ["c6i", "m7g"][at].into());
                trials.push(trial);
            }
        }
        trials
    }

    #[test]
    fn types_with_different_effects_are_reported_each_with_its_interval_and_n() {
        let question = Question::new(&["default", "other"], PSS);
        let found = machine_comparisons(&question, &trials(16, [0.88, 0.97]));
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert!(one.differs && one.p.unwrap() < 0.001, "{one:?}");
        for (at, (name, effect)) in [("c6i", -0.12), ("m7g", -0.03)].into_iter().enumerate() {
            let of_type = &one.types[at];
            assert_eq!((of_type.machine_type.as_str(), of_type.blocks), (name, 8));
            let estimate = of_type.estimate.unwrap();
            assert!((estimate.ratio - effect).abs() < 0.005, "{estimate:?}");
            assert!(estimate.confidence >= 0.975 - 1e-9, "{estimate:?}");
        }
    }

    #[test]
    fn differences_of_machines_are_compared_on_one_scale() {
        let (system, mut trials) = ("memory.system.final", Vec::new());
        for block in 1..=16 {
            let at = block as usize % 2;
            // A metric that can be zero: the same difference of 1 MB, of other typical values.
            let baseline = [100e6, 1e6][at] + f64::from(block * 7 % 5);
            for (variant, value) in [("default", baseline), ("other", baseline - 1e6)] {
                let mut trial = trial(block, variant, &[(system, value)]);
                trial.machine.insert(MACHINE_TYPE.into(), ["c6i", "m7g"][at].into());
                trials.push(trial);
            }
        }
        let question = Question::new(&["default", "other"], system);
        let found = machine_comparisons(&question, &trials).remove(0);
        assert!(!found.differs, "{found:?}");
    }

    #[test]
    fn equal_types_few_blocks_and_a_single_type_make_no_claim() {
        let question = Question::new(&["default", "other"], PSS);
        let equal = machine_comparisons(&question, &trials(16, [0.9, 0.9]));
        assert!(!equal[0].differs, "{equal:?}");
        let few = machine_comparisons(&question, &trials(4, [0.5, 0.9]));
        assert_eq!((few[0].p, few[0].differs), (None, false));
        let mut single = trials(16, [0.5, 0.9]);
        single.iter_mut().for_each(|trial| trial.machine.clear());
        assert_eq!(machine_comparisons(&question, &single), []);
    }

    #[test]
    fn six_machines_give_a_second_wider_interval_for_machines_in_general() {
        let question = Question::new(&["default", "other"], PSS);
        let on_hosts = |hosts: u32| {
            let mut trials = trials(24, [0.90, 0.92]);
            for trial in &mut trials {
                trial.machine.insert(HOST.into(), format!("m{}", trial.block % hosts));
            }
            machine_comparisons(&question, &trials).remove(0)
        };
        let six = on_hosts(6);
        let general = six.general.unwrap();
        assert_eq!(six.machines, 6);
        assert!((general.ratio + 0.09).abs() < 0.003, "{general:?}");
        // The means alternate between −10 and −8 %: their standard error is 1.1 / √6 %, and t is 2.57.
        let (low, high) = general.ratio_interval;
        assert!((0.5 * (high - low) - 0.0115).abs() < 0.001, "{general:?}");
        assert_eq!((on_hosts(5).machines, on_hosts(5).general), (5, None));
    }
}
