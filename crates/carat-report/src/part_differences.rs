//! Where a difference in memory comes from: the parts of every variant's ledger against those of the baseline.

use crate::facts;
use crate::lists::{distinct, largest_first};
use crate::moments::{metric_moment, phrase};
use crate::numbers::{self, bytes_change, short_bytes, signed_bytes};
use carat_model::ledger::{Ledger, PartKind};
use carat_model::{MetricMoment, Results, Unit, Verdict, metric};
use carat_stats::summary::median;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerLine {
    /// All memory of malloc, where one of two ledgers cannot tell live from free.
    #[serde(rename = "malloc_live_and_free")]
    Malloc,
    /// All memory of Ruby's slots and of malloc, where one of two ledgers cannot tell them apart.
    SlotsAndMalloc,
    /// The kernel's figure without the parts.
    Unexplained,
    /// The median of the whole without the medians of all other lines: medians do not add up exactly.
    #[serde(rename = "rest_of_medians")]
    OfMedians,
    /// The kernel's figure.
    All,
    #[serde(untagged)]
    Part(PartKind),
}

/// The parts that malloc's memory may be listed as.
const MALLOC: [PartKind; 4] =
    [PartKind::MallocLive, PartKind::MallocFree, PartKind::AllocatorOverhead, PartKind::Malloc];

/// Bytes of a part; a part that a ledger does not list is zero.
fn size(ledger: &Ledger, kind: PartKind) -> f64 {
    ledger.part(kind).map_or(0.0, |part| part.pss.0 as f64)
}

/// The lines that both sides of the pairs can tell apart, in the order of a ledger.
fn comparable_lines(pairs: &[LedgerPair<'_>]) -> Vec<LedgerLine> {
    let is_of_one_side = |kind| {
        let [baseline, variant] = listed(pairs, kind);
        baseline != variant
    };
    // What one side cannot tell apart must not be compared apart.
    let (together, line): (&[PartKind], LedgerLine) = if is_of_one_side(PartKind::SlotsLive) {
        (PartKind::HEAPS, LedgerLine::SlotsAndMalloc)
    } else if is_of_one_side(PartKind::MallocLive) {
        (&MALLOC, LedgerLine::Malloc)
    } else {
        (&[], LedgerLine::Malloc)
    };
    let of = |kind| if together.contains(&kind) { line } else { LedgerLine::Part(kind) };
    // Parts that are compared together share one line.
    distinct(PartKind::ALL.map(of).into_iter().chain([LedgerLine::Unexplained]))
}

/// Whether a ledger of the baseline, and one of the variant, lists a part.
fn listed(pairs: &[LedgerPair<'_>], kind: PartKind) -> [bool; 2] {
    let baseline = pairs.iter().any(|pair| pair.0.part(kind).is_some());
    [baseline, pairs.iter().any(|pair| pair.1.part(kind).is_some())]
}

impl LedgerLine {
    /// Whether it is memory that something uses, not a rest or a sum.
    fn is_part(self) -> bool {
        matches!(self, Self::Part(_) | Self::Malloc | Self::SlotsAndMalloc)
    }

    /// Label for tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Part(kind) => kind.label(),
            Self::Malloc => "malloc, live and free",
            Self::SlotsAndMalloc => "Ruby slots and malloc",
            Self::Unexplained => "unexplained",
            Self::OfMedians => "rest of the medians",
            Self::All => "all memory",
        }
    }

    /// The label in a sentence: `malloc free`.
    pub(crate) fn name(self) -> String {
        self.label().replace(", ", " ")
    }

    /// Bytes of a ledger in this line.
    fn of(self, ledger: &Ledger) -> f64 {
        match self {
            Self::Part(kind) => size(ledger, kind),
            Self::Malloc => MALLOC.into_iter().map(|kind| size(ledger, kind)).sum(),
            Self::SlotsAndMalloc => PartKind::HEAPS.iter().map(|kind| size(ledger, *kind)).sum(),
            Self::Unexplained => ledger.unexplained as f64,
            Self::OfMedians => 0.0,
            Self::All => ledger.pss.0 as f64,
        }
    }
}

/// One line in the baseline and in a variant, in bytes of PSS: medians over the blocks in which both have a ledger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PartDifference {
    pub line: LedgerLine,
    /// Whether a ledger of the baseline, and one of the variant, lists it. A part that is not listed counts as zero: there is
    /// none, or it cannot be told apart.
    pub listed: [bool; 2],
    pub baseline: f64,
    pub variant: f64,
}

impl PartDifference {
    /// `None` without a pair.
    fn new(line: LedgerLine, pairs: &[LedgerPair<'_>]) -> Option<Self> {
        let (baseline, variant): (Vec<f64>, Vec<f64>) =
            pairs.iter().map(|pair| (line.of(pair.0), line.of(pair.1))).unzip();
        let listed = match line {
            LedgerLine::Part(kind) => listed(pairs, kind),
            _ => [true; 2],
        };
        Some(Self { line, listed, baseline: median(&baseline)?, variant: median(&variant)? })
    }

    /// The sizes on both sides; `None` where no ledger lists the part.
    pub(crate) fn sizes(&self) -> [Option<f64>; 2] {
        let [baseline, variant] = self.listed;
        [baseline.then_some(self.baseline), variant.then_some(self.variant)]
    }

    /// Bytes that the variant has more than the baseline.
    pub(crate) fn difference(&self) -> f64 {
        self.variant - self.baseline
    }

    /// `42.8 → 6.0 MB`, or `not listed → 6.0 MB`.
    pub(crate) fn change(&self) -> String {
        match self.sizes() {
            [None, None] => "not listed".to_owned(),
            [None, Some(variant)] => format!("not listed → {}", short_bytes(variant)),
            [Some(baseline), None] => format!("{} → not listed", short_bytes(baseline)),
            [Some(baseline), Some(variant)] => bytes_change(baseline, variant),
        }
    }

    /// `malloc free 42.8 → 6.0 MB`.
    fn in_sentence(&self) -> String {
        format!("{} {}", self.line.name(), self.change())
    }

    fn in_json(&self) -> Value {
        let [baseline, variant] = self.sizes();
        json!({
            "part": self.line,
            "baseline": baseline,
            "variant": variant,
            "difference": self.difference(),
        })
    }
}

/// The ledgers of the baseline and of a variant in one block.
type LedgerPair<'a> = (&'a Ledger, &'a Ledger);

/// The parts of one variant against those of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariantParts {
    pub variant: String,
    /// Its place among the variants.
    pub place: usize,
    /// Blocks in which both have a ledger.
    pub blocks: usize,
    /// The lines that one of the two has, in the order of a ledger; they add up to `all`.
    pub lines: Vec<PartDifference>,
    pub all: PartDifference,
    /// Quartiles of the differences of all memory within the blocks, in bytes.
    middle_half: (f64, f64),
}

/// Every variant with a ledger in a block in which the baseline has one too; empty without ledgers.
pub(crate) fn part_differences(results: &Results) -> Vec<VariantParts> {
    let baseline = ledgers(results, facts::baseline(results));
    let variants = results.info.variants.iter().enumerate().skip(1);
    let parts = variants.filter_map(|(place, variant)| {
        let own = ledgers(results, &variant.name).into_iter();
        let pairs = own.filter_map(|(block, own)| Some((*baseline.get(&block)?, own)));
        VariantParts::new(place, &variant.name, &pairs.collect::<Vec<_>>())
    });
    parts.collect()
}

/// The last ledger of a trial by its block.
fn ledgers<'a>(results: &'a Results, variant: &str) -> BTreeMap<u32, &'a Ledger> {
    let trials = facts::counted_trials(results, variant);
    trials.filter_map(|trial| Some((trial.block, facts::last_ledger(trial)?))).collect()
}

/// A further part in the same direction is named from this share of the difference of all memory on.
const SECOND: f64 = 0.25;
/// A part in the other direction is named from this share on.
const OPPOSED: f64 = 0.1;

impl VariantParts {
    fn new(place: usize, variant: &str, pairs: &[LedgerPair<'_>]) -> Option<Self> {
        let all = PartDifference::new(LedgerLine::All, pairs)?;
        let mut lines: Vec<PartDifference> = comparable_lines(pairs)
            .into_iter()
            .filter_map(|line| PartDifference::new(line, pairs))
            // A line of zeros on both sides says nothing.
            .filter(|line| line.baseline != 0.0 || line.variant != 0.0)
            .collect();
        lines.push(PartDifference {
            line: LedgerLine::OfMedians,
            listed: [true; 2],
            baseline: all.baseline - lines.iter().map(|line| line.baseline).sum::<f64>(),
            variant: all.variant - lines.iter().map(|line| line.variant).sum::<f64>(),
        });
        // Within blocks, because both ran on the machine in the same state there.
        let within = pairs.iter().map(|pair| pair.1.pss.0 as f64 - pair.0.pss.0 as f64);
        let within = facts::summarize(&within.collect::<Vec<f64>>())?;
        let middle_half = (within.lower, within.upper);
        let blocks = pairs.len();
        Some(Self { variant: variant.to_owned(), place, blocks, lines, all, middle_half })
    }

    /// Whether most blocks agree on the direction of the difference of all memory.
    pub(crate) fn is_clear(&self) -> bool {
        // Three quarters of the blocks agree: no test, but enough to name a part.
        let (lower, upper) = self.middle_half;
        (upper < 0.0 && self.all.difference() < 0.0) || (lower > 0.0 && self.all.difference() > 0.0)
    }

    /// The lines that differ by `least` bytes or more, and the sum of the differences of the others.
    pub(crate) fn differing_by(&self, least: f64) -> (Vec<&PartDifference>, f64) {
        let (shown, others): (Vec<&PartDifference>, Vec<&PartDifference>) =
            self.lines.iter().partition(|line| line.difference().abs() >= least);
        (shown, others.iter().map(|line| line.difference()).sum())
    }

    /// The largest difference of a line, in bytes.
    pub(crate) fn largest_difference(&self) -> f64 {
        self.lines.iter().map(|line| line.difference().abs()).fold(0.0, f64::max)
    }

    /// Which part makes the difference, to follow the variant's name, without a full stop.
    pub(crate) fn sentence(&self) -> String {
        let blocks = numbers::count(self.blocks, "block");
        let all = self.all.difference();
        let parts = self.lines.iter().filter(|one| one.line.is_part() && one.difference() != 0.0);
        let parts = largest_first(parts, |one| one.difference().abs() as u64);
        let (with, against): (Vec<&PartDifference>, Vec<&PartDifference>) =
            parts.into_iter().partition(|one| one.difference() * all > 0.0);
        // A cause is named only where the blocks agree that there is an effect.
        let Some(first) = with.first().filter(|_| self.is_clear()) else {
            let (low, high) = self.middle_half;
            let [low, high] =
                [low, high].map(|bytes| signed_bytes(bytes, low.abs().max(high.abs())));
            return format!(
                "no part stands out, because all memory differs by {low} to {high} in the middle half of {blocks}"
            );
        };
        let opposed = against.first().filter(|line| is_large(line, OPPOSED * all));
        let opposed = opposed.map(|line| {
            let word = if line.difference() > 0.0 { "grows" } else { "shrinks" };
            format!("; meanwhile {} {word} {}", line.line.name(), line.change())
        });
        // One block has no median.
        let of = if self.blocks > 1 { "medians over " } else { "only " };
        let second = with.get(1).filter(|line| is_large(line, SECOND * all));
        let share = share_of_all(first, second.map(|line| line.in_sentence()), all);
        format!("{share}{} ({of}{blocks})", opposed.unwrap_or_default())
    }

    /// For other programs.
    pub(crate) fn in_json(&self) -> Value {
        let parts: Vec<Value> = self.lines.iter().map(PartDifference::in_json).collect();
        json!({
            "variant": self.variant,
            "blocks": self.blocks,
            "all": self.all.in_json(),
            "parts": parts,
            "sentence": self.sentence(),
        })
    }
}

fn is_large(line: &PartDifference, bytes: f64) -> bool {
    line.difference().abs() >= bytes.abs()
}

/// `malloc free 42.8 → 6.0 MB is most of the 40.0 MB saved`.
fn share_of_all(first: &PartDifference, second: Option<String>, all: f64) -> String {
    let size = short_bytes(all.abs());
    let what = if all < 0.0 { "saved" } else { "added" };
    let named = first.in_sentence();
    if let Some(second) = second {
        return format!("{named} and {second} are the largest parts of the {size} {what}");
    }
    let share = match first.difference() / all {
        share if share > 1.1 => "more than",
        share if share >= 0.9 => "nearly all of",
        share if share >= 0.5 => "most of",
        _ => "the largest part of",
    };
    format!("{named} is {share} the {size} {what}")
}

/// When the parts were read, and what the verdict is about if that is something else; without a full stop.
pub(crate) fn moment_of_parts(results: &Results) -> String {
    let read = match facts::is_run(results) {
        true => "in the last sample of the run".to_owned(),
        false => metric_moment(results, MetricMoment::AfterLoad),
    };
    let primary = results.info.primary.as_str();
    let is_same = metric::find(primary).is_some_and(|known| {
        known.moment == Some(MetricMoment::AfterLoad) && known.unit == Unit::Bytes
    });
    let verdict = match (is_same, primary.contains(".rss.")) {
        // The sample of the verdict and the ledger are two readings, one after the other.
        (true, false) => {
            "read apart from the verdict's figure, so the whole may differ from it a little".into()
        }
        (true, true) => "whereas the verdict is about resident memory".into(),
        (false, _) => format!("whereas the verdict is about {}", phrase(results, primary)),
    };
    format!("proportional memory (PSS) {read}, {verdict}")
}

/// A heading for all variants together, which claims no more than the verdicts.
pub(crate) fn heading(results: &Results, all: &[VariantParts]) -> &'static str {
    let verdict = |one: &VariantParts| {
        facts::conclusion(results, &one.variant, &results.info.primary).map(|found| found.verdict)
    };
    if all.iter().any(|one| verdict(one) == Some(Verdict::Smaller)) {
        "Where the saving comes from"
    } else if all.iter().all(|one| verdict(one) == Some(Verdict::Larger)) {
        "Where the additional memory comes from"
    } else {
        "Where the difference comes from"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ledger::LedgerPart;
    use carat_model::{Bytes, Conclusion};
    use proptest::prelude::*;

    const MB: u64 = 1_000_000;

    fn ledger(parts: &[(PartKind, u64)], unexplained: i64) -> Ledger {
        let parts: Vec<LedgerPart> = parts
            .iter()
            .map(|&(kind, bytes)| LedgerPart {
                kind,
                pss: Bytes(bytes),
                private: Bytes(bytes),
                resident: Bytes(bytes),
            })
            .collect();
        let sum: Bytes = parts.iter().map(|part| part.pss).sum();
        let pss = Bytes(sum.0.saturating_add_signed(unexplained));
        Ledger { pss, parts, unexplained, ..Ledger::default() }
    }

    /// The parts over three blocks in which the baseline and the variant have these ledgers.
    fn compared(baseline: &Ledger, variant: &Ledger) -> VariantParts {
        VariantParts::new(1, "two arenas", &[(baseline, variant); 3]).unwrap()
    }

    #[test]
    fn the_part_that_makes_most_of_the_saving_is_named_with_both_its_sizes() {
        let of =
            |slots, free| ledger(&[(PartKind::SlotsLive, slots), (PartKind::MallocFree, free)], 0);
        let before = of(30 * MB, 42_800_000);
        for (slots, share) in [
            (26, "nearly all of the 40.8 MB saved"),
            (46, "more than the 20.8 MB saved; meanwhile Ruby slots live grows 30.0 → 46.0 MB"),
        ] {
            let sentence = format!("malloc free 42.8 → 6.0 MB is {share} (medians over 3 blocks)");
            assert_eq!(compared(&before, &of(slots * MB, 6 * MB)).sentence(), sentence);
        }
        let both = "Ruby slots live 30.0 → 10.0 MB and malloc free 42.8 → 30.0 MB are the largest \
                    parts of the 32.8 MB saved (medians over 3 blocks)";
        assert_eq!(compared(&before, &of(10 * MB, 30 * MB)).sentence(), both);
        let added = compared(&of(26 * MB, 6 * MB), &before).sentence();
        let end = "is nearly all of the 40.8 MB added (medians over 3 blocks)";
        assert!(added.ends_with(end), "{added}");
    }

    #[test]
    fn a_part_that_no_ledger_of_a_side_lists_is_not_said_to_be_zero() {
        let after = [(PartKind::SlotsLive, 30 * MB), (PartKind::Jit, 5 * MB)];
        let found = compared(&ledger(&after[..1], 0), &ledger(&after, 0));
        assert_eq!(
            found.sentence(),
            "JIT code not listed → 5.00 MB is nearly all of the 5.00 MB added (medians over 3 blocks)"
        );
        let parts = found.in_json()["parts"].as_array().unwrap().clone();
        let line = parts.iter().find(|line| line["part"] == "jit").unwrap();
        assert_eq!((&line["baseline"], &line["variant"]), (&Value::Null, &json!(5e6)));
        assert_eq!(line["difference"], 5e6);
        let jit = found.lines.iter().find(|line| line.line == LedgerLine::Part(PartKind::Jit));
        let jit = jit.unwrap();
        assert_eq!((jit.baseline, jit.variant), (0.0, 5e6), "zero where only the other has it");
        assert_eq!(jit.sizes(), [None, Some(5e6)], "it is not listed");
    }

    #[test]
    fn a_single_block_is_no_median() {
        let [before, after] = [40, 20].map(|size| ledger(&[(PartKind::MallocFree, size * MB)], 0));
        let found = VariantParts::new(1, "compact", &[(&before, &after)]).unwrap();
        let want = "malloc free 40.0 → 20.0 MB is nearly all of the 20.0 MB saved (only 1 block)";
        assert_eq!(found.sentence(), want);
    }

    #[test]
    fn no_part_is_named_where_the_blocks_disagree() {
        let [low, high] = [20, 30].map(|size| ledger(&[(PartKind::MallocLive, size * MB)], 0));
        let pairs = [(&low, &high), (&high, &low), (&low, &low)];
        let found = VariantParts::new(1, "compact", &pairs).unwrap();
        assert!(found.sentence().starts_with("no part stands out"), "{}", found.sentence());
    }

    #[test]
    fn what_one_side_cannot_tell_apart_is_compared_together() {
        let apart = [
            (PartKind::SlotsLive, 30 * MB),
            (PartKind::MallocLive, 20 * MB),
            (PartKind::MallocFree, 40 * MB),
        ];
        let together = [(PartKind::SlotsLive, 30 * MB), (PartKind::Malloc, 25 * MB)];
        let found = compared(&ledger(&apart, 0), &ledger(&together, 0));
        let lines: Vec<(LedgerLine, f64)> =
            found.lines.iter().map(|line| (line.line, line.difference())).collect();
        assert!(lines.contains(&(LedgerLine::Malloc, -35e6)), "{lines:?}");
        assert!(lines.iter().all(|line| line.0 != LedgerLine::Part(PartKind::MallocFree)));
        let neither = [(PartKind::SlotsOrMalloc, 50 * MB)];
        let found = compared(&ledger(&apart, 0), &ledger(&neither, 0));
        assert!(found.sentence().starts_with("Ruby slots and malloc 90.0 → 50.0 MB is nearly all"));
    }

    #[test]
    fn the_heading_claims_no_saving_that_no_verdict_has() {
        let [low, high] = [20, 30].map(|size| ledger(&[(PartKind::MallocLive, size * MB)], 0));
        let parts = |variant: &str, pair| VariantParts::new(1, variant, &[pair]).unwrap();
        let all = [parts("b", (&low, &high)), parts("c", (&high, &low))];
        let mut results = crate::testing::results(&["a", "b", "c"], Vec::new());
        let of = |variant: &str, verdict| Conclusion {
            variant: variant.into(),
            ..crate::testing::conclusion(verdict, None)
        };
        results.conclusions = vec![of("b", Verdict::Larger), of("c", Verdict::Undecided)];
        assert_eq!(heading(&results, &all), "Where the difference comes from");
        assert_eq!(heading(&results, &all[..1]), "Where the additional memory comes from");
        results.conclusions[1].verdict = Verdict::Smaller;
        assert_eq!(heading(&results, &all), "Where the saving comes from");
    }

    #[test]
    fn the_whole_of_the_parts_is_said_to_be_read_apart_from_the_figure_of_the_verdict() {
        let mut results = crate::testing::results(&["a", "b"], Vec::new());
        let said = moment_of_parts(&results);
        assert!(said.contains("read apart from the verdict's figure"), "{said}");
        results.info.primary = metric::LATENCY_P95.id.into();
        let said = moment_of_parts(&results);
        assert!(said.ends_with("whereas the verdict is about p95 latency"), "{said}");
    }

    proptest! {
        /// Whatever the blocks are, nothing is lost and nothing is counted twice.
        #[test]
        fn the_differences_of_the_parts_add_up_to_that_of_all_memory(
            blocks in prop::collection::vec(
                (prop::collection::vec((0..12_usize, 0..200 * MB), 1..9),
                 prop::collection::vec((0..12_usize, 0..200 * MB), 1..9),
                 -3_000_000..3_000_000_i64),
                1..9,
            )
        ) {
            let built = |parts: &[(usize, u64)], unexplained| {
                let by_kind: BTreeMap<usize, u64> = parts.iter().copied().collect();
                let parts: Vec<(PartKind, u64)> =
                    by_kind.into_iter().map(|(at, size)| (PartKind::ALL[at], size + 4 * MB)).collect();
                ledger(&parts, unexplained)
            };
            let ledgers: Vec<(Ledger, Ledger)> = blocks
                .iter()
                .map(|(one, other, unexplained)| (built(one, *unexplained), built(other, -unexplained)))
                .collect();
            let pairs: Vec<LedgerPair<'_>> = ledgers.iter().map(|pair| (&pair.0, &pair.1)).collect();
            let found = VariantParts::new(1, "x", &pairs).unwrap();
            let sum = |pick: fn(&PartDifference) -> f64| found.lines.iter().map(pick).sum::<f64>();
            prop_assert!((sum(|line| line.baseline) - found.all.baseline).abs() < 1.0);
            prop_assert!((sum(|line| line.variant) - found.all.variant).abs() < 1.0);
            prop_assert!((sum(PartDifference::difference) - found.all.difference()).abs() < 1.0);
            let (shown, others) = found.differing_by(5e6);
            let shown: f64 = shown.iter().map(|line| line.difference()).sum();
            prop_assert!((shown + others - found.all.difference()).abs() < 1.0);
        }
    }
}
