//! Lists in the order in which a reader wants them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The items, the largest first; equals stay in their order.
pub(crate) fn largest_first<T, K: Ord>(
    items: impl IntoIterator<Item = T>,
    size: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_by_key(|item| Reverse(size(item)));
    items
}

/// The values of each key, in the order in which the keys first come: what holds for several is said once.
pub(crate) fn grouped_by_key<K: PartialEq, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// The values of each key, in the order of the keys.
pub(crate) fn grouped_in_order<K: Ord, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    pairs.into_iter().for_each(|(key, value)| groups.entry(key).or_default().push(value));
    groups
}

/// Each item once, in the order in which they first come.
pub(crate) fn distinct<T: Ord + Clone>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().filter(|item| seen.insert(item.clone())).collect()
}

/// How often each item comes, in the order of the items.
pub(crate) fn counted<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    items.into_iter().for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}
