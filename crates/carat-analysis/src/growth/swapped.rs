//! Memory that the kernel moves to swap, which has not gone: without it a leak under pressure looks flat.

use crate::growth::series::PlacedSample;
use carat_model::memory::tracked_memory;
use carat_model::{Bytes, GrowthKind, PartGrowth, Sample, TrackedPart};

/// The figure to track over time, with what of it is in swap, and unknown where that is.
pub(super) fn memory_and_swap<'a>(
    samples: impl Iterator<Item = &'a Sample> + Clone,
) -> impl Fn(&Sample) -> Option<Bytes> {
    let memory = tracked_memory(samples.clone());
    let swaps = in_swap(samples.clone()).any(|swap| swap > Bytes(0));
    let has_pss = has_pss(samples);
    move |sample| {
        // A kernel without swap does not say how much is there.
        if !swaps {
            return memory(sample);
        }
        // Swap is proportional in samples with PSS alone, so resident memory, which others have too, would make a sawtooth.
        let memory = if has_pss { sample.pss.filter(|_| !sample.partial) } else { memory(sample) };
        Some(memory? + sample.swap?)
    }
}

/// What is in swap by the samples that can be compared: in those with PSS it is proportional too, so the sum of both counts no page twice.
/// The others, in which what processes share is counted for each, count where there is nothing else.
pub(super) fn in_swap<'a>(
    samples: impl Iterator<Item = &'a Sample> + Clone,
) -> impl Iterator<Item = Bytes> {
    let has_pss = has_pss(samples.clone());
    samples.filter(move |sample| sample.pss.is_some() || !has_pss).filter_map(|sample| sample.swap)
}

fn has_pss<'a>(mut samples: impl Iterator<Item = &'a Sample>) -> bool {
    samples.any(|sample| sample.pss.is_some())
}

/// Says how much was in swap, and leaves private memory undecided where that changed by more than what does not matter: it lacks
/// what was moved, and how much of that only one process has is unknown.
pub(super) fn leave_to_swap(found: &mut [PartGrowth], placed: &[PlacedSample<'_>]) {
    let swap = || in_swap(placed.iter().map(|one| one.1));
    let Some((least, most)) = swap().min().zip(swap().max()) else { return };
    if most == Bytes(0) {
        return;
    }
    for part in found {
        let matters = part.tolerance.unwrap_or(0.0) * part.over;
        match part.part {
            TrackedPart::Memory => part.swap = Some(most.0 as f64),
            TrackedPart::Private if (most - least).0 as f64 > matters => {
                *part = without_claim(part, most.0 as f64);
            }
            _ => {}
        }
    }
}

/// The part undecided, with the most that was in swap in place of what it claimed.
fn without_claim(part: &PartGrowth, most: f64) -> PartGrowth {
    PartGrowth {
        kind: GrowthKind::Undecided,
        swap: Some(most),
        asymptote: None,
        step: None,
        needed: None,
        required: None,
        per_day: None,
        compiler: None,
        ..*part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::of_recording;
    use crate::growth::recording::tests::recording;

    const MB: f64 = 1e6;

    /// The growth of a tree that has so much in memory and in swap by the second, more than an hour long.
    fn recorded(
        processes: u32,
        memory: impl Fn(f64) -> f64,
        swap: impl Fn(f64) -> f64,
    ) -> Vec<PartGrowth> {
        let mut recording = recording(4000, processes, memory);
        for sample in &mut recording.samples {
            let swap = swap(sample.at_ms as f64 / 1e3) as u64;
            sample.rss = sample.pss.filter(|_| processes == 1);
            // The tree is read as a whole every ten seconds. Between, what it shares with a process is counted for each of them.
            let is_whole = sample.at_ms % 10_000 == 0;
            sample.swap = Some(Bytes(if is_whole { swap } else { 3 * swap }));
            if !is_whole {
                (sample.pss, sample.uss) = (None, None);
            }
        }
        of_recording(&recording)
    }

    #[test]
    fn a_leak_that_the_kernel_swaps_out_is_found_and_private_memory_is_undecided() {
        use TrackedPart::{Memory, Private};
        let of = |found: &[PartGrowth], part| *found.iter().find(|one| one.part == part).unwrap();
        for processes in [1, 3] {
            let leak = recorded(processes, |_| 80.0 * MB, |second| 10_000.0 * second);
            let (memory, private) = (of(&leak, Memory), of(&leak, Private));
            assert_eq!(memory.kind, GrowthKind::Linear, "{memory:?}");
            assert!((memory.rate.unwrap() - 10_000.0).abs() < 500.0, "{memory:?}");
            assert_eq!(memory.swap, Some(39.9 * MB));
            assert_eq!((private.kind, private.swap), (GrowthKind::Undecided, memory.swap));
            // What comes back is no growth.
            let back = recorded(
                processes,
                |second| 80.0 * MB + 10_000.0 * second,
                |second| 10_000.0 * (4000.0 - second),
            );
            assert_eq!(of(&back, Memory).kind, GrowthKind::Flat);
            assert_eq!(of(&back, Private).kind, GrowthKind::Undecided);
            // What stays in swap disturbs nothing, and without swap nothing is said of it.
            for (swap, said) in [(8.0 * MB, Some(8.0 * MB)), (0.0, None)] {
                let flat = recorded(processes, |_| 80.0 * MB, |_| swap);
                let (memory, private) = (of(&flat, Memory), of(&flat, Private));
                assert_eq!((memory.kind, memory.swap), (GrowthKind::Flat, said));
                assert_eq!((private.kind, private.swap), (GrowthKind::Flat, None));
            }
        }
    }

    #[test]
    fn a_sample_that_does_not_say_what_is_in_swap_has_no_memory_where_others_say() {
        let sample = |swap| Sample { rss: Some(Bytes(9)), swap, ..Sample::default() };
        let known = [sample(Some(Bytes(2))), sample(None)];
        assert_eq!(known.each_ref().map(memory_and_swap(known.iter())), [Some(Bytes(11)), None]);
        let none = [sample(Some(Bytes(0))), sample(None)];
        assert_eq!(none.each_ref().map(memory_and_swap(none.iter())), [Some(Bytes(9)); 2]);
    }
}
