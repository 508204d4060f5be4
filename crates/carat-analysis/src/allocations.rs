//! Where the processes of a tree allocate, from the samples of each.

use carat_model::{AllocationCost, AllocationProfile, AllocationSite, Bytes};
use carat_stats::share::share_interval;
use carat_wire::page::{AllocationReading, Allocations, SAMPLE_BYTES};
use std::collections::HashMap;

/// Classes at their places that are kept.
const SITES: usize = 100;
/// The level of the intervals.
const LEVEL: f64 = 0.95;

/// The samples of all processes together; `None` if none was sampled.
pub fn allocation_profile(readings: &[AllocationReading]) -> Option<AllocationProfile> {
    let sampled =
        |reading: &&AllocationReading| reading.words.get(Allocations::StartedNs).is_some();
    let readings: Vec<&AllocationReading> = readings.iter().filter(sampled).collect();
    let sum = |word| {
        let words = readings.iter().map(|reading| reading.words.get(word).unwrap_or(0));
        words.fold(0_u64, u64::saturating_add)
    };
    // Another process wrote the numbers: the samples are those of the sites, so that shares add up to at most 1.
    let unplaced = sum(Allocations::Unplaced);
    let placed = readings.iter().flat_map(|reading| &reading.sites).map(|site| site.samples);
    let samples = placed.fold(unplaced, u64::saturating_add);
    Some(AllocationProfile {
        seconds: readings.iter().map(|reading| seconds(reading)).reduce(f64::max)?,
        processes: readings.len() as u32,
        samples,
        every: Bytes(SAMPLE_BYTES),
        objects: sum(Allocations::Objects),
        unplaced,
        cost: cost(&readings, samples, sum(Allocations::SampleNs), sum(Allocations::CpuNs)),
        sites: sites(&readings, samples),
    })
}

/// How long a process was sampled, up to the last time it wrote.
fn seconds(reading: &AllocationReading) -> f64 {
    let word = |word| reading.words.get(word);
    let until = word(Allocations::EndedNs).or(word(Allocations::WrittenNs));
    let from = word(Allocations::StartedNs);
    until.zip(from).map_or(0.0, |(until, from)| until.saturating_sub(from) as f64 / 1e9)
}

fn cost(
    readings: &[&AllocationReading],
    samples: u64,
    sample_ns: u64,
    cpu_ns: u64,
) -> AllocationCost {
    let objects: f64 =
        readings.iter().map(|one| one.words.get(Allocations::Objects)).map(number).sum();
    let hook_ns = |one: &&AllocationReading| {
        let added = one.words.get(Allocations::HookPs)? as f64 / 1000.0;
        Some(number(one.words.get(Allocations::Objects)) * added)
    };
    let hooks_ns: Option<f64> = readings.iter().map(hook_ns).sum();
    let spent_ns = hooks_ns.map(|hooks_ns| hooks_ns + sample_ns as f64);
    AllocationCost {
        object_ns: hooks_ns.map(|hooks_ns| hooks_ns / objects.max(1.0)),
        sample_ns: sample_ns as f64 / samples.max(1) as f64,
        spent_s: spent_ns.map(|spent_ns| spent_ns / 1e9),
        share: spent_ns.filter(|_| cpu_ns > 0).map(|spent_ns| spent_ns / cpu_ns as f64),
    }
}

fn number(word: Option<u64>) -> f64 {
    word.unwrap_or(0) as f64
}

fn sites(readings: &[&AllocationReading], samples: u64) -> Vec<AllocationSite> {
    let mut found: HashMap<(&str, &str, u64), u64> = HashMap::new();
    for site in readings.iter().flat_map(|reading| &reading.sites) {
        let known = found.entry((site.class.as_str(), site.path.as_str(), site.line)).or_default();
        *known = known.saturating_add(site.samples);
    }
    let mut sites: Vec<_> = found.into_iter().collect();
    sites.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    let sites = sites.into_iter().take(SITES);
    let site = |((class, path, line), count): ((&str, &str, u64), u64)| AllocationSite {
        class: class.to_owned(),
        path: (!path.is_empty()).then(|| path.to_owned()),
        line: (line > 0).then_some(line),
        samples: count,
        share: count as f64 / samples.max(1) as f64,
        interval: share_interval(count, samples, LEVEL),
    };
    sites.map(site).collect()
}
