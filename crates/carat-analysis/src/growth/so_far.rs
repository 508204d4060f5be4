//! The rate of growth so far, whether or not it is proven, and what it would mean.

use crate::growth::amount;
use crate::growth::swapped::{in_swap, memory_and_swap};
use carat_model::recording::RecordingEnd;
use carat_model::{
    GroupLimit, GrowthKind, GrowthOutlook, KeptReading, LimitKind, PartGrowth, Sample, TrackedPart,
};
use carat_stats::steady::steady_growth;
use carat_stats::summary::median;

/// Points that a series is thinned to: medians of equally many samples.
const POINTS: usize = 40;

/// The latest rate of the memory per second; `None` with too few samples.
///
/// What Ruby keeps is read instead of all memory where it grows beyond doubt: free memory and garbage do not disturb it.
pub fn outlook(
    samples: &[Sample],
    growth: &[PartGrowth],
    limit: Option<&GroupLimit>,
) -> Option<GrowthOutlook> {
    let is_linear = |part: &&PartGrowth| part.kind == GrowthKind::Linear;
    let kept = growth.iter().filter(is_linear).any(|part| part.part == TrackedPart::KeptMemory);
    let series = if kept { of_readings(samples) } else { of_memory(samples) };
    // Any growth: this is an outlook, and the caller says whether it is proven.
    let found = steady_growth(&series, 0.0)?;
    let (rate, high) = (found.course.1, found.late_high);
    let interval = (2.0 * rate - high, high);
    // Without growth beyond doubt no time until the limit is named.
    let left = limit.filter(|limit| limit.kind == LimitKind::WithSwap || !swaps_out(samples));
    let left = left.map(|limit| limit.left().0 as f64).filter(|_| interval.0 > 0.0);
    Some(GrowthOutlook {
        proven: growth.iter().any(|part| part.kind == GrowthKind::Linear),
        per_second: rate,
        interval,
        limit_in_s: left.map(|left| left / rate),
        // The fastest rate reaches the limit first.
        limit_between_s: left.map(|left| (left / interval.1, left / interval.0)),
    })
}

/// Whether more is in swap at the end than at first, which does not count against a limit of memory alone.
fn swaps_out(samples: &[Sample]) -> bool {
    let mut known = in_swap(samples.iter());
    let first = known.next();
    first.zip(known.last()).is_some_and(|(first, last)| last > first)
}

fn of_readings(samples: &[Sample]) -> Vec<(f64, f64)> {
    let readings: Vec<&KeptReading> =
        samples.iter().filter_map(|sample| sample.kept.as_deref()).collect();
    let Some(last) = readings.last() else { return Vec::new() };
    let same = readings.iter().filter(|one| one.rubies == last.rubies);
    same.filter_map(|one| Some((one.at_ms as f64 / 1e3, one.bytes?.0 as f64))).collect()
}

/// All memory of the tree, with what of it is in swap, in as many processes as at the end, under load where load was driven.
fn of_memory(samples: &[Sample]) -> Vec<(f64, f64)> {
    let driven = samples.iter().any(|sample| sample.answered.is_some());
    let processes = samples.last().map_or(0, |last| last.processes);
    // Without load, samples have another rate; another number of processes is a jump.
    let counted = samples
        .iter()
        .filter(|sample| sample.processes == processes && driven == sample.answered.is_some());
    let memory = memory_and_swap(counted.clone());
    let known: Vec<(f64, f64)> = counted
        .filter_map(|sample| Some((sample.at_ms as f64 / 1e3, memory(sample)?.0 as f64)))
        .collect();
    let each = known.len().div_ceil(POINTS).max(1);
    // Medians of both, so that thinning keeps a sawtooth's middle.
    let middle = |points: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        median(&points.iter().map(of).collect::<Vec<f64>>())
    };
    let points = known.chunks(each);
    points
        .filter_map(|some| Some((middle(some, |one| one.0)?, middle(some, |one| one.1)?)))
        .collect()
}

/// The rate so far in words, without a full stop; `now_ms` is the Unix time that the rate is of.
pub fn outlook_sentence(outlook: &GrowthOutlook, end: &RecordingEnd, now_ms: u64) -> String {
    let limit = end.limit.as_ref();
    let rate = |bytes: f64| amount(TrackedPart::Memory, bytes);
    let (low, high) = outlook.interval;
    let now = rate(outlook.per_second);
    let so_far =
        format!("so far {now} per second ({} to {}, 90 % interval)", rate(low), rate(high));
    // An interval with zero in it is no growth yet, whatever else was proven.
    let proven = match outlook.proven {
        _ if low <= 0.0 => ", which may be no growth",
        true => ", proven to be steady",
        false => ", not yet proven to be a leak",
    };
    let reached = outlook.limit_in_s.zip(outlook.limit_between_s).zip(limit);
    let reached = reached.map(|((at, (early, late)), limit)| {
        format!(
            "; at this rate the limit of {}{} is reached in {} (at {} UTC; {} to {})",
            limit.limit,
            limit.kind.remark(),
            duration(at),
            clock(now_ms, at),
            duration(early),
            duration(late)
        )
    });
    let without = match limit {
        None if end.limit_unseen => {
            "; its control group could not be seen, so its limit is unknown"
        }
        None => "; no limit of memory is set for its control group",
        Some(_) => "; memory goes to swap, so when its limit is reached is unknown",
    };
    let consequence = reached.or_else(|| (low > 0.0).then(|| without.to_owned()));
    format!("{so_far}{proven}{}", consequence.unwrap_or_default())
}

/// A span of time in its largest useful unit: `40 s`, `12 min`, `3.5 h`, `9 days`.
fn duration(seconds: f64) -> String {
    match seconds {
        few if few < 90.0 => format!("{few:.0} s"),
        some if some < 5400.0 => format!("{:.0} min", some / 60.0),
        many if many < 172_800.0 => format!("{:.1} h", many / 3600.0),
        days if days < 3.65e7 => format!("{:.0} days", days / 86_400.0),
        _ => "more than a year".to_owned(),
    }
}

/// The time of day so many seconds after a moment in UTC, with the date if that is a day or more away.
fn clock(now_ms: u64, seconds: f64) -> String {
    let at = now_ms as f64 / 1e3 + seconds;
    let minutes = (at / 60.0).rem_euclid(1440.0) as u64;
    // By the date, not by 24 hours: tomorrow at dawn is one day later.
    let days = (at / 86_400.0).floor() - (now_ms as f64 / 86.4e6).floor();
    let later = if days >= 1.0 { format!(", {days:.0} days later") } else { String::new() };
    format!("{:02}:{:02}{later}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::{Bytes, LimitKind};

    fn samples(rate: u64) -> Vec<Sample> {
        let sample = |second: u64| Sample {
            at_ms: 1000 * second,
            processes: 1,
            rss: Some(Bytes(60_000_000 + rate * second + second * 7919 % 13 * 4096)),
            ..Sample::default()
        };
        (1..=120).map(sample).collect()
    }

    fn limit() -> GroupLimit {
        let (limit, used) = (Bytes(512_000_000), Bytes(152_000_000));
        GroupLimit { group: "/app".into(), kind: LimitKind::Max, limit, used }
    }

    fn ended(limit: Option<GroupLimit>) -> RecordingEnd {
        RecordingEnd { limit, ..RecordingEnd::default() }
    }

    #[test]
    fn a_limit_that_was_not_seen_is_not_said_to_be_none() {
        let found = outlook(&samples(100_000), &[], None).unwrap();
        for (limit_unseen, says) in [
            (true, "; its control group could not be seen, so its limit is unknown"),
            (false, "; no limit of memory is set for its control group"),
        ] {
            let text = outlook_sentence(&found, &RecordingEnd { limit_unseen, ..ended(None) }, 0);
            assert!(text.ends_with(says), "{text}");
        }
    }

    #[test]
    fn memory_that_goes_to_swap_counts_and_names_no_time_of_a_limit_of_memory_alone() {
        let mut samples = samples(0);
        for sample in &mut samples {
            sample.swap = Some(Bytes(100 * sample.at_ms));
        }
        for (kind, names) in [(LimitKind::Max, false), (LimitKind::WithSwap, true)] {
            let limit = GroupLimit { kind, ..limit() };
            let found = outlook(&samples, &[], Some(&limit)).unwrap();
            assert!((found.per_second / 1e5 - 1.0).abs() < 0.1, "{found:?}");
            assert_eq!(found.limit_in_s.is_some(), names);
            let said = outlook_sentence(&found, &ended(Some(limit)), 0);
            let unknown = "; memory goes to swap, so when its limit is reached is unknown";
            assert_eq!(said.ends_with(unknown), !names, "{said}");
        }
    }

    #[test]
    fn growth_that_is_not_proven_has_its_rate_and_the_time_of_the_limit() {
        let limit = limit();
        let found = outlook(&samples(100_000), &[], Some(&limit)).unwrap();
        assert!(!found.proven && found.interval.0 < 1e5 && 1e5 < found.interval.1, "{found:?}");
        assert!((found.limit_in_s.unwrap() / 3600.0 - 1.0).abs() < 0.1, "{found:?}");
        // 02:42 UTC and an hour.
        let exact = GrowthOutlook {
            per_second: 1e5,
            interval: (5e4, 2e5),
            limit_in_s: Some(3600.0),
            limit_between_s: Some((1800.0, 7200.0)),
            ..found
        };
        let text = outlook_sentence(&exact, &ended(Some(limit)), 9_720_000);
        assert_eq!(
            text,
            "so far 0.10 MB per second (50.0 kB to 0.20 MB, 90 % interval), not yet proven to be a leak; at this \
             rate the limit of 512.0 MB is reached in 60 min (at 03:42 UTC; 30 min to 2.0 h)"
        );
    }

    #[test]
    fn a_flat_series_may_be_no_growth_and_reaches_no_limit() {
        let found = outlook(&samples(0), &[], Some(&limit())).unwrap();
        assert_eq!((found.limit_in_s, found.proven), (None, false));
        let text = outlook_sentence(&found, &ended(Some(limit())), 0);
        assert!(text.ends_with("which may be no growth"), "{text}");
        assert_eq!(outlook(&samples(0)[..7], &[], None), None);
    }
}
