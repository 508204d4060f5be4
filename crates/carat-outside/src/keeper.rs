//! Who keeps the objects of one class of a process that was read, for a caller whom nobody asked: only where that is cheap.

use crate::census::{Census, CensusPart, LookOptions};
use crate::memory::SETS_THE_LIMIT;
use crate::need::MemoryGate;
use crate::owners::ReachCensus;
use crate::readings::look;
use crate::who::{WhoCensus, WhoRequest};
use std::time::Duration;

/// What may be spent.
#[derive(Debug, Clone, Copy)]
pub struct KeeperBounds {
    /// Slots and chunks of malloc of the process, at most.
    pub nodes: u64,
    /// Bytes of our own memory for one part of the search, at most.
    pub bytes: u64,
    /// The longest time of reading.
    pub longest: Duration,
}

/// Who keeps the objects of a class, which single objects keep most, and what a full collection would free; `options` are those
/// of the first reading.
///
/// # Errors
/// The reason for which it is not known, a sentence without a capital and a full stop.
pub fn find_keeper(
    census: &Census,
    class: &str,
    bounds: &KeeperBounds,
    options: &LookOptions,
) -> Result<(WhoCensus, Result<ReachCensus, String>), String> {
    if !is_small(census, bounds.nodes) {
        return Err(
            "it has more objects, or an unknown number of them, than are searched unasked".into()
        );
    }
    // Internal objects have no holder with a name, so only the largest holders are asked for.
    let classes = [class].into_iter().filter(|class| !class.starts_with('('));
    let longest = options.longest.map_or(bounds.longest, |longest| longest.min(bounds.longest));
    let options = LookOptions {
        classes: false,
        class: None,
        owners: false,
        reach: false,
        who: Some(WhoRequest {
            classes: classes.map(str::to_owned).collect(),
            holders: true,
            kept: false,
        }),
        longest: Some(longest),
        memory: bounded(options.memory.clone(), bounds.bytes),
        ..options.clone()
    };
    let found =
        look(census.process, &options).map_err(|refused| of_search(&refused.to_string()))?;
    let reason = |part| of_search(found.reason(part).unwrap_or("nothing says why"));
    let (reach, failed) = (found.reach.ok_or(reason(CensusPart::Reach)), reason(CensusPart::Who));
    found.who.map(|who| (who, reach)).ok_or(failed)
}

/// The reason why a search has no answer: no option sets the time of one that nobody asked for.
fn of_search(reason: &str) -> String {
    reason.strip_suffix(SETS_THE_LIMIT).unwrap_or(reason).to_owned()
}

/// Whether the process has few enough objects and chunks; one whose number is unknown has not.
fn is_small(census: &Census, nodes: u64) -> bool {
    let (Some(heap), Some(malloc)) = (&census.heap, &census.malloc) else { return false };
    let chunks = malloc.total().in_use.chunks.saturating_add(malloc.mapped.amount.chunks);
    heap.slots.saturating_add(chunks) <= nodes
}

/// The same gate for small needs, and closed for others.
fn bounded(gate: MemoryGate, bytes: u64) -> MemoryGate {
    MemoryGate::new(move |need| match need.bytes > bytes {
        true => Err("it needs more memory than is taken unasked".to_owned()),
        false => gate.ask(need),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapCensus;
    use crate::malloc::MallocCensus;
    use crate::memory::ReadingStopped;
    use crate::need::{MemoryNeed, NeedPart};

    #[test]
    fn a_search_that_took_too_long_names_no_option_for_its_time() {
        let after = Duration::from_secs(5);
        let stopped = ReadingStopped { after, read_bytes: 74_000_000, present_bytes: 128_000_000 };
        let expected = "stopped after 5 s: 74 MB were read of a process with 128 MB in memory";
        assert_eq!(of_search(&stopped.to_string()), expected);
        assert_eq!(of_search("it ended"), "it ended");
    }

    #[test]
    fn a_process_is_searched_unasked_only_if_it_is_known_to_be_small() {
        let census = |slots| Census {
            heap: Some(HeapCensus { slots, ..HeapCensus::default() }),
            malloc: Some(MallocCensus::default()),
            ..Census::default()
        };
        assert!(is_small(&census(100), 100));
        assert!(!is_small(&census(101), 100));
        assert!(!is_small(&Census { malloc: None, ..census(1) }, 100));
        let bounds = KeeperBounds { nodes: 100, bytes: 1, longest: Duration::from_secs(1) };
        let found = find_keeper(&census(101), "String", &bounds, &LookOptions::default());
        assert!(found.unwrap_err().contains("more objects"));
    }

    #[test]
    fn the_gate_is_closed_for_large_needs_and_asked_for_small_ones() {
        let need = |bytes| MemoryNeed { process: 7, part: NeedPart::Copy, bytes };
        let full = MemoryGate::new(|_| Err("no room".to_owned()));
        assert_eq!(bounded(full, 9).ask(need(1)), Err("no room".to_owned()));
        let free = bounded(MemoryGate::default(), 9);
        assert_eq!(free.ask(need(9)), Ok(()));
        assert!(free.ask(need(10)).is_err());
    }
}
