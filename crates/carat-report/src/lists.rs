//! Lists in the order in which a reader wants them.

use std::cmp::Reverse;

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
