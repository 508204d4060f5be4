//! One reading of the memory of a process: its parts and its classes.

use carat_model::Bytes;
use carat_model::watch::{CensusReason, WatchCensus, WatchedClass};
use carat_outside::census::{Census, LookOptions};
use carat_proc::observe::{known_figures, ledger, memory_gate, read_outside};
use carat_proc::process::{Identity, ProcRoot};

/// Classes that are kept of a reading.
const CLASSES: usize = 60;

/// Reads a process. What cannot be read is said in the census.
pub(crate) fn census(
    root: &ProcRoot,
    process: Identity,
    with_owners: bool,
    (at_ms, reason): (u64, CensusReason),
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
        at_ms,
        reason,
        pss: ledger.processes.first().map(|one| one.pss),
        parts: ledger.parts.iter().map(|part| (part.kind, part.pss)).collect(),
        objects: found.and_then(|census| {
            Some(census.classes.as_ref()?.iter().map(|class| class.objects).sum())
        }),
        classes,
        cut,
        unknown: all,
        cpu_seconds: found.map_or(0.0, |census| census.cost.cpu_seconds),
    }
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
    let bytes = |class: &WatchedClass| {
        Bytes(class.slot_bytes.saturating_add(class.malloc_bytes.unwrap_or_default()))
    };
    all.sort_by_key(|class| std::cmp::Reverse(bytes(class)));
    let cut = all.len() > CLASSES;
    all.truncate(CLASSES);
    (all, cut)
}
