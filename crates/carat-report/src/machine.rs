//! Machine facts of a whole experiment, from the facts of its trials.

use crate::lists::grouped_by_key;
use carat_model::{MachineFacts, Results};
use std::collections::{BTreeMap, BTreeSet};

/// Values of one fact that are named for a variant; the rest is only counted.
const SHOWN_VALUES: usize = 3;

/// Every fact: its value where all trials that know it agree, otherwise the values of each variant.
pub(crate) fn machine_facts(results: &Results) -> MachineFacts {
    let mut facts: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for trial in &results.trials {
        for (name, value) in &trial.machine {
            let by_variant = facts.entry(name).or_default();
            by_variant.entry(&trial.variant).or_default().insert(value);
        }
    }
    facts.into_iter().map(|(name, values)| (name.to_owned(), text(results, &values))).collect()
}

fn text(results: &Results, by_variant: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let ran: BTreeSet<&str> = results.trials.iter().map(|trial| trial.variant.as_str()).collect();
    let distinct: BTreeSet<&str> = by_variant.values().flatten().copied().collect();
    // One value, and every variant knows it: otherwise a name would be missing.
    if let [value] = distinct.iter().collect::<Vec<_>>()[..]
        && by_variant.len() == ran.len()
    {
        return (*value).to_owned();
    }
    let variants = results.info.variants.iter().map(|variant| variant.name.as_str());
    // A variant without a trial has no machine.
    let values = variants.filter(|variant| ran.contains(variant)).map(|variant| {
        (by_variant.get(variant).map_or_else(|| "unknown".to_owned(), list), variant)
    });
    let groups = grouped_by_key(values).into_iter();
    let texts = groups.map(|(value, names)| format!("{value} ({})", names.join(", ")));
    texts.collect::<Vec<_>>().join("; ")
}

fn list(values: &BTreeSet<&str>) -> String {
    let shown = values.iter().take(SHOWN_VALUES).copied().collect::<Vec<_>>().join(" or ");
    match values.len().saturating_sub(SHOWN_VALUES) {
        0 => shown,
        more => format!("{shown} or {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use carat_model::Trial;

    fn trial(variant: &str, facts: &[(&str, &str)]) -> Trial {
        let machine = facts.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Trial { machine: machine.collect(), ..testing::trial(1, variant) }
    }

    fn results(trials: Vec<Trial>) -> Results {
        testing::results(&["a", "b", "c"], trials)
    }

    #[test]
    fn a_fact_in_which_all_trials_agree_is_one_value() {
        let facts = [("kernel", "6.1"), ("ruby", "3.3")];
        let results = results(vec![trial("a", &facts), trial("b", &facts)]);
        let expected = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(machine_facts(&results), expected.into());
    }

    #[test]
    fn a_fact_that_differs_or_is_unknown_is_listed_by_variant() {
        let results = results(vec![
            trial("a", &[("ruby", "3.1"), ("kernel", "6.1")]),
            trial("b", &[("ruby", "3.3"), ("kernel", "6.1")]),
            trial("c", &[("ruby", "3.3"), ("kernel", "6.1")]),
            trial("a", &[("ruby", "3.1"), ("kernel", "6.2")]),
            trial("b", &[]),
        ]);
        let facts = machine_facts(&results);
        assert_eq!(facts["ruby"], "3.1 (a); 3.3 (b, c)");
        assert_eq!(facts["kernel"], "6.1 or 6.2 (a); 6.1 (b, c)");
    }

    #[test]
    fn a_variant_without_the_fact_is_named_as_unknown() {
        let results = results(vec![trial("a", &[("ruby", "3.1")]), trial("b", &[])]);
        assert_eq!(machine_facts(&results)["ruby"], "3.1 (a); unknown (b)");
    }
}
