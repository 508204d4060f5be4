//! Sentences about growth, the same in terminal and page.

use crate::growth::innermost_growth;
use carat_model::{
    Bytes, GrowthEvidence, GrowthKind, PartGrowth, ProgressUnit, ReadingEvidence, TrackedPart,
    counted, with_minus,
};

/// The classification of a part, in one sentence without a full stop.
pub fn sentence(growth: &PartGrowth) -> String {
    format!("{} {}", name(growth.part), found(growth))
}

/// The classification, to follow the name of the part.
pub fn found(growth: &PartGrowth) -> String {
    let length = length(growth.progress, growth.over);
    let at_most = at_most(growth);
    let text = match growth.kind {
        GrowthKind::Flat if falls(growth) => format!("falls over {length} and does not grow"),
        GrowthKind::LevellingOff if falls(growth) => {
            format!("falls and levels off{} over {length}", towards(growth))
        }
        GrowthKind::Flat => format!("is flat over {length}{at_most}"),
        GrowthKind::LevellingOff => {
            format!(
                "is levelling off{} over {length}: each doubling of the work adds less than \
                 twice as much{at_most}",
                towards(growth)
            )
        }
        GrowthKind::Linear => {
            let by = growth.rate.map_or_else(String::new, |by| by_rate(growth, by));
            let run = growth.observed.as_ref().map_or(length, evidence);
            let run = growth.readings.map_or(run.clone(), |of| format!("{}, {run}", readings(&of)));
            format!("grows by {by} ({}, {run}){}", interval(growth), proof(growth))
        }
        GrowthKind::Rising => {
            let by = growth.rate.map_or_else(String::new, |by| by_rate(growth, by));
            // Slowing growth has not ended, but a leak would not slow down.
            format!(
                "still rises, but more and more slowly: by {by} lately ({}, {length}), which is no leak so far",
                interval(growth)
            )
        }
        GrowthKind::Stepwise => format!(
            "has one step of {} in {length} and no other growth{at_most}",
            amount(growth.part, growth.step.unwrap_or(0.0))
        ),
        GrowthKind::SharingEroding => format!(
            "erodes: {} that was shared after the fork is private now",
            amount(growth.part, growth.step.unwrap_or(0.0).abs())
        ),
        GrowthKind::Undecided => undecided(growth),
    };
    let sawtooth = if growth.oscillating { "; it oscillates in a sawtooth" } else { "" };
    format!("{text}{sawtooth}{}", swap(growth).unwrap_or_default())
}

/// How much was in swap and whether it counts, to follow a clause.
fn swap(growth: &PartGrowth) -> Option<String> {
    let most = amount(TrackedPart::Memory, growth.swap?);
    Some(match growth.part {
        TrackedPart::Private => {
            format!("; up to {most} was in swap, and how much of that is private is unknown")
        }
        _ => format!("; up to {most} in swap is counted"),
    })
}

/// What a part grows by, and when that was proven, in one sentence without its interval and without a full stop.
pub fn in_brief(growth: &PartGrowth) -> String {
    let by = growth.rate.map(|by| format!(" by {}", by_rate(growth, by))).unwrap_or_default();
    format!("{} grows{by}{}", name(growth.part), proven_after(growth).unwrap_or_default())
}

/// At which progress readings were enough to call growth linear, to follow a clause.
fn proven_after(growth: &PartGrowth) -> Option<String> {
    let at = growth.readings?.proven_at?;
    Some(format!(", proven after {}", length(growth.progress, at)))
}

/// When readings were enough to call growth linear, and how large a cache must be at least if that is what grows.
fn proof(growth: &PartGrowth) -> String {
    let Some(of) = growth.readings else { return String::new() };
    let end = match of.to_come {
        Some(least) => format!(
            "; if it is a cache that fills, at least another {} will follow",
            amount(growth.part, least)
        ),
        None => "; nothing says that it will end".to_owned(),
    };
    proven_after(growth).unwrap_or_default() + &end
}

fn readings(of: &ReadingEvidence) -> String {
    format!("{} {} from outside", of.readings, counted(&f64::from(of.readings), "reading"))
}

/// Whether the whole interval of the rate is below zero, by more than what does not matter.
fn falls(growth: &PartGrowth) -> bool {
    // By more than what does not matter, or noise around zero would be called a fall.
    let matters = -growth.tolerance.unwrap_or(0.0);
    growth.interval.is_some_and(|(_, high)| high < matters)
}

fn towards(growth: &PartGrowth) -> String {
    let level = growth.asymptote.map(|level| amount(growth.part, level));
    level.map(|level| format!(" towards {level}")).unwrap_or_default()
}

/// What would decide parts that are undecided, without a full stop; `None` if that is unknown.
pub fn what_decides(open: &[&PartGrowth]) -> Option<String> {
    let kept = open.iter().find(|part| part.readings.is_some());
    let kept = kept.and_then(|part| {
        let needed = part.needed?;
        // Readings begin late and are rare, so other parts may have been seen for longer.
        let alike = open.iter().filter(|one| one.progress == part.progress);
        let recorded = alike.map(|one| one.over).fold(0.0, f64::max);
        let until = match needed.round() > recorded.round() {
            true => format!("readings until about {}", length(part.progress, needed)),
            // A run of that length is what was recorded, so its length says nothing.
            false => "a few more readings".to_owned(),
        };
        Some(format!("{until} would decide {}", part.part.label()))
    });
    let required = open.iter().find_map(|part| part.required.as_ref());
    let required =
        // Readings and samples need different lengths, so both are named.
        required.map(|required| format!("\"grows\" needs at least {}", evidence(required)));
    match (kept, required) {
        (Some(kept), Some(required)) => return Some(format!("{kept}; of the others {required}")),
        (Some(one), None) | (None, Some(one)) => return Some(one),
        (None, None) => {}
    }
    let needed = open.iter().filter_map(|part| Some((part.needed?, part.progress)));
    // The part that needs longest: with it all are decided.
    let (amount, progress) = needed.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("about {} would decide", length(progress, amount)))
}

/// The undecided parts of a run and what would decide them, without a full stop; `None` if every part is decided.
pub fn undecided_parts(parts: &[PartGrowth]) -> Option<String> {
    let open: Vec<&PartGrowth> = parts.iter().filter(|part| part.is_undecided()).collect();
    let names: Vec<&str> = open.iter().map(|part| part.part.label()).collect();
    let what = what_decides(&open).map(|what| format!("; {what}")).unwrap_or_default();
    let compiler = explained_by_compiler(&open).unwrap_or_default();
    let private = open.iter().find(|part| part.part == TrackedPart::Private);
    let swap = private.and_then(|part| swap(part)).unwrap_or_default();
    (!open.is_empty()).then(|| format!("undecided: {}{what}{compiler}{swap}", names.join(", ")))
}

/// Which parts may have grown by the work of Ruby's compiler, to follow a clause.
fn explained_by_compiler(open: &[&PartGrowth]) -> Option<String> {
    let explained: Vec<(&str, f64)> =
        open.iter().filter_map(|part| Some((part.part.label(), part.compiler?))).collect();
    let most = amount(TrackedPart::Memory, explained.first()?.1);
    let names: Vec<&str> = explained.iter().map(|(name, _)| *name).collect();
    Some(format!(
        "; Ruby's compiler may have taken up to {most}, which would explain {}",
        names.join(" and ")
    ))
}

fn undecided(growth: &PartGrowth) -> String {
    let interval = interval(growth);
    if let Some((observed, required)) = growth.observed.as_ref().zip(growth.required.as_ref()) {
        return format!(
            "is undecided: {}; \"grows\" needs at least {} (so far {interval})",
            evidence(observed),
            evidence(required)
        );
    }
    let length = length(growth.progress, growth.over);
    let of = growth.readings.map(|of| format!(", {}", readings(&of))).unwrap_or_default();
    let needed = growth.needed.map(|n| self::length(growth.progress, n));
    let needed = needed.map(|n| format!("; about {n} would decide")).unwrap_or_default();
    let compiler = compiler(growth);
    format!("is undecided after {length}{of} ({interval}{needed}){compiler}")
}

/// That the growth may be the work of Ruby's compiler, to follow a clause.
fn compiler(growth: &PartGrowth) -> String {
    let most = growth.compiler.map(|most| amount(growth.part, most));
    most.map(|most| {
        format!("; Ruby's compiler may have taken up to {most}, which would explain it")
    })
    .unwrap_or_default()
}

/// That growth is undecided, and what would decide it, in one sentence without a full stop.
pub fn undecided_sentence(growth: &PartGrowth) -> String {
    let run = growth.observed.as_ref();
    let run = run.map_or_else(|| length(growth.progress, growth.over), evidence);
    let what = what_decides(&[growth]).map(|what| format!("; {what}")).unwrap_or_default();
    let compiler = compiler(growth);
    format!("whether {} grows is undecided after {run}{what}{compiler}", name(growth.part))
}

/// The length of a run, without what is unknown: `3,000 requests, 2 full collections, 9 s`.
fn evidence(of: &GrowthEvidence) -> String {
    let requests = of.requests.map(|n| length(ProgressUnit::Requests, n));
    let collections = of.full_collections.map(full_collections);
    let seconds = Some(format!("{} s", thousands(of.seconds.floor())));
    [requests, collections, seconds].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A count that may be a mean: `3 full collections`, `2.5 full collections`.
fn full_collections(count: f64) -> String {
    // A mean may be broken, but 3.0 reads as a measured fraction.
    let plain = if count.fract().abs() < 0.05 { 0 } else { 1 };
    format!("{count:.plain$} {}", counted(&count, "full collection"))
}

/// The rates below which growth does not matter, for the parts of a run; empty if none is known.
pub fn tolerances(parts: &[PartGrowth]) -> String {
    let rates = [TrackedPart::Memory, TrackedPart::KeptObjects].into_iter().filter_map(|part| {
        let found = parts.iter().find(|found| found.part == part)?;
        let tolerance = rate(part, found.tolerance?);
        Some(format!("{tolerance} per {}", found.progress.unit()))
    });
    let rates: Vec<String> = rates.collect();
    match rates.is_empty() {
        true => String::new(),
        false => format!("growth below {} does not matter", rates.join(" or ")),
    }
}

fn at_most(growth: &PartGrowth) -> String {
    let per = growth.progress.unit();
    // One that is not above 0 is that of a level that stood still or fell: no rate is known so well.
    let most = growth.at_most.filter(|most| *most > 0.0);
    most.map(|most| format!(" (at most {} per {per})", rate(growth.part, most))).unwrap_or_default()
}

/// Why memory grows, from the innermost part that grows, in one sentence without a full stop. `None` where no part
/// grows linearly or only the whole was observed.
pub fn cause(parts: &[PartGrowth]) -> Option<String> {
    let innermost = innermost_growth(parts)?;
    let text = match innermost.part {
        TrackedPart::KeptObjects => {
            "Ruby objects that are kept: a cache without a limit, or something that still refers to them"
        }
        TrackedPart::KeptMemory => {
            "memory that Ruby objects keep: a cache without a limit, or objects that become larger"
        }
        TrackedPart::MallocLive => {
            "memory from malloc that is not freed: contents of kept objects or a native extension"
        }
        TrackedPart::MallocFree => {
            "free memory inside malloc, which is fragmentation and not a leak: try another `allocator`, or `arena_max` or `trim` with glibc's malloc"
        }
        // Only if the inner parts are decided: what is undecided may still be the cause.
        _ if is_decided(parts, TrackedPart::KeptObjects)
            && is_decided(parts, TrackedPart::MallocLive) =>
        {
            "neither the number of kept objects nor what malloc counts: read the ledger"
        }
        _ if is_decided(parts, TrackedPart::KeptObjects) => {
            "not the number of kept objects; their contents, a native extension or malloc's free memory: `carat record --load` can distinguish them"
        }
        _ => return None,
    };
    let rate =
        innermost.rate.map(|by| format!(" ({})", by_rate(innermost, by))).unwrap_or_default();
    Some(format!("what grows: {text}{rate}"))
}

fn is_decided(parts: &[PartGrowth], part: TrackedPart) -> bool {
    parts.iter().any(|found| found.part == part && found.kind != GrowthKind::Undecided)
}

fn name(part: TrackedPart) -> &'static str {
    match part {
        TrackedPart::Memory => "memory",
        TrackedPart::Private => "private memory",
        TrackedPart::Shared => "sharing",
        TrackedPart::KeptObjects => "the number of kept objects",
        TrackedPart::MallocLive => "malloc's live memory",
        TrackedPart::MallocFree => "malloc's free memory",
        TrackedPart::KeptMemory => "the memory that Ruby objects keep",
    }
}

/// A rate with its unit, and what it amounts to in a day.
fn by_rate(growth: &PartGrowth, by: f64) -> String {
    let text = format!("{} per {}", rate(growth.part, by), growth.progress.unit());
    let Some(daily) = growth.per_day else { return text };
    let per_day = amount(growth.part, daily.amount);
    match growth.progress {
        ProgressUnit::Requests => {
            let pace = count(daily.progress_per_s);
            format!("{text}, {per_day} per day at {pace} requests per second")
        }
        ProgressUnit::Seconds => format!("{text}, {per_day} per day"),
    }
}

fn rate(part: TrackedPart, rate: f64) -> String {
    let size = rate.abs();
    match part {
        // Two digits: a tenth of an object per request is a leak of a slot every ten.
        TrackedPart::KeptObjects if size < 1000.0 => with_minus(rate, format!("{size:.2} objects")),
        _ if size < 1000.0 => with_minus(rate, format!("{size:.1} B")),
        _ => amount(part, rate),
    }
}

/// An amount of a part with its unit.
pub fn amount(part: TrackedPart, amount: f64) -> String {
    let size = amount.abs();
    let text = match part {
        TrackedPart::KeptObjects => {
            format!("{} {}", three_digits(size), counted(&size.round(), "object"))
        }
        _ if size >= 1e9 => format!("{:.2} GB", size / 1e9),
        _ => Bytes(size as u64).to_string(),
    };
    with_minus(amount, text)
}

fn length(progress: ProgressUnit, amount: f64) -> String {
    format!("{} {}", thousands(amount), counted(&amount.round(), progress.unit()))
}

/// The limits of the rate, or why there are none.
pub fn interval(growth: &PartGrowth) -> String {
    let Some((low, high)) = growth.interval else {
        return "too few samples for an interval".to_owned();
    };
    let part = growth.part;
    let rates =
        format!("{} to {} per {}", rate(part, low), rate(part, high), growth.progress.unit());
    let daily = growth.per_day.filter(|_| growth.kind == GrowthKind::Linear);
    match daily.and_then(|daily| daily.interval) {
        Some((low, high)) => {
            let (low, high) = (amount(part, low), amount(part, high));
            format!("{rates}, {low} to {high} per day, 90 % interval")
        }
        None => format!("{rates}, 90 % interval"),
    }
}

/// A number per second: whole from ten on.
fn count(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { thousands(number) }
}

/// A count of which only three digits are significant, like an amount of bytes: `9,140`, `432 million`.
fn three_digits(amount: f64) -> String {
    if amount < 1000.0 {
        return thousands(amount);
    }
    let step = 10_f64.powf(amount.log10().floor() - 2.0);
    let rounded = (amount / step).round() * step;
    let (divisor, name) = match rounded {
        many if many >= 1e9 => (1e9, " billion"),
        some if some >= 1e6 => (1e6, " million"),
        few => return thousands(few),
    };
    let short = rounded / divisor;
    // Three significant digits, as the bytes beside it.
    let decimals = if short >= 100.0 { 0 } else { 2 - short.log10().floor() as usize };
    format!("{short:.decimals$}{name}")
}

/// A count with thousands separators: `48,000`.
fn thousands(amount: f64) -> String {
    let plain = format!("{amount:.0}");
    let mut text = String::new();
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::classify_part;
    use crate::growth::tests::line;
    use carat_model::DailyGrowth;
    use carat_stats::simulate::{SeededRng, Soak, SoakShape};

    #[test]
    fn growth_has_its_rate_and_interval() {
        let run = Soak::new(SoakShape::Flat, 16.0, 400e3).run(&mut SeededRng::new(3));
        let leak = classify_part(TrackedPart::Memory, ProgressUnit::Requests, &run);
        assert_eq!(leak.kind, GrowthKind::Linear);
        let text = sentence(&leak);
        assert!(
            text.starts_with("memory grows by 1") && text.ends_with("400,000 requests)"),
            "{text}"
        );
        assert!(text.contains("B per request, 90 % interval"), "{text}");
    }

    #[test]
    fn a_flat_part_has_its_upper_limit_unless_it_stood_still() {
        let said = |rate| {
            let all = line(5e6, rate);
            sentence(&classify_part(TrackedPart::MallocFree, ProgressUnit::Seconds, &all))
        };
        let flat = "malloc's free memory is flat over 200,000 seconds";
        assert_eq!(said(0.1), format!("{flat} (at most 0.1 B per second)"));
        assert_eq!(said(0.0), flat);
    }

    #[test]
    fn memory_that_falls_is_said_to_fall_and_has_no_rate() {
        let falling = PartGrowth {
            rate: Some(-11_133.6),
            interval: Some((-12_000.0, -10_000.0)),
            at_most: Some(-9000.0),
            asymptote: Some(71e6),
            tolerance: Some(4.0),
            ..PartGrowth::without_figures(
                TrackedPart::Memory,
                GrowthKind::LevellingOff,
                ProgressUnit::Requests,
                3000.0,
            )
        };
        assert_eq!(
            sentence(&falling),
            "memory falls and levels off towards 71.00 MB over 3,000 requests"
        );
        let flat = PartGrowth { kind: GrowthKind::Flat, ..falling };
        assert_eq!(sentence(&flat), "memory falls over 3,000 requests and does not grow");
        let slow = PartGrowth { interval: Some((-12_000.0, -1.0)), ..flat };
        assert!(sentence(&slow).starts_with("memory is flat over 3,000 requests"));
    }

    #[test]
    fn undecided_parts_are_one_line_with_what_would_decide_them() {
        let of = |part| classify_part(part, ProgressUnit::Requests, &line(7e7, 9.0)[..5]);
        let parts = [of(TrackedPart::Memory), of(TrackedPart::MallocLive)];
        assert_eq!(
            undecided_parts(&parts).unwrap(),
            "undecided: all memory, malloc live; about 10,000 requests would decide"
        );
        let late = PartGrowth { compiler: Some(24e6), ..parts[0] };
        assert_eq!(
            undecided_parts(&[late, parts[1]]).unwrap(),
            "undecided: all memory, malloc live; about 10,000 requests would decide; Ruby's compiler may have taken up to 24.00 MB, \
             which would explain all memory"
        );
        let decided = classify_part(TrackedPart::Memory, ProgressUnit::Requests, &line(7e7, 0.0));
        assert_eq!(undecided_parts(&[decided]), None);
    }

    #[test]
    fn what_was_in_swap_is_counted_in_all_memory_and_leaves_private_memory_unknown() {
        let of = |part, kind| PartGrowth {
            swap: Some(24e6),
            ..PartGrowth::without_figures(part, kind, ProgressUnit::Seconds, 3600.0)
        };
        assert_eq!(
            sentence(&of(TrackedPart::Memory, GrowthKind::Flat)),
            "memory is flat over 3,600 seconds; up to 24.00 MB in swap is counted"
        );
        let private = of(TrackedPart::Private, GrowthKind::Undecided);
        let unknown = "; up to 24.00 MB was in swap, and how much of that is private is unknown";
        assert!(sentence(&private).ends_with(unknown), "{}", sentence(&private));
        let open = format!("undecided: private (USS){unknown}");
        assert_eq!(undecided_parts(&[private]), Some(open));
    }

    #[test]
    fn readings_that_began_late_do_not_ask_for_a_length_that_was_recorded() {
        let open = |part, over, needed, readings| PartGrowth {
            needed: Some(needed),
            readings,
            ..PartGrowth::without_figures(part, GrowthKind::Undecided, ProgressUnit::Requests, over)
        };
        let memory = open(TrackedPart::Memory, 750.0, 9000.0, None);
        let read = Some(ReadingEvidence { readings: 2, proven_at: None, to_come: None });
        for (needed, expected) in [
            (286.0, "a few more readings would decide kept objects"),
            (900.0, "readings until about 900 requests would decide kept objects"),
        ] {
            let kept = open(TrackedPart::KeptObjects, 143.0, needed, read);
            assert_eq!(what_decides(&[&memory, &kept]).as_deref(), Some(expected));
        }
    }

    #[test]
    fn linear_growth_has_its_amount_per_day_and_the_length_of_the_run() {
        let part =
            |progress, slope| classify_part(TrackedPart::Memory, progress, &line(7e7, slope));
        let mut leak = part(ProgressUnit::Seconds, 2000.0);
        let daily = |amount: f64, progress_per_s| {
            Some(DailyGrowth { amount, interval: Some((amount, amount)), progress_per_s })
        };
        leak.per_day = daily(172.8e6, 1.0);
        let want = "grows by 2.0 kB per second, 172.8 MB per day (2.0 kB to 2.0 kB per second, \
                    172.8 MB to 172.8 MB per day, 90 % interval, 200,000 seconds)";
        assert_eq!(found(&leak), want);
        let mut leak = part(ProgressUnit::Requests, 16.0);
        leak.per_day = daily(1.0368e9, 750.0);
        leak.observed = Some(GrowthEvidence {
            requests: Some(200e3),
            full_collections: Some(2.5),
            seconds: 266.9,
        });
        let want = "grows by 16.0 B per request, 1.04 GB per day at 750 requests per second \
                    (16.0 B to 16.0 B per request, 1.04 GB to 1.04 GB per day, 90 % interval, \
                    200,000 requests, 2.5 full collections, 266 s)";
        assert_eq!(found(&leak), want);
    }

    #[test]
    fn an_amount_of_objects_has_three_significant_digits() {
        for (objects, text) in [
            (0.0, "0 objects"),
            (-1.2, "−1 object"),
            (999.4, "999 objects"),
            (-9_143.0, "−9,140 objects"),
            (99_960.0, "100,000 objects"),
            (999_700.0, "1.00 million objects"),
            (43_223_873.0, "43.2 million objects"),
            (432_238_736.0, "432 million objects"),
            (1_234_567_890.0, "1.23 billion objects"),
            (99_960_000_000.0, "100 billion objects"),
        ] {
            assert_eq!(amount(TrackedPart::KeptObjects, objects), text);
        }
    }

    #[test]
    fn a_run_that_is_too_short_for_linear_says_what_it_lacks() {
        let mut short =
            classify_part(TrackedPart::Memory, ProgressUnit::Requests, &line(7e7, 16.0));
        short.kind = GrowthKind::Undecided;
        let evidence = |requests, full_collections, seconds| {
            Some(GrowthEvidence { requests: Some(requests), full_collections, seconds })
        };
        short.observed = evidence(3000.0, Some(2.0), 9.4);
        short.required = evidence(20e3, Some(3.0), 10.0);
        let want = "is undecided: 3,000 requests, 2 full collections, 9 s; \"grows\" needs at \
                    least 20,000 requests, 3 full collections, 10 s (so far 16.0 B to 16.0 B per \
                    request, 90 % interval)";
        assert_eq!(found(&short), want);
        let want = "whether memory grows is undecided after 3,000 requests, 2 full collections, \
                    9 s; \"grows\" needs at least 20,000 requests, 3 full collections, 10 s";
        assert_eq!(undecided_sentence(&short), want);
        assert_eq!(tolerances(&[short]), "growth below 4.0 B per request does not matter");
    }

    #[test]
    fn a_short_series_says_how_much_is_needed() {
        let short =
            classify_part(TrackedPart::Memory, ProgressUnit::Requests, &line(7e7, 9.0)[..5]);
        let want = "memory is undecided after 5,000 requests (too few samples for an interval; about \
                    10,000 requests would decide)";
        assert_eq!(sentence(&short), want);
        let one = PartGrowth { over: 1.0, needed: None, ..short };
        assert_eq!(undecided_sentence(&one), "whether memory grows is undecided after 1 request");
    }

    #[test]
    fn the_cause_is_named_where_an_inner_part_was_observed() {
        let of = |part, slope| classify_part(part, ProgressUnit::Requests, &line(7e7, slope));
        let (memory, slots) = (of(TrackedPart::Memory, 40.0), of(TrackedPart::KeptObjects, 1.0));
        let sentence = cause(&[memory, slots]).unwrap();
        assert!(sentence.starts_with("what grows: Ruby objects that are kept"), "{sentence}");
        assert!(sentence.ends_with("(1.00 objects per request)"), "{sentence}");
        let free = cause(&[memory, of(TrackedPart::MallocFree, 30.0)]).unwrap();
        assert!(free.contains("not a leak"), "{free}");
        let calm = of(TrackedPart::KeptObjects, 0.0);
        let neither = cause(&[memory, of(TrackedPart::MallocLive, 0.0), calm]).unwrap();
        assert!(neither.contains("neither the number of kept objects"), "{neither}");
        let not_objects = cause(&[memory, calm]).unwrap();
        assert!(not_objects.contains("not the number of kept objects"), "{not_objects}");
        assert_eq!(cause(&[memory]), None);
        assert_eq!(cause(&[of(TrackedPart::Memory, 0.0), of(TrackedPart::KeptObjects, 0.0)]), None);
    }
}
