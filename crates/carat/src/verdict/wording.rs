//! Conclusions in plain words: the difference with its interval and n, then the price.

use crate::model::{Better, Conclusion, Estimate, Role, Unit, Verdict, metric};
use crate::verdict::question::{Family, family};

/// The sentence about one variant: its deciding metrics, then its guards, without a full stop.
///
/// `compact uses 0.8 % less memory (0.5 to 1.1 %, 0.57 MB, 95 % interval, 10 blocks); p95 latency
/// undecided (−1.9 to +2.6 %)`. Conclusions about other variants and exploratory ones are left out.
pub fn sentence(variant: &str, conclusions: &[Conclusion]) -> String {
    let of_variant = || conclusions.iter().filter(|c| c.variant == variant);
    let primaries = of_variant().filter(|c| c.role == Role::Primary).map(primary);
    let guards = of_variant().filter_map(|c| match c.role {
        Role::Guard { limit } => Some(guard(c, limit)),
        _ => None,
    });
    let parts: Vec<String> = primaries.chain(guards).collect();
    if parts.is_empty() {
        return format!("{variant} was not compared");
    }
    format!("{variant} {}", parts.join("; "))
}

/// What a metric is called in a sentence.
pub fn noun(name: &str) -> &str {
    match name {
        "memory.rss.final" | "memory.pss.final" => "memory",
        "memory.rss.late" | "memory.pss.late" => "memory late in the load",
        "memory.rss.peak" | "memory.pss.peak" => "peak memory",
        "memory.rss.ready" | "memory.pss.ready" => "memory before any load",
        "memory.uss.final" => "private memory",
        "memory.shared.final" => "shared memory",
        "memory.system.final" => "of the machine's memory",
        "latency.p50" => "median latency",
        "latency.p95" => "p95 latency",
        "latency.p99" => "p99 latency",
        "latency.max" => "longest latency",
        "broadcast.complete.p50" => "median time of a whole broadcast",
        "broadcast.complete.p95" => "p95 time of a whole broadcast",
        "broadcast.own.p50" => "median time of one's own broadcast",
        "broadcast.own.p95" => "p95 time of one's own broadcast",
        "cpu.server" => "processor time",
        "boot.time" => "boot time",
        "gc.count" => "garbage collections",
        "gc.major.count" => "full garbage collections",
        "gc.time" => "time in garbage collection",
        other => other,
    }
}

fn primary(conclusion: &Conclusion) -> String {
    let noun = noun(&conclusion.metric);
    let Some(estimate) = conclusion.estimate else {
        return format!("is undecided in {noun} ({}, too few for an interval)", blocks(conclusion));
    };
    let sureness = format!("{} interval, {}", share(estimate.confidence), blocks(conclusion));
    match conclusion.verdict {
        Verdict::Equivalent => {
            format!("is equivalent in {noun} ({}, {sureness})", signed_range(conclusion, &estimate))
        }
        Verdict::Undecided => {
            let needed = conclusion
                .blocks_needed
                .map(|more| format!("; about {more} more blocks would decide"))
                .unwrap_or_default();
            format!(
                "is undecided in {noun} ({}, {sureness}{needed})",
                signed_range(conclusion, &estimate)
            )
        }
        _ => format!(
            "{} ({}, {}, {sureness})",
            claim(conclusion, &estimate),
            plain_range(conclusion, &estimate),
            amount(conclusion, &estimate),
        ),
    }
}

fn guard(conclusion: &Conclusion, limit: f64) -> String {
    let noun = noun(&conclusion.metric);
    let Some(estimate) = conclusion.estimate else { return format!("{noun} undecided") };
    let range = signed_range(conclusion, &estimate);
    let limit = format!("{}{}", worse_sign(conclusion), percent(limit, 0.0, conclusion));
    match conclusion.guard_passed {
        Some(true) => format!("{noun} within its limit of {limit} ({range})"),
        Some(false) => format!("{noun} beyond its limit of {limit} ({range})"),
        None => format!("{noun} undecided ({range}, limit {limit})"),
    }
}

/// `uses 0.8 % less memory`, `is 3 % slower in p95 latency`.
fn claim(conclusion: &Conclusion, estimate: &Estimate) -> String {
    let noun = noun(&conclusion.metric);
    let size = percent(estimate.ratio.abs(), width(estimate), conclusion);
    let less = estimate.ratio < 0.0;
    match family(&conclusion.metric) {
        Family::Amount if conclusion.metric.starts_with("memory.") => {
            format!("uses {size} {} {noun}", if less { "less" } else { "more" })
        }
        Family::Amount => format!("has {size} {} {noun}", if less { "fewer" } else { "more" }),
        Family::Time => format!("is {size} {} in {noun}", if less { "faster" } else { "slower" }),
        Family::Work => format!("is {size} {} in {noun}", if less { "slower" } else { "faster" }),
    }
}

/// The difference in the metric's own unit, without a sign: the words before say the direction.
fn amount(conclusion: &Conclusion, estimate: &Estimate) -> String {
    let unit = metric::find(&conclusion.metric).map_or(Unit::Count, |info| info.unit);
    unit.show(estimate.difference.abs())
}

/// `0.5 to 1.1 %` of an interval on one side of 0, smaller size first.
fn plain_range(conclusion: &Conclusion, estimate: &Estimate) -> String {
    let (low, high) = estimate.ratio_interval;
    let (near, far) = if low < 0.0 { (-high, -low) } else { (low, high) };
    let [near, far] = [near, far].map(|end| percent(end, width(estimate), conclusion));
    format!("{} to {far}", near.trim_end_matches(unit_of(conclusion)).trim_end())
}

/// `−1.9 to +2.6 %`.
fn signed_range(conclusion: &Conclusion, estimate: &Estimate) -> String {
    let (low, high) = estimate.ratio_interval;
    let [low, high] = [low, high].map(|end| {
        let size = percent(end.abs(), width(estimate), conclusion);
        let nothing = size.chars().all(|c| !matches!(c, '1'..='9'));
        let sign = if nothing {
            ""
        } else if end < 0.0 {
            "−"
        } else {
            "+"
        };
        format!("{sign}{size}")
    });
    format!("{} to {high}", low.trim_end_matches(unit_of(conclusion)).trim_end())
}

fn width(estimate: &Estimate) -> f64 {
    estimate.ratio_interval.1 - estimate.ratio_interval.0
}

/// A share in percent (percentage points where the metric is itself a share), with as many digits
/// as an interval of that `width` supports; a width of 0 asks for as many as the figure has.
fn percent(share: f64, width: f64, conclusion: &Conclusion) -> String {
    let value = 100.0 * share;
    let unit = unit_of(conclusion);
    if width == 0.0 {
        let rounded = (value * 1e4).round() / 1e4;
        return format!("{rounded} {unit}");
    }
    let digits = match 100.0 * width {
        wide if wide >= 20.0 => 0,
        wide if wide >= 0.3 => 1,
        wide if wide >= 0.03 => 2,
        _ => 3,
    };
    format!("{value:.digits$} {unit}")
}

fn unit_of(conclusion: &Conclusion) -> &'static str {
    match metric::find(&conclusion.metric).map(|info| info.unit) {
        Some(Unit::Fraction) => "points",
        _ => "%",
    }
}

fn worse_sign(conclusion: &Conclusion) -> &'static str {
    match metric::find(&conclusion.metric).map(|info| info.better) {
        Some(Better::Higher) => "−",
        _ => "+",
    }
}

/// A confidence as `95 %` or `96.9 %`.
fn share(confidence: f64) -> String {
    format!("{} %", (confidence * 1e3).round() / 10.0)
}

fn blocks(conclusion: &Conclusion) -> String {
    match conclusion.blocks {
        1 => "1 block".to_owned(),
        n => format!("{n} blocks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conclusion(metric: &str, role: Role, verdict: Verdict, shares: [f64; 3]) -> Conclusion {
        let [low, ratio, high] = shares;
        let estimate = Estimate {
            ratio,
            ratio_interval: (low, high),
            difference: ratio * 71e6,
            difference_interval: (low * 71e6, high * 71e6),
            confidence: 0.95,
        };
        Conclusion {
            variant: "compact".to_owned(),
            metric: metric.to_owned(),
            role,
            verdict,
            estimate: Some(estimate),
            blocks: 10,
            guard_passed: None,
            detectable: None,
            blocks_needed: None,
        }
    }

    #[test]
    fn a_saving_is_said_with_its_interval_its_n_and_its_price() {
        let saving = [-0.0112, -0.008, -0.0049];
        let guard = Role::Guard { limit: 0.05 };
        let mut price =
            conclusion("latency.p95", guard, Verdict::Undecided, [-0.019, 0.004, 0.0576]);
        let all = |price: &Conclusion| {
            let primary = conclusion("memory.pss.final", Role::Primary, Verdict::Smaller, saving);
            sentence("compact", &[primary, price.clone()])
        };
        let saves =
            "compact uses 0.8 % less memory (0.5 to 1.1 %, 0.57 MB, 95 % interval, 10 blocks)";
        assert_eq!(
            all(&price),
            format!("{saves}; p95 latency undecided (−1.9 to +5.8 %, limit +5 %)")
        );
        price.guard_passed = Some(true);
        assert_eq!(
            all(&price),
            format!("{saves}; p95 latency within its limit of +5 % (−1.9 to +5.8 %)")
        );
        price.guard_passed = Some(false);
        assert!(all(&price).contains("beyond its limit of +5 %"));
    }

    #[test]
    fn every_verdict_has_its_words() {
        let primary = |metric, verdict, shares| {
            sentence("compact", &[conclusion(metric, Role::Primary, verdict, shares)])
        };
        for (got, want) in [
            (
                primary("latency.p95", Verdict::Slower, [0.02, 0.03, 0.04]),
                "compact is 3.0 % slower in p95 latency (2.0 to 4.0 %, 2130000.00 s, 95 % interval, 10 blocks)",
            ),
            (
                primary("throughput", Verdict::Slower, [-0.04, -0.03, -0.02]),
                "compact is 3.0 % slower in throughput (2.0 to 4.0 %, 2130000.0/s, 95 % interval, 10 blocks)",
            ),
            (
                primary("memory.rss.final", Verdict::Equivalent, [-0.001, 0.0, 0.002]),
                "compact is equivalent in memory (−0.1 to +0.2 %, 95 % interval, 10 blocks)",
            ),
            (
                primary("memory.rss.final", Verdict::Undecided, [-0.3, -0.1, 0.2]),
                "compact is undecided in memory (−30 to +20 %, 95 % interval, 10 blocks)",
            ),
        ] {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn too_few_blocks_are_said_so() {
        let mut few = conclusion("memory.rss.final", Role::Primary, Verdict::Undecided, [0.0; 3]);
        few.estimate = None;
        few.blocks = 3;
        let want = "compact is undecided in memory (3 blocks, too few for an interval)";
        assert_eq!(sentence("compact", &[few]), want);
        assert_eq!(sentence("other", &[]), "other was not compared");
    }
}
