//! What the memory of one long run does, part by part, in words.
//!
//! A process can look undecided while a part of it is clear: Ruby's heap grows in slabs, but
//! its live slots grow with every object kept. So each part is classified by itself.

use crate::model::{Bytes, Outcome, Sample, Trial};
use carat_stats::growth::{Growth, Kind, classify};

/// What is followed over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All memory of the process or tree.
    Memory,
    /// Ruby objects alive.
    LiveSlots,
    /// Memory in use by malloc.
    MallocLive,
    /// Memory that malloc holds and nobody uses.
    MallocFree,
}

/// What the amounts are counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Requests served: the right choice wherever they are known.
    Requests,
    /// Seconds: only as good as the load is even.
    Seconds,
}

/// One part of a run, classified.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartGrowth {
    /// The part.
    pub part: Part,
    /// What it was counted against.
    pub progress: Progress,
    /// What it is found to be.
    pub growth: Growth,
}

/// Classifies one part; `series` holds pairs of progress so far and amount (bytes or slots), in
/// order.
pub fn classify_part(part: Part, progress: Progress, series: &[(f64, f64)]) -> PartGrowth {
    PartGrowth { part, progress, growth: classify(series, part.tolerance(progress)) }
}

/// The memory of one variant over its load, all its trials laid over each other; `None` where no
/// trial that ended well was sampled during its load.
///
/// Progress is counted in requests. Each trial is moved to the
/// common level first: trials differ in level by more than a leak adds. Block 0 does not count.
pub fn over_load(trials: &[Trial], variant: &str) -> Option<PartGrowth> {
    let is = |t: &&Trial| t.block > 0 && t.variant == variant && t.outcome == Outcome::Ok;
    let runs: Vec<Vec<(f64, f64)>> =
        trials.iter().filter(is).filter_map(load_series).filter(|run| !run.is_empty()).collect();
    let level = |run: &[(f64, f64)]| run.iter().map(|(_, y)| y).sum::<f64>() / run.len() as f64;
    let levels: Vec<f64> = runs.iter().map(|run| level(run)).collect();
    let common = carat_stats::budget::median(&levels)?;
    let moved = runs.iter().zip(&levels);
    let mut series: Vec<(f64, f64)> = moved
        .flat_map(|(run, level)| run.iter().map(move |&(x, y)| (x, y - level + common)))
        .collect();
    series.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(classify_part(Part::Memory, Progress::Requests, &series))
}

/// Requests answered so far and bytes held, over the load of one trial.
fn load_series(trial: &Trial) -> Option<Vec<(f64, f64)>> {
    let (from, to) = trial.load_window_ms?;
    let inside = trial.samples.iter().filter(|s| (from..=to).contains(&s.at_ms));
    let point = |s: &Sample| Some((s.answered? as f64, s.pss.or(s.rss)?.0 as f64));
    Some(inside.filter_map(point).collect())
}

/// The part that explains growth best: the innermost one that grows linearly, `None` where none
/// does.
///
/// Kept objects fill slots, slots fill memory: the innermost names the cause.
pub fn culprit(parts: &[PartGrowth]) -> Option<&PartGrowth> {
    let inward = [Part::LiveSlots, Part::MallocLive, Part::MallocFree, Part::Memory];
    let grows = |part: Part| {
        parts.iter().find(|found| found.part == part && found.growth.kind == Kind::Linear)
    };
    inward.into_iter().find_map(grows)
}

impl Part {
    /// The rate below which growth does not matter: 4 bytes, or a tenth of a slot, per request; 100
    /// bytes per second are 9 MB a day.
    pub fn tolerance(self, progress: Progress) -> f64 {
        let bytes = match progress {
            Progress::Requests => 4.0,
            Progress::Seconds => 100.0,
        };
        match self {
            Self::LiveSlots => bytes / 40.0,
            _ => bytes,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::LiveSlots => "the number of live objects",
            Self::MallocLive => "malloc's live memory",
            Self::MallocFree => "malloc's free memory",
        }
    }

    fn rate(self, rate: f64) -> String {
        match self {
            Self::LiveSlots => format!("{rate:.2} objects"),
            _ => format!("{rate:.1} B"),
        }
    }

    fn amount(self, amount: f64) -> String {
        match self {
            Self::LiveSlots => format!("{amount:.0} objects"),
            _ => Bytes(amount.max(0.0) as u64).to_string(),
        }
    }
}

impl Progress {
    fn unit(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Seconds => "second",
        }
    }

    fn length(self, amount: f64) -> String {
        format!("{} {}s", thousands(amount), self.unit())
    }
}

impl PartGrowth {
    /// What is found, in one sentence without a full stop.
    pub fn sentence(&self) -> String {
        let (part, growth) = (self.part, &self.growth);
        let (noun, per) = (part.noun(), self.progress.unit());
        let length = self.progress.length(growth.requests);
        let at_most = growth
            .at_most
            .map(|rate| format!(" (at most {} per {per})", part.rate(rate.max(0.0))))
            .unwrap_or_default();
        let sentence = match growth.kind {
            Kind::Flat => format!("{noun} is flat over {length}{at_most}"),
            Kind::LevellingOff => format!(
                "{noun} is levelling off over {length}: each doubling of the work adds less than \
                 twice as much{at_most}"
            ),
            Kind::Linear => format!(
                "{noun} grows by {} per {per} ({}, {length})",
                part.rate(growth.rate.unwrap_or(0.0)),
                self.interval()
            ),
            Kind::Stepwise => format!(
                "{noun} made one step of {} in {length} and does not grow beside it{at_most}",
                part.amount(growth.step.unwrap_or(0.0))
            ),
            Kind::Undecided => {
                let needed = growth
                    .needed
                    .map(|n| format!("; about {} would decide", self.progress.length(n)))
                    .unwrap_or_default();
                format!("{noun} is undecided after {length} ({}{needed})", self.interval())
            }
        };
        match growth.oscillating {
            true => format!("{sentence}; it rises and falls like a saw"),
            false => sentence,
        }
    }

    fn interval(&self) -> String {
        match self.growth.interval {
            Some((low, high)) => format!(
                "{} to {} per {}, 90 % interval",
                self.part.rate(low),
                self.part.rate(high),
                self.progress.unit()
            ),
            None => "too few samples for an interval".to_owned(),
        }
    }
}

/// A count with its thousands apart: `48,000`.
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
    use crate::verdict::pairs::tests::trial;
    use carat_stats::simulate::{Shape, Soak, Source};

    fn line(from: f64, slope: f64) -> Vec<(f64, f64)> {
        (1..=200).map(|i| f64::from(i) * 1000.0).map(|x| (x, from + slope * x)).collect()
    }

    #[test]
    fn growth_is_told_with_its_rate_and_interval() {
        let run = Soak::new(Shape::Flat, 16.0, 400e3).run(&mut Source::new(3));
        let leak = classify_part(Part::Memory, Progress::Requests, &run);
        assert_eq!(leak.growth.kind, Kind::Linear);
        let text = leak.sentence();
        assert!(
            text.starts_with("memory grows by 1") && text.ends_with("400,000 requests)"),
            "{text}"
        );
        assert!(text.contains("B per request, 90 % interval"), "{text}");
    }

    #[test]
    fn no_growth_is_told_with_its_bound() {
        let flat = classify_part(Part::MallocFree, Progress::Seconds, &line(5e6, 0.0));
        let want = "malloc's free memory is flat over 200,000 seconds (at most 0.0 B per second)";
        assert_eq!(flat.sentence(), want);
    }

    #[test]
    fn the_innermost_part_that_grows_is_the_culprit() {
        let slots = classify_part(Part::LiveSlots, Progress::Requests, &line(4e5, 1.0));
        let memory = classify_part(Part::Memory, Progress::Requests, &line(7e7, 40.0));
        let malloc = classify_part(Part::MallocLive, Progress::Requests, &line(7e7, 0.0));
        let parts = [memory, malloc, slots];
        assert_eq!(culprit(&parts).map(|found| found.part), Some(Part::LiveSlots));
        assert_eq!(culprit(&[malloc]), None);
    }

    #[test]
    fn trials_of_one_variant_are_laid_over_each_other() {
        let mut source = Source::new(4);
        let mut trials = Vec::new();
        for block in 0..12 {
            let mut one = trial(block, "extend", &[]);
            one.load_window_ms = Some((1000, 11_000));
            let level = 70e6 + 300e3 * source.normal();
            one.samples = (0..=100)
                .map(|i| Sample {
                    at_ms: 1000 + 100 * i,
                    answered: Some(1000 * i),
                    rss: Some(Bytes((level + 16e3 * i as f64 + 20e3 * source.normal()) as u64)),
                    ..Sample::default()
                })
                .collect();
            trials.push(one);
        }
        let found = over_load(&trials, "extend").unwrap();
        assert_eq!(found.growth.kind, Kind::Linear, "{found:?}");
        assert!((found.growth.rate.unwrap() - 16.0).abs() < 4.0, "{found:?}");
        assert_eq!(over_load(&trials, "include"), None);
    }

    #[test]
    fn too_little_says_how_much_is_needed() {
        let short = classify_part(Part::Memory, Progress::Requests, &line(7e7, 9.0)[..5]);
        let want = "memory is undecided after 5,000 requests (too few samples for an interval; about \
                    10,000 requests would decide)";
        assert_eq!(short.sentence(), want);
    }
}
