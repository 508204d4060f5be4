//! One reading of the memory of a process: its parts and its classes.

use crate::follow::CensusOrder;
use carat_analysis::keeper;
use carat_model::Bytes;
use carat_model::watch::{WatchCensus, WatchedClass, WatchedKeeper};
use carat_outside::census::{Census, LookOptions};
use carat_outside::keeper::{KeeperBounds, find_keeper};
use carat_proc::observe::{known_figures, ledger, memory_gate, read_outside};
use carat_proc::process::{Identity, ProcRoot};
use std::collections::BTreeMap;
use std::time::Duration;

/// Classes that are kept of a reading.
const CLASSES: usize = 60;
/// What a search for who keeps a class may take: half a second of processor time, and room for a copy of a worker.
const SEARCH: KeeperBounds =
    KeeperBounds { nodes: 500_000, bytes: 256 << 20, longest: Duration::from_secs(5) };
/// A class that has so many more objects since a search is searched again, as a factor.
const SEARCH_AGAIN: f64 = 1.5;
/// Growth of a class for which it is not searched, in bytes of slots: an object holds much more than its slot.
const LITTLE: u64 = 50_000;
/// The share of memory below which one object that keeps others is not named.
const NAMED: f64 = 0.05;

/// Reads a process. What cannot be read is said in the census.
pub(crate) fn census(
    root: &ProcRoot,
    process: Identity,
    with_owners: bool,
    order: &CensusOrder<'_>,
) -> WatchCensus {
    let options = LookOptions {
        proc: root.path().to_owned(),
        owners: with_owners,
        memory: memory_gate(root, |_| {}),
        ..LookOptions::default()
    };
    let members = [process];
    let reading = read_outside(&members, &options);
    let ledger = ledger(root, &members, &known_figures(root, &members, Some(&reading)));
    let found = reading.processes.first();
    let (classes, cut) = found.map(classes_of).unwrap_or_default();
    let pss = ledger.processes.first().map(|one| one.pss);
    let search = |class: &str| {
        let found = found.ok_or("it could not be read")?;
        let (who, _) = find_keeper(found, class, &SEARCH, &options)?;
        // Of unknown memory there is no share, so every object that keeps others is named.
        let least = Bytes((pss.unwrap_or_default().0 as f64 * NAMED) as u64);
        Ok(keeper(&who, class, least))
    };
    let kept = kept(order, &classes, search);
    let refused = reading.refused.iter().map(|(_, reason)| reason.clone());
    let unknown = found.into_iter().flat_map(|census| &census.unknown);
    let unknown = unknown.map(|part| part.reason.clone());
    let mut all: Vec<String> = Vec::new();
    for reason in refused.chain(unknown).chain(ledger.unread.iter().cloned()) {
        // Several parts have one reason, such as a process that ended.
        if !all.contains(&reason) {
            all.push(reason);
        }
    }
    WatchCensus {
        at_ms: order.at_ms,
        reason: order.reason,
        pss,
        parts: ledger.parts.iter().map(|part| (part.kind, part.pss)).collect(),
        objects: found.and_then(|census| {
            Some(census.classes.as_ref()?.iter().map(|class| class.objects).sum())
        }),
        classes,
        cut,
        kept,
        unknown: all,
        cpu_seconds: found.map_or(0.0, |census| census.cost.cpu_seconds),
    }
}

/// Who keeps the class that grew most since the reading before. As long as it has not grown much more, what was found is repeated.
fn kept(
    order: &CensusOrder<'_>,
    classes: &[WatchedClass],
    search: impl FnOnce(&str) -> Result<String, String>,
) -> Option<WatchedKeeper> {
    // Without an earlier reading nothing is known to grow.
    let before = order.before.filter(|before| !before.is_empty())?;
    let Some(class) = grown_most(before, classes) else { return before.kept.clone() };
    let is_known = |kept: &&WatchedKeeper| {
        let limit = kept.objects as f64 * SEARCH_AGAIN;
        kept.class == class.name && (class.objects as f64) < limit
    };
    if let Some(known) = before.kept.as_ref().filter(is_known) {
        return Some(known.clone());
    }
    // It costs more than the reading itself, so one that is not paid for repeats what is known.
    if !order.may_search {
        return before.kept.clone();
    }
    let found = search(&class.name);
    let is_known = found.is_ok();
    // What was known of a smaller process is better than nothing.
    let earlier = before.kept.as_ref().filter(|kept| kept.is_known && kept.class == class.name);
    if let (false, Some(earlier)) = (is_known, earlier) {
        return Some(earlier.clone());
    }
    Some(WatchedKeeper {
        at_ms: order.at_ms,
        class: class.name.clone(),
        objects: class.objects,
        text: found.unwrap_or_else(|reason| reason),
        is_known,
    })
}

/// The class that has most bytes more than before, if these are many.
fn grown_most<'a>(before: &WatchCensus, now: &'a [WatchedClass]) -> Option<&'a WatchedClass> {
    let known: BTreeMap<&str, u64> =
        before.classes.iter().map(|class| (class.name.as_str(), class.bytes().0)).collect();
    // One that was left out had at most as many bytes as the last of the list.
    let least = before.classes.last().filter(|_| before.cut).map_or(0, |class| class.bytes().0);
    let grown = now.iter().map(|class| {
        let was = known.get(class.name.as_str()).copied().unwrap_or(least);
        (class.bytes().0.saturating_sub(was), class)
    });
    let (more, class) = grown.max_by_key(|(more, _)| *more)?;
    (more >= LITTLE).then_some(class)
}

/// The largest classes, and whether others were left out.
fn classes_of(census: &Census) -> (Vec<WatchedClass>, bool) {
    let mut all: Vec<WatchedClass> = census
        .classes
        .iter()
        .flatten()
        .map(|class| WatchedClass {
            name: class.name.clone(),
            objects: class.objects,
            slot_bytes: class.slot_bytes,
            malloc_bytes: class.malloc_bytes,
        })
        .collect();
    // By bytes, not by objects: a few large ones are what fills the memory.
    all.sort_by_key(|class| std::cmp::Reverse(class.bytes()));
    let cut = all.len() > CLASSES;
    all.truncate(CLASSES);
    (all, cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::watch::CensusReason;

    fn class(name: &str, objects: u64) -> WatchedClass {
        WatchedClass { name: name.into(), objects, slot_bytes: objects * 40, malloc_bytes: None }
    }

    fn order(before: Option<&WatchCensus>, may_search: bool) -> CensusOrder<'_> {
        CensusOrder { at_ms: 2_000, reason: CensusReason::Grew, before, may_search }
    }

    fn found(objects: u64, text: &str) -> WatchedKeeper {
        WatchedKeeper {
            at_ms: 1_000,
            class: "Visit".into(),
            objects,
            text: text.into(),
            is_known: true,
        }
    }

    #[test]
    fn who_keeps_what_grew_most_is_searched_once_until_it_has_grown_much_more() {
        let mut before = WatchCensus {
            classes: vec![class("String", 100_000), class("Visit", 1_000)],
            ..WatchCensus::default()
        };
        let now = [class("Visit", 40_000), class("String", 101_000), class("New", 20_000)];
        let ask = |before: &WatchCensus, may_search| {
            let mut asked = None;
            let kept = kept(&order(Some(before), may_search), &now, |class| {
                asked = Some(class.to_owned());
                Ok("by $visits".into())
            });
            (asked, kept.map(|kept| (kept.objects, kept.text)))
        };
        let anew = (Some("Visit".to_owned()), Some((40_000, "by $visits".to_owned())));
        assert_eq!(ask(&before, true), anew);
        assert_eq!(ask(&before, false), (None, None), "without time left");
        before.kept = Some(found(30_000, "by $old"));
        assert_eq!(ask(&before, true), (None, Some((30_000, "by $old".to_owned()))));
        before.kept = Some(found(20_000, "by $old"));
        assert_eq!(ask(&before, true), anew);
        assert_eq!(ask(&before, false).1, Some((20_000, "by $old".to_owned())));
    }

    #[test]
    fn what_was_found_stays_if_nothing_grew_or_it_has_become_too_large_and_a_first_reading_searches_nothing()
     {
        let never = |_: &str| -> Result<String, String> { panic!("it was searched") };
        let small = WatchCensus { classes: vec![class("Visit", 1_000)], ..WatchCensus::default() };
        let with = WatchCensus { kept: Some(found(1_000, "by $old")), ..small.clone() };
        assert_eq!(kept(&order(None, true), &small.classes, never), None);
        assert_eq!(kept(&order(Some(&small), true), &small.classes, never), None);
        assert_eq!(kept(&order(Some(&with), true), &small.classes, never), with.kept);
        let large = [class("Visit", 90_000)];
        let refuse = |_: &str| Err("it is too large".to_owned());
        assert_eq!(kept(&order(Some(&with), true), &large, refuse), with.kept);
        let unknown = kept(&order(Some(&small), true), &large, refuse).unwrap();
        assert!(!unknown.is_known && unknown.text == "it is too large", "{unknown:?}");
    }
}
