//! What depends on the type of machine, in words.

use crate::numbers;
use carat_model::fleet::MACHINE_TYPE;
use carat_model::{MachineComparison, MachineTypeEstimate, Results};
use std::collections::{BTreeMap, BTreeSet};

/// The comparison of a variant, if it is proven that its difference depends on the machine.
pub(crate) fn differing<'a>(results: &'a Results, variant: &str) -> Option<&'a MachineComparison> {
    results.machines.iter().find(|one| one.variant == variant && one.differs)
}

/// Whether a variant's difference is proven to depend on the machine, and types of machine have it in both directions: they have
/// no verdict in common.
pub(crate) fn machines_contradict(results: &Results, variant: &str) -> bool {
    let types = differing(results, variant).into_iter().flat_map(|one| &one.types);
    let known = types.filter_map(|of| of.estimate);
    let less = known.clone().filter(|estimate| estimate.ratio < 0.0).count();
    less > 0 && less < known.count()
}

/// `differs by machine: c6i −12 % (−13 to −11 %), m7g −3 % (−4 to −2 %)`.
pub(crate) fn differs_by_machine(one: &MachineComparison) -> String {
    let types: Vec<String> = one.types.iter().map(|of| type_text(&one.metric, of)).collect();
    format!("differs by machine: {}", types.join(", "))
}

fn type_text(metric: &str, one: &MachineTypeEstimate) -> String {
    let name = &one.machine_type;
    match &one.estimate {
        Some(estimate) => format!("{name} {}", numbers::estimate(metric, estimate)),
        None => {
            let blocks = numbers::count(one.blocks, "block");
            format!("{name} unknown ({blocks} are too few)")
        }
    }
}

/// Which machines the intervals speak for; `None` unless a fleet ran the blocks.
pub(crate) fn machines_sentence(results: &Results) -> Option<String> {
    let mut blocks: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for trial in results.trials.iter().filter(|trial| trial.block > 0) {
        // A trial without a type means that no fleet ran them.
        let name = trial.machine.get(MACHINE_TYPE)?;
        blocks.entry(name).or_default().insert(trial.block);
    }
    let types: Vec<String> = blocks
        .iter()
        .map(|(name, blocks)| format!("{name} ({})", numbers::count(blocks.len(), "block")))
        .collect();
    let types = (!types.is_empty()).then(|| types.join(", "))?;
    let mut text =
        format!("Machines: {types}. The intervals speak for these machines, not for others.");
    for MachineComparison { variant, metric, general, machines, .. } in &results.machines {
        if let Some(general) = general {
            let difference = numbers::estimate(metric, general);
            let machines = numbers::count(*machines, "machine");
            text += &format!(" On machines in general: {variant} {difference}, from {machines}.");
        }
    }
    Some(text)
}
