//! Who keeps the objects of the largest class, found out unasked where that is cheap.

use carat_analysis::class_in_question;
use carat_model::Ledger;
use carat_model::OutsideReading;
use carat_outside::census::{Census, LookOptions, look};
use carat_outside::need::MemoryGate;
use carat_outside::who::WhoRequest;
use std::time::Duration;

/// Slots and chunks of malloc of a process that is searched unasked, at most.
const MOST_NODES: u64 = 3_000_000;
/// Bytes of our own memory for one part of that search, at most.
const MOST_BYTES: u64 = 512 << 20;
/// The longest time of reading for it.
const LONGEST: Duration = Duration::from_secs(15);

/// Adds to the reading of the process with the largest class who keeps that. Where it would be expensive, or is not known,
/// nothing is added, and the diagnosis names the command that asks for it.
pub(super) fn add_keeper(reading: &mut OutsideReading, ledger: &Ledger, options: &LookOptions) {
    let Some((process, class)) = class_in_question(ledger, reading) else { return };
    // Internal objects have no holder with a name, so only the largest holders are asked for.
    let classes = [class].into_iter().filter(|class| !class.starts_with('('));
    let classes: Vec<String> = classes.map(str::to_owned).collect();
    let census = reading.processes.iter_mut().find(|census| census.process == process);
    let Some(census) = census.filter(|census| is_cheap(census)) else { return };
    let options = LookOptions {
        classes: false,
        class: None,
        owners: false,
        reach: false,
        who: Some(WhoRequest { classes, holders: true, kept: false }),
        longest: Some(options.longest.map_or(LONGEST, |longest| longest.min(LONGEST))),
        memory: bounded(options.memory.clone()),
        ..options.clone()
    };
    if let Ok(found) = look(process, &options) {
        census.who = found.who;
    }
}

/// Whether the process has few enough objects and chunks; one whose number is unknown has not.
fn is_cheap(census: &Census) -> bool {
    let (Some(heap), Some(malloc)) = (&census.heap, &census.malloc) else { return false };
    let chunks = malloc.total().in_use.chunks.saturating_add(malloc.mapped.amount.chunks);
    heap.slots.saturating_add(chunks) <= MOST_NODES
}

/// The same gate for small needs, and closed for others.
fn bounded(gate: MemoryGate) -> MemoryGate {
    MemoryGate::new(move |need| match need.bytes > MOST_BYTES {
        true => Err("it needs more memory than is taken unasked".to_owned()),
        false => gate.ask(need),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::heap::HeapCensus;
    use carat_outside::malloc::MallocCensus;
    use carat_outside::need::{MemoryNeed, NeedPart};

    #[test]
    fn a_process_is_searched_unasked_only_if_it_is_known_to_be_small() {
        let census = |slots| Census {
            heap: Some(HeapCensus { slots, ..HeapCensus::default() }),
            malloc: Some(MallocCensus::default()),
            ..Census::default()
        };
        assert!(is_cheap(&census(MOST_NODES)));
        assert!(!is_cheap(&census(MOST_NODES + 1)));
        assert!(!is_cheap(&Census { malloc: None, ..census(1) }));
    }

    #[test]
    fn the_gate_is_closed_for_large_needs_and_asked_for_small_ones() {
        let need = |bytes| MemoryNeed { process: 7, part: NeedPart::Copy, bytes };
        let full = MemoryGate::new(|_| Err("no room".to_owned()));
        assert_eq!(bounded(full).ask(need(1)), Err("no room".to_owned()));
        let free = bounded(MemoryGate::default());
        assert_eq!(free.ask(need(MOST_BYTES)), Ok(()));
        assert!(free.ask(need(MOST_BYTES + 1)).is_err());
    }
}
