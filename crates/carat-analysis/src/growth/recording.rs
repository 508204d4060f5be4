//! The growth of a recording.

use crate::growth::compiled::{compilers_most, compilers_most_since, leave_to_compiler};
use crate::growth::evidence::RunLength;
use crate::growth::series::{PlacedSample, bytes, kept, kept_after_major};
use crate::growth::swapped::{leave_to_swap, memory_and_swap};
use crate::growth::{classify_all, leave_out_summed_levels, of_readings};
use carat_model::{
    Bytes, GrowthKind, KeptReading, PartGrowth, ProgressUnit, Recording, Sample, TrackedPart,
};

/// A decrease of sharing by less than this share of the tree does not count as erosion.
const ERODED: f64 = 0.05;

/// The growth of every part with enough samples: per request where carat drove a load, otherwise per second.
pub fn of_recording(recording: &Recording) -> Vec<PartGrowth> {
    let samples = &recording.samples;
    let (progress, placed) = placed(samples);
    // Not of all samples: what helped to boot is gone when a load begins.
    let memory = memory_and_swap(placed.iter().map(|one| one.1));
    let parts = [
        (TrackedPart::Memory, bytes(&placed, memory)),
        (TrackedPart::Private, bytes(&placed, |sample| sample.uss)),
        (TrackedPart::MallocLive, bytes(&placed, |sample| sample.inside?.malloc_live)),
        (TrackedPart::MallocFree, bytes(&placed, |sample| sample.inside?.malloc_free)),
    ];
    let kept = (&kept_after_major(&placed), &kept(&placed));
    let length = RunLength::of(progress, std::slice::from_ref(&placed));
    // Before the readings from outside, which are sums without this fault.
    let mut found = classify_all(progress, parts, kept, &length);
    leave_out_summed_levels(&mut found, samples);
    leave_to_compiler(&mut found, most_of_compiler(recording));
    leave_to_swap(&mut found, &placed);
    let readings: Vec<&KeptReading> =
        samples.iter().filter_map(|sample| sample.kept.as_deref()).collect();
    add_readings(&mut found, of_readings(progress, &readings));
    found.extend(erosion(samples));
    found
}

fn most_of_compiler(recording: &Recording) -> Option<f64> {
    let ledger = recording.ledger.as_ref()?;
    match &recording.jit_code_before {
        Some(before) => compilers_most_since(before, ledger),
        None => compilers_most(ledger),
    }
}

/// Adds what readings from outside show. They know kept objects without garbage, so where they are enough the probe's
/// count does not matter.
fn add_readings(found: &mut Vec<PartGrowth>, readings: Vec<PartGrowth>) {
    for part in readings {
        // A probe's decided answer stays if the readings are still undecided.
        found.retain(|one| one.part != part.part || (part.is_undecided() && !one.is_undecided()));
        if !found.iter().any(|one| one.part == part.part) {
            found.push(part);
        }
    }
}

/// The samples that growth is judged from, each with the progress of the run.
fn placed(samples: &[Sample]) -> (ProgressUnit, Vec<PlacedSample<'_>>) {
    let driven: Vec<PlacedSample<'_>> =
        samples.iter().filter_map(|sample| Some((sample.answered? as f64, sample))).collect();
    // Without a single answer the load never began, and requests say nothing.
    if driven.last().is_some_and(|last| last.0 > 0.0) {
        return (ProgressUnit::Requests, driven);
    }
    let timed = samples.iter().map(|sample| (sample.at_ms as f64 / 1e3, sample)).collect();
    (ProgressUnit::Seconds, timed)
}

/// Memory that was shared after the fork and is private now, while the number of processes stayed the same.
fn erosion(samples: &[Sample]) -> Option<PartGrowth> {
    let known: Vec<(&Sample, Bytes)> =
        samples.iter().filter_map(|sample| Some((sample, sample.shared?))).collect();
    let processes = known.last()?.0.processes;
    let steady: Vec<&(&Sample, Bytes)> =
        // Another number of processes shares another amount, so only the last stretch counts.
        known.iter().rev().take_while(|(sample, _)| sample.processes == processes).collect();
    let (last, first) = (steady.first()?, steady.last()?);
    // What the kernel swapped out is neither shared nor private.
    let swapped = last.0.swap.unwrap_or_default() - first.0.swap.unwrap_or_default();
    let lost = first.1 - last.1 - swapped;
    // Sharing can also fall because pages were freed; eroded ones are private afterwards.
    let gained = last.0.uss?.saturating_sub(first.0.uss?);
    let matters = lost.0 as f64 > ERODED * last.0.pss?.0 as f64 && gained.0 > 0;
    let over = last.0.at_ms.saturating_sub(first.0.at_ms) as f64 / 1e3;
    let (kind, progress) = (GrowthKind::SharingEroding, ProgressUnit::Seconds);
    (processes > 1 && matters).then(|| PartGrowth {
        step: Some(-(lost.0 as f64)),
        ..PartGrowth::without_figures(TrackedPart::Shared, kind, progress, over)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use carat_model::ledger::{LedgerPart, PartKind};
    use carat_model::recording::RecordingInfo;
    use carat_model::{InsideSample, Ledger};

    const MB: f64 = 1e6;

    pub(in crate::growth) fn recording(
        seconds: u64,
        processes: u32,
        pss: impl Fn(f64) -> f64,
    ) -> Recording {
        let sample = |second: u64| {
            // A wobble of a few pages, as every real server has.
            let wobble = f64::from((second * 7919 % 13) as u32) * 4096.0;
            let bytes = Bytes((pss(second as f64) + wobble) as u64);
            let (at_ms, pss, uss) = (second * 1000, Some(bytes), Some(bytes));
            let major_gcs = Some(second / 20);
            let inside = Some(InsideSample { probes: 1, major_gcs, ..InsideSample::default() });
            Sample { at_ms, processes, pss, uss, inside, ..Sample::default() }
        };
        let head = RecordingInfo {
            schema: String::new(),
            what: "puma".into(),
            started_ms: 0,
            command: Vec::new(),
        };
        Recording { samples: (0..seconds).map(sample).collect(), ..Recording::new(head) }
    }

    fn found(recording: &Recording, part: TrackedPart) -> PartGrowth {
        of_recording(recording).into_iter().find(|growth| growth.part == part).unwrap()
    }

    #[test]
    fn a_leak_has_a_rate_and_a_warm_up_has_a_level() {
        let leak = found(&recording(1000, 1, |x| 60.0 * MB + 20_000.0 * x), TrackedPart::Memory);
        assert_eq!(
            (leak.kind, leak.progress),
            (GrowthKind::Linear, ProgressUnit::Seconds),
            "{leak:?}"
        );
        let (low, high) = leak.interval.unwrap();
        assert!(low < 20_000.0 && 20_000.0 < high, "{leak:?}");
        let warm = recording(1000, 1, |x| 80.0 * MB - 20.0 * MB * (-x / 150.0).exp());
        let warm = found(&warm, TrackedPart::Memory);
        assert_ne!(warm.kind, GrowthKind::Linear, "{warm:?}");
        if let Some(level) = warm.asymptote {
            assert!((level - 80.0 * MB).abs() < MB, "{warm:?}");
        }
    }

    #[test]
    fn growth_that_a_compiler_may_explain_is_no_leak_and_more_than_that_is_one() {
        // 20 MB in all.
        let mut recording = recording(1000, 1, |x| 60.0 * MB + 20_000.0 * x);
        let mut with_code = |code: f64| {
            let (kind, pss) = (PartKind::Jit, Bytes(code as u64));
            let parts = vec![LedgerPart { kind, pss, private: pss, resident: pss }];
            recording.ledger = Some(Ledger { parts, ..Ledger::default() });
            found(&recording, TrackedPart::Memory)
        };
        let late = with_code(4.0 * MB);
        assert_eq!((late.kind, late.compiler), (GrowthKind::Undecided, Some(24.0 * MB)));
        let said = crate::growth::sentence(&late);
        assert!(
            said.ends_with(
                "; Ruby's compiler may have taken up to 24.00 MB, which would explain it"
            ),
            "{said}"
        );
        assert_eq!(with_code(2.0 * MB).kind, GrowthKind::Linear);
    }

    #[test]
    fn a_process_that_helped_to_boot_does_not_hide_the_memory_of_the_one_that_serves() {
        let served = |second: f64| 100.0 * (second - 10.0).max(0.0);
        let mut recording = recording(310, 1, |x| 60.0 * MB + 256.0 * served(x));
        for sample in &mut recording.samples {
            sample.answered =
                (sample.at_ms >= 10_000).then(|| served(sample.at_ms as f64 / 1e3) as u64);
            // Few samples have PSS, and each has RSS where the tree is one process.
            (sample.rss, sample.pss) =
                (sample.pss, sample.pss.filter(|_| sample.at_ms % 40_000 == 0));
        }
        let helped = Sample { at_ms: 100, processes: 2, ..Sample::default() };
        recording.samples.insert(1, helped);
        let memory = found(&recording, TrackedPart::Memory);
        assert_eq!(memory.kind, GrowthKind::Linear, "{memory:?}");
        assert!((memory.rate.unwrap() - 256.0).abs() < 10.0, "{memory:?}");
    }

    #[test]
    fn under_a_driven_load_growth_is_per_request_however_uneven_the_load() {
        // Ten seconds of boot, then a server that slows down: 300 requests a second falling to 100.
        let served = |second: f64| (300.0 * second - 0.1 * second * second).max(0.0);
        let mut recording = recording(1010, 1, |x| 60.0 * MB + 16.0 * served((x - 10.0).max(0.0)));
        for sample in &mut recording.samples[10..] {
            sample.answered = Some(served(sample.at_ms as f64 / 1e3 - 10.0) as u64);
        }
        let leak = found(&recording, TrackedPart::Memory);
        assert_eq!((leak.kind, leak.progress), (GrowthKind::Linear, ProgressUnit::Requests));
        let (low, high) = leak.interval.unwrap();
        assert!(low < 16.0 && 16.0 < high && high - low < 4.0, "{leak:?}");
        assert!((leak.over - 200e3).abs() < 1e3, "{leak:?}");
    }

    #[test]
    fn the_sum_of_what_several_processes_count_is_no_level() {
        let level = |probes| {
            let mut recording = recording(1000, probes, |_| 90.0 * MB);
            for (second, sample) in (0..).map(f64::from).zip(&mut recording.samples) {
                let live = (80.0 - 20.0 * (-second / 150.0).exp()) * MB * f64::from(probes);
                let malloc_live = Some(Bytes(live as u64));
                sample.inside =
                    Some(InsideSample { probes, malloc_live, ..InsideSample::default() });
            }
            found(&recording, TrackedPart::MallocLive).asymptote
        };
        assert!(level(1).is_some_and(|level| (level - 80.0 * MB).abs() < MB));
        assert_eq!(level(3), None);
    }

    #[test]
    fn a_leak_of_kept_objects_is_found_where_memory_only_jumps() {
        // The heap grows by 8 MB whenever it is full.
        let objects = |x: f64| 400e3 + 50.0 * x;
        let wobble = |second: u64| (second * 7919 % 13) as f64;
        let mut recording =
            recording(1000, 1, |x| 60.0 * MB + (objects(x) * 40.0 / 8e6).ceil() * 8.0 * MB);
        for (second, sample) in (0..).zip(&mut recording.samples) {
            sample.answered = Some(100 * second);
            sample.inside = Some(InsideSample {
                probes: 1,
                major_gcs: Some(second / 20),
                kept_objects: Some(objects(second as f64 + wobble(second)) as u64),
                ..InsideSample::default()
            });
        }
        let parts = of_recording(&recording);
        let of = |part| parts.iter().find(|found| found.part == part).unwrap();
        assert_ne!(of(TrackedPart::Memory).kind, GrowthKind::Linear);
        assert_eq!(
            of(TrackedPart::KeptObjects).kind,
            GrowthKind::Linear,
            "{:?}",
            of(TrackedPart::KeptObjects)
        );
        assert!((of(TrackedPart::KeptObjects).rate.unwrap() - 0.5).abs() < 0.05);
        let innermost_growth = crate::growth::innermost_growth(&parts).unwrap();
        assert_eq!(innermost_growth.part, TrackedPart::KeptObjects);
    }

    #[test]
    fn sharing_that_becomes_private_is_erosion_and_not_growth() {
        let mut recording = recording(100, 5, |_| 400.0 * MB);
        for sample in &mut recording.samples {
            let lost = sample.at_ms * 1000;
            sample.shared = Some(Bytes(200_000_000 - lost));
            sample.uss = Some(Bytes(200_000_000 + lost));
        }
        let erodes = |recording: &Recording| {
            of_recording(recording).iter().any(|found| found.kind == GrowthKind::SharingEroding)
        };
        assert!(erodes(&recording));
        for sample in &mut recording.samples {
            sample.swap = Some(Bytes(sample.at_ms * 1000));
        }
        assert!(!erodes(&recording), "swapped out");
        for sample in &mut recording.samples {
            (sample.shared, sample.swap) = (Some(Bytes(200_000_000)), None);
        }
        assert!(!erodes(&recording));
    }
}
