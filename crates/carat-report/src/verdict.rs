//! The verdict as rows: the one model that terminal, page and Markdown lay out.
//!
//! Every text of a figure is made here, so that a sentence, a table and a page cannot differ in a number.

use crate::facts::{self, proven};
use crate::layout::name;
use crate::lists::grouped_by_key;
use crate::machine_text::{differing, differs_by_machine};
use crate::mark::Mark;
use crate::moments::phrase;
use crate::numbers::{self, count};
use crate::open_text::{decided, fewest_for};
use crate::standing::{Standing, breaks_guard, standing};
use crate::text::capital;
use crate::use_it::{UseIt, use_it};
use crate::wording::{Sentence, headline, sentences, typical_so_far};
use carat_analysis::{Judge, question};
use carat_model::{
    BlockForecast, Conclusion, Estimate, Results, Role, Verdict, first_names, metric,
};

/// Variants that are named where several are open; the others are counted.
const NAMES: usize = 3;

/// The verdict on all variants.
#[derive(Debug)]
pub(crate) struct VerdictTable {
    /// `Memory after 1,000 requests (3 processes), 7 blocks, intervals at 98 %`.
    pub title: String,
    /// The baseline, then the others in the order of the results.
    pub rows: Vec<VerdictRow>,
    /// What limits the figures: each reason once, with the number of times.
    pub warnings: Vec<String>,
    /// How to run the server under the variant that leads; `None` if none is proven better within its guards.
    pub use_it: Option<UseIt>,
    /// Why none is recommended yet, where one is better: `not yet; not proven within the limit: p95 of prefork`.
    pub not_yet: Option<String>,
    /// What would decide; `None` if all is decided.
    pub open: Option<OpenVerdict>,
}

#[derive(Debug, Default)]
pub(crate) struct VerdictRow {
    pub variant: String,
    /// Its place among the variants, which gives its colour.
    pub place: usize,
    /// The median with its unit; `None` if it is unknown.
    pub value: Option<String>,
    /// `None` for the baseline.
    pub mark: Option<Mark>,
    /// `−45.6 %`; without [`estimate`](Self::estimate) that of the typical block so far.
    pub change: Option<String>,
    /// `−46.7 to −44.5`; `None` while there are too few blocks.
    pub interval: Option<String>,
    /// The difference that `change` and `interval` write.
    pub estimate: Option<Estimate>,
    /// What else is said of the difference, such as that it does not matter.
    pub remark: Option<String>,
    /// The guards that are broken come first.
    pub guards: Vec<GuardCell>,
    /// `−44 % against its control jemalloc`, one per control.
    pub controls: Vec<String>,
    /// The verdict as a sentence; `None` for the baseline.
    pub sentence: Option<Sentence>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuardCell {
    /// `p95 within +10 % ✓`, `p99 +28 %, limit +5 %`.
    pub text: String,
    /// As [`Conclusion::guard_passed`].
    pub passed: Option<bool>,
}

/// Why there is no verdict on every variant yet, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenVerdict {
    /// `3 blocks cannot decide; 7 can, and are then the limit`.
    pub text: String,
    /// Blocks to run in all; `None` where that is not known or beyond what can be foreseen.
    pub blocks: Option<u32>,
    /// How the experiment comes to so many.
    pub further: FurtherBlocks,
}

/// How an experiment comes to more blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FurtherBlocks {
    /// It allows them: it goes on.
    Allowed,
    /// It goes on with a larger number, because none of its looks could decide anything.
    Added,
    /// It begins anew, because the number of blocks is part of the plan that limits the error.
    Anew,
}

impl VerdictTable {
    pub(crate) fn new(results: &Results) -> Self {
        let sentences = sentences(results);
        // Only a variant that is proven within every guard is recommended.
        let leading = headline(results, &sentences)
            .filter(|one| standing(results, &one.variant) == Standing::Better);
        let use_it = leading.and_then(|one| use_it(&results.info, &one.variant));
        let mut of_variants = sentences.iter();
        let rows = results.info.variants.iter().enumerate().map(|(place, variant)| {
            let sentence = if place == 0 { None } else { of_variants.next().cloned() };
            VerdictRow::new(results, (place, &variant.name), sentence)
        });
        let rows = rows.collect();
        let (title, warnings) = (title(results), warnings(results));
        let not_yet = not_yet(results).filter(|_| leading.is_none());
        let open = open(results, leading.map(|one| one.variant.as_str()));
        Self { title, rows, warnings, use_it, not_yet, open }
    }
}

impl VerdictRow {
    fn new(results: &Results, (place, variant): (usize, &str), sentence: Option<Sentence>) -> Self {
        let metric = results.info.primary.as_str();
        let summary = facts::variant_summary(results, variant, metric);
        let mut row = Self {
            variant: variant.to_owned(),
            place,
            value: summary.map(|found| facts::unit(metric).show(found.median)),
            mark: sentence.as_ref().map(|sentence| sentence.mark),
            sentence,
            ..Self::default()
        };
        if place > 0 {
            row.compare(results);
        }
        row
    }

    /// What stands beside the figures, in the order of importance: a cell is cut off at its end.
    pub(crate) fn beside(&self) -> Vec<String> {
        let guards = self.guards.iter().map(|cell| &cell.text);
        self.remark.iter().chain(guards).chain(&self.controls).cloned().collect()
    }

    fn compare(&mut self, results: &Results) {
        let (variant, metric) = (self.variant.as_str(), results.info.primary.as_str());
        self.guards = facts::guards(results, variant).map(guard).collect();
        // Broken guards first: they decide whether the rest matters.
        self.guards.sort_by_key(|cell| cell.passed != Some(false));
        self.controls = facts::against_controls(results, metric)
            .filter(|compared| compared.conclusion.variant == variant)
            .map(|compared| against_control(&compared.control, &compared.conclusion))
            .collect();
        if let Some(one) = differing(results, variant) {
            // One figure would stand for machines that contradict it.
            self.remark = Some(differs_by_machine(one));
            return;
        }
        let found = facts::conclusion(results, variant, metric);
        self.estimate = found.and_then(proven);
        let estimate = self.estimate.as_ref();
        let (change, interval) =
            estimate.map(|found| numbers::change_and_interval(metric, found)).unzip();
        self.change = change.or_else(|| Some(typical_so_far(results, found?)?.0));
        self.interval = interval;
        self.remark = match found.map(|found| found.verdict) {
            None => Some("not compared".to_owned()),
            Some(_) if estimate.is_none() => None,
            Some(Verdict::Undecided) => Some("undecided".to_owned()),
            Some(Verdict::Equivalent) => {
                Some(format!("below {} does not matter", numbers::limit(results.info.margin)))
            }
            Some(_) => None,
        };
    }
}

/// `Memory after 1,000 requests (3 processes), 7 blocks, intervals at 98 %`.
fn title(results: &Results) -> String {
    let mut title = capital(&phrase(results, &results.info.primary));
    if let Some(processes) = processes(results).filter(|processes| *processes > 1) {
        title = format!("{title} ({})", count(processes, "process"));
    }
    if let Some(blocks) = blocks(results) {
        title = format!("{title}, {blocks}");
    }
    let level = numbers::primary_level(results);
    match level.filter(|_| primaries(results).any(|one| proven(one).is_some())) {
        Some(level) => format!("{title}, intervals at {level}"),
        None => title,
    }
}

/// The processes of the server after the load, where every trial that counts had as many.
fn processes(results: &Results) -> Option<usize> {
    let trials = results.trials.iter().filter(|trial| facts::counts(trial));
    let mut numbers = trials.map(|trial| trial.samples.last().map(|sample| sample.processes));
    let first = numbers.next()??;
    // Trials with other numbers of processes have no common one.
    numbers.all(|other| other == Some(first)).then_some(first as usize)
}

/// The blocks of the comparisons with the baseline: `7 blocks`, `18 to 22 blocks`.
fn blocks(results: &Results) -> Option<String> {
    let blocks = primaries(results).map(|one| one.blocks);
    let (low, high) = (blocks.clone().min()?, blocks.max()?);
    match low == high {
        true => Some(count(low as usize, "block")),
        false => Some(format!("{low} to {high} blocks")),
    }
}

/// The comparisons with the baseline in the primary metric.
fn primaries(results: &Results) -> impl Iterator<Item = &Conclusion> + Clone {
    let all = results.conclusions.iter();
    all.filter(move |one| one.metric == results.info.primary && one.role == Role::Primary)
}

fn guard(guard: &Conclusion) -> GuardCell {
    let limit = numbers::guard_limit(guard).unwrap_or_default();
    let metric = guard.metric.as_str();
    let noun = short(metric);
    let text = match (guard.guard_passed, &proven(guard)) {
        (_, None) => format!("{noun} not decided, limit {limit}"),
        (Some(true), _) => format!("{noun} within {limit} ✓"),
        (Some(false), Some(found)) => {
            format!("{noun} {}, limit {limit}", numbers::change(metric, found))
        }
        (None, Some(found)) => {
            let (_, interval) = numbers::change_and_interval(metric, found);
            format!("{noun} not proven within {limit} ({interval})")
        }
    };
    GuardCell { text, passed: guard.guard_passed }
}

/// The name of a metric in a cell: a percentile of the latency is known by its number alone.
fn short(name: &str) -> &str {
    let phrase = metric::find(name).map_or(name, |known| known.phrase);
    phrase.strip_suffix(" latency").filter(|rest| rest.starts_with('p')).unwrap_or(phrase)
}

/// `−44 % against its control jemalloc`.
fn against_control(control: &str, conclusion: &Conclusion) -> String {
    let Some(found) = &proven(conclusion) else {
        return format!("not decided against its control {control}");
    };
    let (change, interval) = numbers::change_and_interval(&conclusion.metric, found);
    match conclusion.verdict {
        Verdict::Undecided => format!("undecided against its control {control} ({interval})"),
        Verdict::Equivalent => format!("adds nothing to its control {control} ({interval})"),
        _ => format!("{change} against its control {control}"),
    }
}

/// What limits the figures, the most serious first: trials that do not count, warnings, notes. What is said of several
/// variants in the same words is said once.
pub(crate) fn warnings(results: &Results) -> Vec<String> {
    let variants = || results.info.variants.iter().map(|variant| variant.name.as_str());
    let failed = variants().filter_map(|variant| {
        let failures = facts::failures_with_cause(results, variant)?;
        Some((variant, format!("trials that do not count: {failures}"), 1))
    });
    let warned = results.warnings.iter().map(|warning| {
        let of = variants().find_map(|variant| {
            Some((variant, warning.strip_prefix(variant)?.strip_prefix(": ")?.to_owned(), 1))
        });
        of.unwrap_or_else(|| ("", warning.clone(), 1))
    });
    let noted = variants().flat_map(|variant| {
        facts::notes(results, variant).into_iter().map(move |(note, times)| (variant, note, times))
    });
    let contrary = variants().filter(|variant| is_against_medians(results, variant));
    let contrary = contrary.map(|variant| (variant, AGAINST_MEDIANS.to_owned(), 1));
    // Last: a setting that was not in effect is worse than a generator that was a little late.
    let of_load = facts::load_findings(results);
    merged(failed.chain(warned).chain(contrary).chain(noted).chain(of_load))
}

/// Said where a row would look like a mistake.
const AGAINST_MEDIANS: &str = "its difference is the typical one within blocks, which goes another way than that of the medians";

/// Whether a variant's difference has another sign than that of the medians in the rows.
fn is_against_medians(results: &Results, variant: &str) -> bool {
    let metric = results.info.primary.as_str();
    let median = |variant: &str| Some(facts::variant_summary(results, variant, metric)?.median);
    // Of too few blocks the row has the typical difference so far.
    let shown = |one| match proven(one) {
        Some(found) => Some(found.ratio),
        None => typical_so_far(results, one).map(|(_, typical)| typical),
    };
    let found = facts::conclusion(results, variant, metric).and_then(shown);
    let medians = median(variant).zip(median(facts::baseline(results)));
    found.zip(medians).is_some_and(|(found, (own, baseline))| found * (own - baseline) < 0.0)
}

/// Texts about variants, each text once: `jemalloc, prefork: the text (×14)`. One about no variant has an empty name.
fn merged<'a>(all: impl Iterator<Item = (&'a str, String, usize)>) -> Vec<String> {
    let by_text = grouped_by_key(all.map(|(variant, text, times)| (text, (variant, times))));
    let lines = by_text.into_iter().map(|(text, said)| {
        let times: usize = said.iter().map(|(_, times)| times).sum();
        let named = said.into_iter().filter(|(variant, _)| !variant.is_empty());
        let names: Vec<&str> = grouped_by_key(named).into_iter().map(|(name, _)| name).collect();
        let of = if names.is_empty() { String::new() } else { format!("{}: ", names.join(", ")) };
        let times = if times > 1 { format!(" (×{times})") } else { String::new() };
        format!("{of}{text}{times}")
    });
    lines.collect()
}

/// What would decide the comparisons that are open; `None` if there is none, or no trial to forecast from. `leading` is the
/// recommended variant.
fn open(results: &Results, leading: Option<&str>) -> Option<OpenVerdict> {
    // More blocks would not start what never became ready.
    let starts = |variant: &str| facts::never_ready_of(results, variant).is_none();
    if !starts(facts::baseline(results)) {
        return None;
    }
    // A variant beyond a guard is not offered, whatever its other differences are.
    let is_open = |one: &&Conclusion| {
        let is_offered = starts(&one.variant) && !breaks_guard(results, &one.variant);
        one.verdict == Verdict::Undecided && is_offered && !facts::is_unmeasured(results, one)
    };
    let mut open: Vec<&Conclusion> = primaries(results).filter(is_open).collect();
    // What is better may still wait for a guard, without which it is not recommended; where a recommended one is as good,
    // nobody waits.
    let waits = |variant: &str| {
        standing(results, variant) == Standing::BetterAtOpenCost
            && leading.is_none_or(|leading| is_beyond(results, variant, leading))
    };
    if open.is_empty() {
        let is_open = |one: &&Conclusion| {
            let is_guard = matches!(one.role, Role::Guard { .. });
            is_guard && one.guard_passed.is_none() && waits(&one.variant)
        };
        open = results.conclusions.iter().filter(is_open).collect();
    }
    let most = open.iter().map(|one| one.blocks).max()?;
    let ran = facts::blocks(results, facts::counts);
    if ran.is_empty() {
        return None;
    }
    let has = count(most as usize, "block");
    let names = first_names(open.iter().map(|one| subject(one)), NAMES);
    let most_allowed = results.info.max_blocks;
    // A run that had all its blocks cannot be continued.
    let is_allowed = |blocks| (ran.len() as u32) < most_allowed && blocks <= most_allowed;
    let within = |blocks: u32| match is_allowed(blocks) {
        true => FurtherBlocks::Allowed,
        false => FurtherBlocks::Anew,
    };
    // Too few for any interval: then the fewest that can decide is the answer.
    if let Some(fewest) = fewest_for(results, &open) {
        let judge = Judge::new(question(&results.info));
        let may_be_added = judge.blocks_to_add_up_to().is_some() && results.info.fleet.is_none();
        let further = if may_be_added { FurtherBlocks::Added } else { within(fewest) };
        // More blocks after those would be chosen in view of their results.
        let limit = if may_be_added { ", and are then the limit" } else { "" };
        let text = format!("{has} cannot decide; {fewest} can{limit}");
        return Some(OpenVerdict { text, blocks: Some(fewest), further });
    }
    // One comparison without a forecast leaves the end of all unknown.
    let forecasts: Option<Vec<BlockForecast>> = open.iter().map(|one| one.forecast).collect();
    let Some(latest) = forecasts.and_then(|all| all.into_iter().reduce(later)) else {
        let text = format!(
            "{names}: {has} did not decide; after how many blocks it is decided is not known yet"
        );
        return Some(OpenVerdict { text, blocks: None, further: FurtherBlocks::Anew });
    };
    let text = format!("{names}: {has} did not decide; probably {}", decided(latest));
    let further = latest.high.map_or(FurtherBlocks::Anew, within);
    Some(OpenVerdict { text, blocks: latest.high, further })
}

/// Whether a variant differs more than another in the primary metric, with intervals apart.
fn is_beyond(results: &Results, variant: &str, other: &str) -> bool {
    let found = |name| facts::conclusion(results, name, &results.info.primary)?.estimate;
    found(variant).zip(found(other)).is_some_and(|(own, other)| {
        let ((low, high), (other_low, other_high)) = (own.ratio_interval, other.ratio_interval);
        (high < other_low || low > other_high) && own.ratio.abs() > other.ratio.abs()
    })
}

/// The guards that keep what is better from being recommended; `None` if there is none.
fn not_yet(results: &Results) -> Option<String> {
    let variants = results.info.variants.iter().skip(1).map(|variant| &variant.name);
    let better = variants.filter(|name| standing(results, name) == Standing::BetterAtOpenCost);
    let guards = better.flat_map(|name| facts::guards(results, name));
    let open: Vec<String> = guards.filter(|one| one.guard_passed.is_none()).map(subject).collect();
    let names = first_names(open.iter().map(String::as_str), NAMES);
    (!open.is_empty()).then(|| format!("not yet; not proven within the limit: {names}"))
}

/// What is open: a variant, or a guard of it.
fn subject(open: &Conclusion) -> String {
    let variant = name(&open.variant);
    match open.role {
        Role::Guard { .. } => format!("{} of {variant}", short(&open.metric)),
        _ => variant,
    }
}

/// The range that ends later: every open comparison is then decided.
fn later(one: BlockForecast, other: BlockForecast) -> BlockForecast {
    BlockForecast {
        low: one.low.max(other.low),
        high: one.high.zip(other.high).map(|(one, other)| one.max(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, conclusion, estimate};
    use carat_model::{
        LoadFlag, LoadReport, MachineComparison, MachineTypeEstimate, Severity, Trial,
    };

    fn trial(block: u32, variant: &str, bytes: f64) -> Trial {
        let metrics = [("memory.pss.final".to_owned(), bytes)].into();
        let notes = vec!["a setting was not applied".into()];
        Trial { metrics, notes, ..testing::trial(block, variant) }
    }

    fn of_guard(passed: Option<bool>, found: Estimate) -> Conclusion {
        testing::guard("latency.p99", 0.05, passed, (Verdict::Slower, found))
    }

    fn results(conclusions: Vec<Conclusion>) -> Results {
        let trials = (1..=3).flat_map(|block| [trial(block, "a", 4e8), trial(block, "b", 2e8)]);
        let warnings = ["b: it drifted", "b: it drifted", "look again"].map(str::to_owned).into();
        Results { conclusions, warnings, ..testing::results(&["a", "b"], trials.collect()) }
    }

    #[test]
    fn a_row_has_a_mark_and_its_guards_and_one_beyond_a_guard_is_never_marked_as_smaller() {
        let half = Some(estimate(-0.51, -0.5, -0.49));
        let p99 = estimate(0.2, 0.28, 0.36);
        for (verdict, passed, mark, guard) in [
            (Verdict::Smaller, Some(true), Mark::Less, "p99 within +5 % ✓"),
            (Verdict::Smaller, Some(false), Mark::BreaksGuard, "p99 +28 %, limit +5 %"),
            (Verdict::Smaller, None, Mark::Less, "p99 not proven within +5 % (+20 to +36)"),
            (Verdict::Larger, Some(true), Mark::More, "p99 within +5 % ✓"),
            (Verdict::Equivalent, Some(true), Mark::Equal, "p99 within +5 % ✓"),
            (Verdict::Undecided, Some(true), Mark::Open, "p99 within +5 % ✓"),
            (Verdict::Undecided, Some(false), Mark::BreaksGuard, "p99 +28 %, limit +5 %"),
        ] {
            let results = results(vec![conclusion(verdict, half), of_guard(passed, p99)]);
            let table = VerdictTable::new(&results);
            let row = &table.rows[1];
            assert_eq!((row.mark, row.guards[0].text.as_str()), (Some(mark), guard), "{verdict:?}");
            let sentence = row.sentence.as_ref().unwrap();
            assert_eq!(sentence.mark, mark);
            let breaks_guard = sentence.rest.contains("but its p99");
            assert_eq!(breaks_guard, passed == Some(false), "{}", sentence.rest);
            let cells = [&row.value, &row.change, &row.interval].map(|cell| cell.as_deref());
            assert_eq!(cells, [Some("200.0 MB"), Some("−50.0 %"), Some("−51.0 to −49.0")]);
        }
    }

    #[test]
    fn findings_of_the_load_come_after_all_other_notes() {
        let mut results = results(Vec::new());
        for trial in &mut results.trials {
            let flags = vec![LoadFlag {
                code: "errors".into(),
                severity: Severity::Warning,
                message: format!("{} failed", trial.block),
            }];
            trial.load = Some(LoadReport { flags, ..LoadReport::default() });
        }
        let last = VerdictTable::new(&results).warnings.split_off(2);
        assert_eq!(
            last,
            ["a, b: a setting was not applied (×6)", "a, b: load, errors, such as: 1 failed (×6)"]
        );
    }

    #[test]
    fn what_machines_contradict_is_not_recommended() {
        let found = estimate(-0.06, -0.05, -0.04);
        let of = |name: &str, ratio: f64| MachineTypeEstimate {
            machine_type: name.into(),
            blocks: 9,
            estimate: Some(estimate(ratio - 0.01, ratio, ratio + 0.01)),
        };
        for (other, is_leading) in [(-0.02, true), (0.03, false)] {
            let machines = vec![MachineComparison {
                variant: "b".into(),
                metric: "memory.pss.final".into(),
                p: Some(0.001),
                differs: true,
                types: vec![of("c6i", -0.12), of("m7g", other)],
                machines: 2,
                general: None,
            }];
            let proven = vec![conclusion(Verdict::Smaller, Some(found))];
            let results = Results { machines, ..results(proven) };
            assert_eq!(standing(&results, "b") == Standing::Better, is_leading, "{other}");
        }
    }

    #[test]
    fn the_title_has_moment_blocks_and_level_and_the_baseline_has_no_mark() {
        let found = estimate(-0.51, -0.5, -0.49);
        let table = VerdictTable::new(&results(vec![conclusion(Verdict::Smaller, Some(found))]));
        assert_eq!(table.title, "Memory after the load, 3 blocks, intervals at 98 %");
        assert_eq!((table.rows[0].mark, table.rows[0].change.as_ref()), (None, None));
        assert_eq!(table.open, None);
    }

    #[test]
    fn what_is_said_several_times_is_one_line_with_the_number_of_times() {
        let table = VerdictTable::new(&results(Vec::new()));
        let noted = "a, b: a setting was not applied (×6)";
        assert_eq!(table.warnings, ["b: it drifted (×2)", "look again", noted]);
        assert_eq!(table.rows[1].remark.as_deref(), Some("not compared"));
    }

    #[test]
    fn too_few_blocks_give_point_estimates_and_the_number_of_blocks_that_can_decide() {
        let table = VerdictTable::new(&results(vec![conclusion(Verdict::Undecided, None)]));
        let row = &table.rows[1];
        assert_eq!((row.change.as_deref(), &row.interval), (Some("−50.0 %"), &None));
        let open = table.open.unwrap();
        let needed = open.blocks.unwrap();
        let text = format!("3 blocks cannot decide; {needed} can, and are then the limit");
        assert_eq!(open.text, text);
        assert!(needed > 3 && open.further == FurtherBlocks::Added, "{open:?}");
    }

    #[test]
    fn what_has_too_few_blocks_is_decided_by_as_many_on_the_page_as_in_the_terminal_and_in_the_plan()
     {
        let open = conclusion(Verdict::Undecided, None);
        let trials = (1..=3).flat_map(|block| ["a", "b"].map(|name| testing::trial(block, name)));
        let mut results = testing::results(&["a", "b"], trials.collect());
        results.conclusions = vec![open.clone()];
        // A budget of six has one look, one of three none.
        for (budget, fewest, limit) in [(3, 8, " (3 are allowed)"), (6, 6, ""), (30, 8, "")] {
            results.info.max_blocks = budget;
            assert_eq!(question(&results.info).fewest_blocks(), fewest);
            let page = crate::open_text::decided_after(&results, &open);
            assert_eq!(page, format!("; {fewest} blocks can decide{limit}"));
            let terminal = VerdictTable::new(&results).open.unwrap();
            assert_eq!(terminal.blocks, Some(fewest), "{terminal:?}");
        }
    }

    #[test]
    fn a_variant_that_never_became_ready_is_not_waited_for() {
        let undecided = results(vec![conclusion(Verdict::Undecided, None)]);
        assert!(VerdictTable::new(&undecided).open.is_some());
        for variant in ["a", "b"] {
            let mut failed = undecided.clone();
            for trial in failed.trials.iter_mut().filter(|trial| trial.variant == variant) {
                trial.outcome = carat_model::Outcome::NeverReady;
            }
            assert_eq!(VerdictTable::new(&failed).open, None, "{variant}");
        }
    }

    #[test]
    fn an_open_verdict_says_when_it_is_decided_or_that_this_is_not_known() {
        use FurtherBlocks::{Allowed, Anew};
        for (range, most, when, further) in [
            (None, 20, "after how many blocks it is decided is not known yet", Anew),
            (Some((10, 15)), 20, "probably decided after 10 to 15 blocks", Allowed),
            (Some((10, 33)), 20, "probably decided after 10 to 33 blocks", Anew),
            (Some((3, 3)), 3, "probably decided after 3 blocks", Anew),
        ] {
            let forecast = range.map(|(low, high)| BlockForecast { low, high: Some(high) });
            let found = Some(estimate(-0.1, -0.01, 0.1));
            let open = Conclusion { forecast, ..conclusion(Verdict::Undecided, found) };
            let mut results = results(vec![open]);
            results.info.max_blocks = most;
            let text = format!("b: 3 blocks did not decide; {when}");
            let blocks = range.map(|(_, high)| high);
            let open = VerdictTable::new(&results).open;
            assert_eq!(open, Some(OpenVerdict { text, blocks, further }));
        }
    }

    #[test]
    fn a_guard_that_is_not_proven_says_when_it_is_decided() {
        let forecast = Some(BlockForecast { low: 10, high: Some(15) });
        let guard = Conclusion { forecast, ..of_guard(None, estimate(-0.1, 0.0, 0.1)) };
        let smaller = conclusion(Verdict::Smaller, Some(estimate(-0.51, -0.5, -0.49)));
        let open = VerdictTable::new(&results(vec![smaller.clone(), guard.clone()])).open.unwrap();
        assert!(open.text.starts_with("p99 of b: "), "{open:?}");
        assert!(open.text.ends_with("probably decided after 10 to 15 blocks"), "{open:?}");
        // Beside a recommended variant only for what saves more than that.
        for (low, ratio, high, is_asked) in
            [(-0.22, -0.2, -0.18, true), (-0.52, -0.5, -0.48, false), (-0.7, -0.6, -0.55, false)]
        {
            let found = conclusion(Verdict::Smaller, Some(estimate(low, ratio, high)));
            let of_c = |one: Conclusion| Conclusion { variant: "c".into(), ..one };
            let proven = of_guard(Some(true), estimate(-0.1, 0.0, 0.1));
            let conclusions = vec![smaller.clone(), guard.clone(), of_c(found), of_c(proven)];
            let all = Results { conclusions, ..testing::results(&["a", "b", "c"], Vec::new()) };
            let trials = results(Vec::new()).trials;
            let open = VerdictTable::new(&Results { trials, ..all }).open;
            assert_eq!(open.is_some(), is_asked, "{ratio}: {open:?}");
        }
    }

    #[test]
    fn a_difference_that_goes_another_way_than_the_medians_says_what_it_is() {
        let with = |low, ratio, high| {
            let found = conclusion(Verdict::Undecided, Some(estimate(low, ratio, high)));
            VerdictTable::new(&results(vec![found])).warnings
        };
        let warning = format!("b: {AGAINST_MEDIANS}");
        assert!(with(-0.1, 0.01, 0.1).contains(&warning));
        assert!(!with(-0.1, -0.01, 0.1).contains(&warning));
    }

    #[test]
    fn a_typical_difference_so_far_that_goes_another_way_than_the_medians_says_what_it_is() {
        // Two of three blocks have more, and the median is less.
        let values = [(1e8, 1.5e8), (2e8, 1.9e8), (3e8, 3.3e8)];
        let mut results = results(vec![conclusion(Verdict::Undecided, None)]);
        results.trials = (1..)
            .zip(values)
            .flat_map(|(block, (a, b))| [trial(block, "a", a), trial(block, "b", b)])
            .collect();
        let table = VerdictTable::new(&results);
        assert_eq!(table.rows[1].change.as_deref(), Some("+14.6 %"));
        assert!(table.warnings.contains(&format!("b: {AGAINST_MEDIANS}")), "{:?}", table.warnings);
    }

    #[test]
    fn where_no_trial_has_the_metric_no_number_of_blocks_helps() {
        let unmeasured = Conclusion {
            metric: "latency.p99".into(),
            blocks: 0,
            ..conclusion(Verdict::Undecided, None)
        };
        let mut results = results(vec![unmeasured]);
        results.info.primary = "latency.p99".into();
        let table = VerdictTable::new(&results);
        assert_eq!(table.open, None);
        let rest = &table.rows[1].sentence.as_ref().unwrap().rest;
        assert_eq!(rest, "cannot be judged: no trial has a value of latency.p99.");
    }

    #[test]
    fn what_is_better_and_not_recommended_says_which_guard_is_not_proven() {
        let smaller = conclusion(Verdict::Smaller, Some(estimate(-0.51, -0.5, -0.49)));
        let guard = |passed| of_guard(passed, estimate(-0.1, 0.0, 0.1));
        let undecided = Conclusion {
            variant: "c".into(),
            ..conclusion(Verdict::Undecided, Some(estimate(-0.1, 0.0, 0.1)))
        };
        for (passed, expected) in
            [(None, Some("not yet; not proven within the limit: p99 of b")), (Some(true), None)]
        {
            let found = results(vec![smaller.clone(), undecided.clone(), guard(passed)]);
            assert_eq!(VerdictTable::new(&found).not_yet.as_deref(), expected);
        }
    }

    #[test]
    fn an_undecided_difference_has_the_same_figure_in_a_sentence_and_in_the_table() {
        let found = estimate(-0.066, -0.059, -0.04);
        let results = results(vec![conclusion(Verdict::Undecided, Some(found))]);
        let rest = VerdictTable::new(&results).rows[1].sentence.clone().unwrap().rest;
        assert!(rest.contains("; so far −5.9 % (by block −50.0 %"), "{rest}");
    }

    #[test]
    fn a_variant_beyond_a_guard_asks_for_no_blocks_and_what_is_open_is_named() {
        let forecast = Some(BlockForecast { low: 200, high: Some(250) });
        let undecided = |variant: &str| Conclusion {
            variant: variant.into(),
            forecast,
            ..conclusion(Verdict::Undecided, Some(estimate(-0.1, -0.01, 0.1)))
        };
        let guard = of_guard(Some(false), estimate(5.0, 6.33, 7.0));
        let beyond = results(vec![undecided("b"), guard.clone()]);
        let table = VerdictTable::new(&beyond);
        assert_eq!((table.rows[1].mark, table.open), (Some(Mark::BreaksGuard), None));
        let rest = &table.rows[1].sentence.as_ref().unwrap().rest;
        assert!(!rest.contains("probably decided"), "{rest}");
        assert!(rest.contains(", but its p99 latency is 633 % higher"), "{rest}");
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut others = testing::results(&names, vec![trial(1, "a", 4e8), trial(1, "c", 2e8)]);
        others.conclusions = names[1..].iter().map(|name| undecided(name)).chain([guard]).collect();
        let text = VerdictTable::new(&others).open.unwrap().text;
        assert_eq!(
            text,
            "c, d, e and 1 more: 3 blocks did not decide; probably decided after 200 to 250 blocks"
        );
    }
}
