//! The verdict in plain words: one sentence per variant, with interval, number of blocks, and the price.

use crate::model::{Better, Conclusion, Estimate, Results, Role, Verdict, metric};
use crate::report::facts;

/// What is said of one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    /// The variant.
    pub(crate) variant: String,
    /// What follows for the primary metric.
    pub(crate) verdict: Verdict,
    /// Everything after the variant's name, without it; ends with a full stop.
    pub(crate) rest: String,
}

impl Sentence {
    /// The whole sentence.
    pub(crate) fn whole(&self) -> String {
        format!("{} {}", self.variant, self.rest)
    }
}

/// One sentence for every variant after the baseline.
pub(crate) fn sentences(results: &Results) -> Vec<Sentence> {
    results
        .variants
        .iter()
        .skip(1)
        .map(|variant| {
            let found = facts::conclusion(results, &variant.name, &results.primary);
            let verdict = found.map_or(Verdict::Undecided, |c| c.verdict);
            let main = match found {
                Some(conclusion) => primary(results, conclusion),
                None => {
                    "has not been compared: it has no scored trials beside the baseline's".into()
                }
            };
            let price = if verdict == Verdict::Undecided && found.and_then(|c| c.estimate).is_none()
            {
                String::new()
            } else {
                price(results, &variant.name)
            };
            Sentence { variant: variant.name.clone(), verdict, rest: format!("{main}{price}.") }
        })
        .collect()
}

/// The sentence to begin with: the decided variant with the largest change, else the first.
pub(crate) fn headline<'a>(results: &Results, sentences: &'a [Sentence]) -> Option<&'a Sentence> {
    let size = |sentence: &Sentence| {
        facts::conclusion(results, &sentence.variant, &results.primary)
            .filter(|c| !matches!(c.verdict, Verdict::Undecided | Verdict::Equivalent))
            .and_then(|c| c.estimate)
            .map_or(0.0, |estimate| estimate.ratio.abs())
    };
    let mut best = sentences.first()?;
    for sentence in sentences {
        if size(sentence) > size(best) {
            best = sentence;
        }
    }
    Some(best)
}

/// The verdict's word.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Smaller => "smaller",
        Verdict::Larger => "larger",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

/// The verdict's sign: tells verdicts apart without colour.
pub(crate) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Smaller | Verdict::Faster => "▼",
        Verdict::Larger | Verdict::Slower => "▲",
        Verdict::Equivalent => "=",
        Verdict::Undecided => "?",
    }
}

/// Digits after the point that an interval of that width supports; width in percentage points.
pub(crate) fn decimals(width: f64) -> usize {
    match width.abs() {
        wide if wide >= 3.0 => 0,
        wide if wide >= 0.3 => 1,
        _ => 2,
    }
}

/// A signed share in percent: `−21 %`.
pub(crate) fn percent(ratio: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", (ratio * 100.0).abs());
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    let sign = match ratio {
        _ if zero => "",
        below if below < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text} %")
}

/// Estimate and interval: `−21 % (−24 to −18 %)`.
pub(crate) fn estimate(estimate: &Estimate) -> String {
    format!("{} ({})", percent(estimate.ratio, digits(estimate)), interval(estimate))
}

/// The interval alone: `−24 to −18 %`.
pub(crate) fn interval(estimate: &Estimate) -> String {
    let (low, high) = estimate.ratio_interval;
    let places = digits(estimate);
    format!("{} to {}", percent(low, places).trim_end_matches(" %"), percent(high, places))
}

/// What a metric is called inside a sentence.
pub(crate) fn noun(name: &str) -> String {
    let known = match name {
        "memory.rss.final" | "memory.pss.final" => "memory",
        "memory.uss.final" => "private memory",
        "memory.pss.late" | "memory.rss.late" => "memory late in the load",
        "memory.pss.peak" | "memory.rss.peak" => "memory at its peak",
        "memory.pss.ready" | "memory.rss.ready" => "memory before any load",
        "memory.shared.final" => "shared memory",
        "memory.system.final" => "memory of the machine",
        "broadcast.complete.p50" => "median time of a whole broadcast",
        "broadcast.complete.p95" => "p95 of a whole broadcast",
        "broadcast.own.p50" => "median time of one's own broadcast",
        "broadcast.own.p95" => "p95 of one's own broadcast",
        "cpu.server" => "processor time",
        "boot.time" => "boot time",
        "gc.time" => "time in GC",
        "gc.count" => "collections",
        "gc.major.count" => "full collections",
        other => other.strip_prefix("latency.").unwrap_or(other),
    };
    known.to_owned()
}

fn digits(estimate: &Estimate) -> usize {
    decimals((estimate.ratio_interval.1 - estimate.ratio_interval.0) * 100.0)
}

fn primary(results: &Results, conclusion: &Conclusion) -> String {
    let blocks = count_blocks(conclusion.blocks);
    let noun = noun(&conclusion.metric);
    let Some(estimate) = &conclusion.estimate else {
        return format!("cannot be judged yet: {blocks} are too few for an interval of its {noun}");
    };
    match conclusion.verdict {
        Verdict::Equivalent => format!(
            "makes no difference in {noun} that matters ({}, {blocks}; below {} does not matter)",
            interval(estimate),
            percent(results.margin, decimals(results.margin * 100.0)).trim_start_matches('+'),
        ),
        Verdict::Undecided => undecided(conclusion, estimate, &noun),
        _ => {
            let (amount, less) = amount(estimate);
            let word = if less { "less" } else { "more" };
            let baseline =
                results.variants.first().map_or("the baseline", |first| first.name.as_str());
            format!(
                "{} {word} {noun} than {baseline} ({}, {blocks})",
                verb(&conclusion.metric, &amount),
                range(estimate)
            )
        }
    }
}

/// `uses 21 %`, `needs 5 %`, `serves 3 %`: the verb that suits the metric.
fn verb(metric: &str, amount: &str) -> String {
    match metric {
        name if name.starts_with("memory.shared") => format!("shares {amount}"),
        name if name.starts_with("memory.") => format!("uses {amount}"),
        _ => format!("has {amount}"),
    }
}

/// Size of the difference without its sign, and whether it is a decrease.
fn amount(estimate: &Estimate) -> (String, bool) {
    let text = percent(estimate.ratio, digits(estimate));
    (text.trim_start_matches(['−', '+']).to_owned(), estimate.ratio < 0.0)
}

/// The interval in the direction of its estimate: `18 to 24 %` for a decrease, signs only where they differ.
fn range(estimate: &Estimate) -> String {
    let (low, high) = estimate.ratio_interval;
    let places = digits(estimate);
    if low <= 0.0 && high >= 0.0 {
        return interval(estimate);
    }
    let (near, far) = if high < 0.0 { (-high, -low) } else { (low, high) };
    format!("{:.places$} to {:.places$} %", near * 100.0, far * 100.0)
}

fn undecided(conclusion: &Conclusion, estimate: &Estimate, noun: &str) -> String {
    let blocks = count_blocks(conclusion.blocks);
    let mut text = format!("is undecided: its {noun} differs by {} ({blocks})", interval(estimate));
    if let Some(needed) = conclusion.blocks_needed {
        text.push_str(&format!("; about {needed} more blocks would probably decide"));
    } else if let Some(least) = conclusion.detectable {
        let least = percent(least, decimals(least * 100.0));
        text.push_str(&format!(
            "; the whole budget can find differences from {} on",
            least.trim_start_matches('+')
        ));
    }
    text
}

/// What the guards say of a variant's price; empty without guards.
fn price(results: &Results, variant: &str) -> String {
    let (mut free, mut rest) = (Vec::new(), Vec::new());
    for guard in facts::guards(results, variant) {
        let noun = noun(&guard.metric);
        match (guard.guard_passed, &guard.estimate) {
            (Some(true), estimate) if estimate.as_ref().is_none_or(within_noise) => free.push(noun),
            (Some(true), Some(estimate)) => rest.push(format!(
                ", with {noun} {} (within its limit of {})",
                change(&guard.metric, estimate),
                limit(guard)
            )),
            (Some(false), Some(estimate)) => rest.push(format!(
                ", but its {noun} is {}, over the limit of {}",
                change(&guard.metric, estimate),
                limit(guard)
            )),
            (Some(false), None) => {
                rest.push(format!(", but its {noun} is over the limit of {}", limit(guard)))
            }
            (_, Some(estimate)) => rest.push(format!(
                "; whether its {noun} stays within {} is not proven ({})",
                limit(guard),
                interval(estimate)
            )),
            (_, None) => rest.push(format!("; its {noun} could not be compared")),
        }
    }
    let free = match free.as_slice() {
        [] => String::new(),
        [one] => format!(" at no measurable cost in {one}"),
        [firsts @ .., last] => format!(" at no measurable cost in {} or {last}", firsts.join(", ")),
    };
    format!("{free}{}", rest.concat())
}

fn within_noise(estimate: &Estimate) -> bool {
    estimate.ratio_interval.0 <= 0.0 && estimate.ratio_interval.1 >= 0.0
}

/// `3 % higher (1 to 5 %)`.
fn change(metric: &str, estimate: &Estimate) -> String {
    let (amount, less) = amount(estimate);
    let higher_is_better = metric::find(metric).is_some_and(|m| m.better == Better::Higher);
    let word = match (less, higher_is_better) {
        (true, true) => "worse (lower)",
        (false, true) => "better (higher)",
        (true, false) => "lower",
        (false, false) => "higher",
    };
    format!("{amount} {word} ({})", range(estimate))
}

fn limit(guard: &Conclusion) -> String {
    let Role::Guard { limit } = guard.role else { return String::new() };
    percent(limit, decimals(limit * 100.0)).trim_start_matches('+').to_owned()
}

fn count_blocks(blocks: u32) -> String {
    if blocks == 1 { "1 block".into() } else { format!("{blocks} blocks") }
}
