//! The terminal's face: verdict sentences, one aligned table, interval bars, warnings that say what to do.

use crate::analysis::growth::{cause, found, innermost_growth};
use crate::core::{
    GrowthKind, PartGrowth, Results, Role, TrackedPart, Unit, VariantGrowth, Verdict,
};
use crate::report::chart::reduce::band;
use crate::report::facts::{self, TrialSummary};
use crate::report::memory_series::{is_resident, memory, memory_series};
use crate::report::numbers;
use crate::report::redact::{Audience, prepare};
use crate::report::text::{columns, one_line, shorten};
use crate::report::wording;
use std::fmt::Write as _;

/// How the terminal wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be written.
    pub colour: bool,
    /// Columns that there are; below 60 counts as 60.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100 }
    }
}

/// The results as text for a terminal, ending with a line feed.
pub fn terminal(results: &Results, style: Style) -> String {
    let results = &prepare(results, Audience::Own);
    let width = style.width.max(60);
    let mut out = String::new();
    for sentence in wording::sentences(results) {
        let sign = style.paint(sentence.verdict, wording::sign(sentence.verdict));
        push_wrapped(&mut out, &format!("{sign} "), &one_line(&sentence.whole()), width);
    }
    if results.header.variants.len() < 2 {
        out.push_str("One variant only: nothing to compare it with.\n");
    }
    for metric in shown_metrics(results) {
        push_metric(&mut out, results, &metric, (style, width));
    }
    push_courses(&mut out, results);
    push_steps(&mut out, results, width);
    push_growth(&mut out, results, width);
    push_context(&mut out, results);
    for warning in &results.warnings {
        push_wrapped(&mut out, "! ", &one_line(warning), width);
    }
    out
}

/// Primary metric and guards; the page has the others.
fn shown_metrics(results: &Results) -> Vec<String> {
    facts::metrics(results)
        .into_iter()
        .filter(|name| {
            *name == results.header.primary
                || results
                    .conclusions
                    .iter()
                    .any(|c| c.metric == *name && matches!(c.role, Role::Guard { .. }))
        })
        .collect()
}

/// One metric's table: a row per variant.
fn push_metric(out: &mut String, results: &Results, metric: &str, (style, width): (Style, usize)) {
    let role = if metric == results.header.primary { "" } else { " (guard)" };
    let _ = writeln!(out, "\n{metric}{role}: {}", facts::heading(metric).to_lowercase());
    let unit = facts::unit(metric);
    let scale = bar_scale(results, metric);
    let mut rows =
        vec![["variant", "n", "median", "middle half", "difference", "", ""].map(String::from)];
    for variant in &results.header.variants {
        let spread = facts::variant_summary(results, &variant.name, metric);
        let conclusion = facts::conclusion(results, &variant.name, metric);
        let estimate = conclusion.and_then(|c| c.estimate.as_ref());
        let show = |pick: fn(&TrialSummary) -> f64| {
            spread.as_ref().map_or("–".into(), |s| unit.show(pick(s)))
        };
        rows.push([
            shorten(&one_line(&variant.name), 28),
            spread.map_or(0, |s| s.n).to_string(),
            show(|s| s.median),
            match &spread {
                Some(s) if s.n > 3 => format!("{} – {}", unit.show(s.lower), unit.show(s.upper)),
                _ => "–".into(),
            },
            estimate.map_or_else(String::new, |e| numbers::estimate(metric, e)),
            estimate.map_or_else(String::new, |e| bar(e.ratio_interval, e.ratio, scale)),
            conclusion.map_or_else(String::new, |c| {
                format!("{} {}", wording::sign(c.verdict), wording::word(c.verdict))
            }),
        ]);
    }
    push_table(out, &rows, width, |row| {
        let name = row
            .checked_sub(1)
            .and_then(|i| results.header.variants.get(i))
            .map(|v| v.name.as_str())?;
        Some((style, facts::conclusion(results, name, metric)?.verdict))
    });
}

/// Columns as wide as their widest cell, numbers to the right; the last two go where the width does not suffice.
fn push_table(
    out: &mut String,
    rows: &[[String; 7]],
    width: usize,
    verdict: impl Fn(usize) -> Option<(Style, Verdict)>,
) {
    let mut widths = [0; 7];
    for row in rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = columns(cell).max(*most);
        }
    }
    let fits = |last: usize| 2 + widths[..last].iter().sum::<usize>() + 2 * (last - 1) <= width;
    let skipped: &[usize] =
        match (fits(7), 2 + widths.iter().sum::<usize>() - widths[3] + 10 <= width) {
            (true, _) => &[],
            (false, true) => &[3],
            (false, false) => &[3, 5],
        };
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate().filter(|(column, _)| !skipped.contains(column))
        {
            let gap = " ".repeat(widths[column].saturating_sub(columns(cell)));
            let painted = match verdict(at).filter(|_| column == 6) {
                Some((style, verdict)) => style.paint(verdict, cell),
                None => cell.clone(),
            };
            match column {
                1..=4 => line.push_str(&format!(" {gap}{painted} ")),
                _ => line.push_str(&format!(" {painted}{gap} ")),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Largest end of any interval of that metric: the half width of every bar.
fn bar_scale(results: &Results, metric: &str) -> f64 {
    results
        .conclusions
        .iter()
        .filter(|c| c.metric == metric)
        .filter_map(|c| c.estimate)
        .flat_map(|e| [e.ratio_interval.0.abs(), e.ratio_interval.1.abs()])
        .fold(0.0, f64::max)
}

/// An interval around zero in 21 columns: `   ├─●─┤  │          `.
fn bar((low, high): (f64, f64), middle: f64, scale: f64) -> String {
    const HALF: f64 = 10.0;
    let place = |ratio: f64| {
        let share = if scale > 0.0 { (ratio / scale).clamp(-1.0, 1.0) } else { 0.0 };
        (HALF + share * HALF).round() as usize
    };
    let (low, high, middle) = (place(low), place(high), place(middle));
    (0..=2 * HALF as usize)
        .map(|column| match column {
            at if at == middle => '●',
            at if at == low => '├',
            at if at == high => '┤',
            at if at > low && at < high => '─',
            10 => '│',
            _ => ' ',
        })
        .collect()
}

/// The median memory over time, a line of blocks per variant, all on one scale from zero.
fn push_courses(out: &mut String, results: &Results) {
    let pick = memory(is_resident(results));
    let bands: Vec<(String, Vec<f64>)> = results
        .header
        .variants
        .iter()
        .map(|variant| {
            let places = band(&memory_series(results, &variant.name, pick), SPARKS);
            let name = shorten(&one_line(&variant.name), 28);
            (name, places.iter().map(|place| place.median).collect())
        })
        .collect();
    let highest = bands.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        return;
    }
    let widest = bands.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    let _ = writeln!(out, "\nmemory over time, from 0 to {}", Unit::Bytes.show(highest));
    for (name, values) in &bands {
        let gap = " ".repeat(widest.saturating_sub(columns(name)));
        let _ = writeln!(out, "  {name}{gap}  {}", sparks(values, highest));
    }
}

/// How long broadcasts take over the steps of the load, a line per variant.
fn push_steps(out: &mut String, results: &Results, width: usize) {
    if results.curves.is_empty() {
        return;
    }
    out.push_str("\ntime until every connection has a broadcast, by number of connections\n");
    for variant in &results.header.variants {
        let of = results.curves.iter().filter(|curve| curve.variant == variant.name);
        let said: Vec<String> = of.map(wording::curve).collect();
        if !said.is_empty() {
            let name = shorten(&one_line(&variant.name), 28);
            push_wrapped(out, "  ", &format!("{name}: {}", said.join("; ")), width);
        }
    }
}

/// What the memory of every variant does over its load, a line each; nothing where the trials are too short for all.
fn push_growth(out: &mut String, results: &Results, width: usize) {
    let told = |growth: &VariantGrowth| {
        let decided = |part: &&PartGrowth| part.kind != GrowthKind::Undecided;
        growth.parts.iter().find(|part| part.part == TrackedPart::Memory).filter(decided).is_some()
            || innermost_growth(&growth.parts).is_some()
    };
    if !results.growth.iter().any(told) {
        return;
    }
    out.push_str("\ngrowth over the load, all trials of a variant together\n");
    for growth in &results.growth {
        let memory = growth.parts.iter().find(|part| part.part == TrackedPart::Memory);
        let said = memory.map_or_else(String::new, found);
        let cause = cause(&growth.parts).map(|cause| format!("; {cause}")).unwrap_or_default();
        let name = shorten(&one_line(&growth.variant), 28);
        push_wrapped(out, "  ", &format!("{name} {said}{cause}"), width);
    }
}

/// Places of a line of blocks.
const SPARKS: usize = 40;

fn sparks(values: &[f64], highest: f64) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let block = |value: &f64| {
        let share = (value / highest).clamp(0.0, 1.0);
        BLOCKS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    values.iter().map(block).collect()
}

fn push_context(out: &mut String, results: &Results) {
    let blocks: std::collections::BTreeSet<u32> =
        results.trials.iter().filter(|trial| trial.block > 0).map(|trial| trial.block).collect();
    let confidence = results.conclusions.iter().find_map(|c| c.estimate).map(|e| e.confidence);
    let _ = write!(
        out,
        "\n{} of at most {} blocks, order drawn with seed {}",
        blocks.len(),
        results.header.max_blocks,
        results.header.seed
    );
    if let Some(confidence) = confidence {
        let _ = write!(out, ", intervals at {:.0} %", confidence * 100.0);
    }
    out.push_str(".\n");
    for variant in &results.header.variants {
        if let Some(failures) = facts::failures(results, &variant.name) {
            let _ = writeln!(
                out,
                "! {}: trials that do not count: {failures}",
                one_line(&variant.name)
            );
        }
        for note in facts::notes(results, &variant.name) {
            let _ = writeln!(out, "! {}: {}", one_line(&variant.name), one_line(&note));
        }
    }
}

fn push_wrapped(out: &mut String, start: &str, text: &str, width: usize) {
    out.push_str(start);
    let mut used = 2;
    for (at, word) in text.split(' ').enumerate() {
        let length = columns(word);
        if at > 0 && used + 1 + length > width {
            out.push_str("\n  ");
            used = 2;
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

impl Style {
    fn paint(self, verdict: Verdict, text: &str) -> String {
        let code = match verdict {
            _ if !self.colour => return text.to_owned(),
            Verdict::Smaller | Verdict::Faster => "32",
            Verdict::Larger | Verdict::Slower => "31",
            Verdict::Equivalent => "36",
            Verdict::Undecided => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_blocks_is_highest_where_the_memory_is() {
        assert_eq!(sparks(&[0.0, 25.0, 50.0, 100.0], 100.0), "▁▂▄█");
    }

    #[test]
    fn an_interval_bar_shows_where_zero_is() {
        assert_eq!(bar((-0.24, -0.18), -0.21, 0.24), "├●─┤      │          ");
        assert_eq!(bar((-0.1, 0.1), 0.05, 0.2), "     ├───────●─┤     ");
    }
}
