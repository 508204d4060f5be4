//! Growth of recordings that were captured from real servers.

use carat::store;
use carat_analysis::growth::{of_recording, of_variants};
use carat_model::{GrowthKind, TrackedPart};
use std::path::Path;

/// A Rails app with one route on Puma under 30,000 requests, on a machine busy with compilers. Ruby ran no full
/// collection, so its garbage grew by about half an old object per request, and the process by 22 bytes.
#[test]
fn garbage_that_waits_for_a_full_collection_is_not_called_a_leak() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/growth/hello-30000.jsonl");
    let found = of_recording(&store::recording::read(&path).unwrap());
    let of = |part| found.iter().find(|one| one.part == part).unwrap();
    let (memory, kept) = (of(TrackedPart::Memory), of(TrackedPart::KeptObjects));
    assert!(memory.interval.unwrap().0 > 4.0, "the series is linear: {memory:?}");
    assert!(kept.rate.unwrap() > 0.1, "the garbage is kept objects: {kept:?}");
    assert!(found.iter().all(|one| one.kind != GrowthKind::Linear), "{found:?}");
    let (observed, required) = (memory.observed.unwrap(), memory.required.unwrap());
    assert_eq!((observed.requests, observed.full_collections), (Some(30e3), Some(0.0)));
    assert_eq!(required.full_collections, Some(3.0));
    assert_eq!(memory.needed, None, "nothing says when the first full collection will be");
}

/// The same app: five trials of 3,000 requests beside two other busy processes. Together they look linear.
#[test]
fn a_warm_up_of_3_000_requests_is_not_called_a_leak() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/growth/hello-3000-trials.json");
    let results = carat::input::load_results(&path).unwrap();
    let found = of_variants(&results.info.variants, &results.trials);
    let [variant] = &found[..] else { panic!("one variant: {found:?}") };
    let memory = variant.parts.iter().find(|one| one.part == TrackedPart::Memory).unwrap();
    assert!(memory.interval.unwrap().0 > 4.0, "the series is linear: {memory:?}");
    assert!(variant.parts.iter().all(|one| one.kind == GrowthKind::Undecided), "{found:?}");
    let requests = memory.observed.unwrap().requests.unwrap();
    assert!((2900.0..=3000.0).contains(&requests), "{memory:?}");
    assert_eq!(memory.required.unwrap().requests, Some(20e3));
    assert_eq!(memory.needed, None, "nothing says when the first full collection will be");
}
