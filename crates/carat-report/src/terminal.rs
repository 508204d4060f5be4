//! Results in detail as text for a terminal: verdict sentences, then sections of lines and tables.

use crate::control_text::control_sentences;
use crate::details::{DetailSection, sections};
use crate::facts;
use crate::layout::{MIN_WIDTH, NAME, Style, VARIANTS, name, push_wrapped, table_text};
use crate::machine_text::machines_sentence;
use crate::memory_series::{is_resident, memory, memory_band};
use crate::numbers;
use crate::standing::in_order;
use crate::text::{columns, fill, one_line};
use crate::verdict::warnings;
use crate::wording;
use carat_model::{Results, Unit};
use carat_redact::redact_results;
use std::fmt::Write as _;

/// Columns of a sparkline.
const SPARKS: usize = 40;

/// Every fact that the results have for a terminal, ending with a line feed.
pub fn terminal(results: &Results, style: Style) -> String {
    let results = &in_order(redact_results(results, style.audience));
    let style = Style { width: style.width.max(MIN_WIDTH), ..style };
    let mut out = String::new();
    if let Some(cause) = facts::cause_of_no_result(results) {
        push_wrapped(&mut out, "! ", &cause, style.width);
    }
    for sentence in wording::sentences(results).into_iter().chain(control_sentences(results)) {
        let sign = style.paint(sentence.mark, sentence.mark.sign());
        push_wrapped(&mut out, &format!("{sign} "), &one_line(&sentence.whole()), style.width);
    }
    if results.info.variants.len() < 2 {
        out.push_str("One variant only: nothing to compare it with.\n");
    }
    for section in sections(results) {
        push_section(&mut out, &section, style);
    }
    push_memory(&mut out, results);
    push_context(&mut out, results, style.width);
    for warning in warnings(results) {
        push_wrapped(&mut out, "! ", &one_line(&warning), style.width);
    }
    out
}

fn push_section(out: &mut String, section: &DetailSection, style: Style) {
    out.push('\n');
    push_wrapped(out, "", &one_line(&section.heading), style.width);
    for line in &section.lines {
        let variant = line.variant.as_deref().map(name).unwrap_or_default();
        push_wrapped(out, "  ", &one_line(&format!("{variant}{}", line.text)), style.width);
    }
    for table in &section.tables {
        if section.tables.len() > 1 {
            push_wrapped(out, "  ", &one_line(&table.label), style.width);
        }
        out.push_str(&table_text(table, style, VARIANTS));
    }
}

/// The median memory over time as a sparkline per variant, all on one scale from zero.
fn push_memory(out: &mut String, results: &Results) {
    let figure = memory(is_resident(results));
    let variants = results.info.variants.iter();
    let medians = variants.map(|variant| {
        let points = memory_band(results, &variant.name, figure, SPARKS);
        (name(&variant.name), points.iter().map(|point| point.median).collect())
    });
    let medians: Vec<(String, Vec<f64>)> = medians.collect();
    let highest = medians.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    // Nothing was sampled, or only zeros: no scale.
    if highest <= 0.0 {
        return;
    }
    let short = medians.iter().map(|(name, _)| columns(name)).filter(|columns| *columns <= NAME);
    let widest = short.max().unwrap_or(0);
    let _ = writeln!(out, "\nmemory over time, from 0 to {}", Unit::Bytes.show(highest));
    for (mut name, values) in medians {
        if columns(&name) > NAME {
            let _ = writeln!(out, "  {}", std::mem::take(&mut name));
        }
        let gap = fill(&name, widest);
        let _ = writeln!(out, "  {name}{gap}  {}", sparkline(&values, highest));
    }
}

fn sparkline(values: &[f64], highest: f64) -> String {
    values.iter().map(|value| block(value / highest)).collect()
}

fn block(share: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // Rounded up: what is above zero has at least the lowest block.
    BLOCKS[((share.clamp(0.0, 1.0) * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

fn push_context(out: &mut String, results: &Results, width: usize) {
    let (blocks, seed) = (facts::blocks(results, facts::is_scored).len(), results.info.seed);
    let most = numbers::count(results.info.max_blocks, "block");
    let _ = write!(out, "\n{blocks} of at most {most}, order drawn with seed {seed}");
    if let Some(level) = numbers::primary_level(results) {
        let _ = write!(out, ", intervals at {level}");
    }
    let _ = writeln!(out, ".\n{}", numbers::UNITS);
    if let Some(machines) = machines_sentence(results) {
        push_wrapped(out, "", &one_line(&machines), width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_highest_at_the_highest_memory() {
        assert_eq!(sparkline(&[0.0, 25.0, 50.0, 100.0], 100.0), "▁▂▄█");
    }
}
