//! Memory that the kernel moves to swap, which has not gone: without it a leak under pressure looks flat.

use crate::growth::series::PlacedSample;
use carat_model::memory::tracked_memory;
use carat_model::{Bytes, GrowthKind, PartGrowth, Sample, TrackedPart};

/// The figure to track over time, with what of it is in swap, and unknown where that is.
///
/// Where the figure is proportional, so is that in swap (`SwapPss`, proc(5)), and the sum counts no page twice.
pub(super) fn memory_and_swap<'a>(
    mut samples: impl Iterator<Item = &'a Sample> + Clone,
) -> impl Fn(&Sample) -> Option<Bytes> {
    let memory = tracked_memory(samples.clone());
    // A kernel without swap does not say how much is there.
    let swaps = samples.any(|sample| sample.swap.is_some_and(|swap| swap.0 > 0));
    move |sample| {
        let swap = if swaps { sample.swap? } else { Bytes(0) };
        Some(memory(sample)? + swap)
    }
}

/// Says how much was in swap, and leaves private memory undecided where that changed by more than what does not matter: it lacks
/// what was moved, and how much of that only one process has is unknown.
pub(super) fn leave_to_swap(found: &mut [PartGrowth], placed: &[PlacedSample<'_>]) {
    let swap = |sample: &Sample| Some(sample.swap?.0 as f64);
    let most = placed.iter().filter_map(|(_, sample)| swap(sample)).fold(0.0, f64::max);
    if most == 0.0 {
        return;
    }
    // The other samples have swap that is not proportional (`VmSwap`), which would be a difference by itself.
    let private = placed.iter().filter(|(_, sample)| sample.uss.is_some());
    let least = private.clone().filter_map(|(_, sample)| swap(sample)).fold(most, f64::min);
    let moved = private.filter_map(|(_, sample)| swap(sample)).fold(least, f64::max) - least;
    for part in found {
        let matters = moved > part.tolerance.unwrap_or(0.0) * part.over;
        match part.part {
            TrackedPart::Memory => part.swap = Some(most),
            TrackedPart::Private if matters => *part = without_claim(part, most),
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
            sample.swap = Some(Bytes(swap(sample.at_ms as f64 / 1e3) as u64));
            if processes > 1 {
                continue;
            }
            // One process is read as a whole every ten seconds.
            sample.rss = sample.pss;
            if sample.at_ms % 10_000 > 0 {
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
            assert_eq!(memory.swap, Some(39.99 * MB));
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
