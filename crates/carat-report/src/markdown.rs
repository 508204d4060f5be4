//! Results as a Markdown comment for a pull request: sentences, a table, and details.

use crate::class_text;
use crate::control_text::control_sentences;
use crate::facts;
use crate::least_text;
use crate::machine::machine_facts;
use crate::moments;
use crate::numbers;
use crate::part_differences::{heading, moment_of_parts, part_differences};
use crate::redact::{Audience, prepare};
use crate::route_figures::route_rows;
use crate::standing::in_order;
use crate::step_figures::step_figures;
use crate::text::{capital, one_line, shorten};
use crate::use_it::UseIt;
use crate::variant_growth_text::growth_lines;
use crate::verdict::{Mark, VerdictTable};
use crate::wording;
use carat_model::{Conclusion, Results, Role, Unit};
use std::fmt::Write as _;

/// Marks the comment, so that a bot can replace it instead of adding another.
pub const MARKER: &str = "<!-- carat -->";

/// Rows of a table at most, because a comment may have 65,536 characters.
const ROWS: usize = 120;

/// The results as GitHub-flavoured Markdown.
pub fn markdown(results: &Results, audience: Audience) -> String {
    let results = &in_order(prepare(results, audience));
    let mut out = format!("{MARKER}\n### {}\n\n", escaped(&results.info.name));
    let verdict = VerdictTable::new(results);
    match facts::cause_of_no_result(results) {
        Some(cause) => {
            let _ = writeln!(out, "**{}**\n", escaped(&cause));
        }
        None => push_verdict(&mut out, &verdict),
    }
    match &verdict.use_it {
        Some(UseIt::Command(command)) => {
            let _ = writeln!(out, "Use it: {}\n", escaped(command));
        }
        Some(UseIt::Beyond(what)) => {
            let _ = writeln!(
                out,
                "To use it, take what the experiment file says: {}.\n",
                escaped(what)
            );
        }
        None => {}
    }
    if let Some(open) = &verdict.open {
        let _ = writeln!(out, "{}.\n", escaped(&open.text));
    }
    for warning in verdict.warnings.iter().take(20) {
        let _ = writeln!(out, "> {}", escaped(warning));
    }
    out.push_str("\n<details><summary>Details</summary>\n\n");
    for sentence in wording::sentences(results).into_iter().chain(control_sentences(results)) {
        let (name, rest) = (escaped(&sentence.variant), escaped(&sentence.rest));
        let _ = writeln!(out, "- {} **{name}** {rest}", sentence.mark.sign());
    }
    push_table(&mut out, results);
    push_parts(&mut out, results);
    if let Some(line) = least_text::line(results) {
        let _ = writeln!(out, "{}.\n", escaped(&capital(&line)));
    }
    push_routes(&mut out, results);
    push_moments(&mut out, results);
    push_classes(&mut out, results);
    push_steps(&mut out, results);
    push_growth(&mut out, results);
    push_context(&mut out, results);
    out
}

/// A row per variant: the same cells as in the terminal and on the page.
fn push_verdict(out: &mut String, verdict: &VerdictTable) {
    let _ = writeln!(out, "{}\n", escaped(&verdict.title));
    out.push_str("| | variant | median | difference | |\n|---|---|--:|--:|---|\n");
    for row in verdict.rows.iter().take(ROWS) {
        let change = match (&row.change, &row.interval) {
            (Some(change), Some(interval)) => format!("{change} ({interval})"),
            (Some(change), None) => format!("{change} so far"),
            (None, _) => String::new(),
        };
        let guards = row.guards.iter().map(|cell| &cell.text);
        let said: Vec<String> =
            row.remark.iter().chain(guards).chain(&row.controls).cloned().collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {change} | {} |",
            row.mark.map_or("", |mark| mark.sign()),
            named(&row.variant),
            row.value.as_deref().unwrap_or("–"),
            escaped(&said.join("; ")),
        );
    }
    out.push('\n');
}

fn push_table(out: &mut String, results: &Results) {
    out.push_str("\n| metric | variant | n | median | difference | |\n|---|---|--:|--:|--:|---|\n");
    let mut metrics = facts::metrics(results);
    metrics.retain(|metric| is_decisive(results, metric));
    let rows = metrics.iter().flat_map(|metric| {
        results.info.variants.iter().map(move |variant| (metric, variant.name.as_str()))
    });
    for (metric, variant) in rows.take(ROWS) {
        let summary = facts::variant_summary(results, variant, metric);
        let found = facts::conclusion(results, variant, metric);
        let median = summary.map_or("–".into(), |s| facts::unit(metric).show(s.median));
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {median} | {}",
            code(metric),
            named(variant),
            summary.map_or(0, |s| s.n),
            found.map_or_else(|| " | |".into(), |found| judged_cells(results, found)),
        );
    }
    out.push('\n');
    push_controls(out, results, &metrics);
}

/// The parts of every variant's memory against those of the baseline; nothing without ledgers.
fn push_parts(out: &mut String, results: &Results) {
    let all = part_differences(results);
    if all.is_empty() {
        return;
    }
    let moment = moment_of_parts(results);
    let _ = writeln!(out, "{}: {}\n", heading(&all), escaped(&moment));
    for one in all.iter().take(ROWS) {
        let (name, sentence) = (named(&one.variant), escaped(&one.sentence()));
        let _ = writeln!(out, "- **{name}**: {sentence}");
    }
    out.push_str("\n| variant | part | baseline → variant | difference |\n|---|---|--:|--:|\n");
    let rows = all.iter().flat_map(|one| {
        let lines = one.lines.iter().chain([&one.all]);
        lines.map(move |line| (one.variant.as_str(), line))
    });
    for (variant, line) in rows.take(ROWS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            named(variant),
            line.line.label(),
            numbers::bytes_change(line.baseline, line.variant),
            numbers::signed_bytes(line.difference(), line.baseline.max(line.variant)),
        );
    }
    out.push('\n');
}

/// Percentiles of each route or step of an HTTP load; nothing if it has only one.
fn push_routes(out: &mut String, results: &Results) {
    let rows = route_rows(results);
    if rows.is_empty() {
        return;
    }
    out.push_str("Every route or step, medians over the trials:\n\n");
    out.push_str("| route or step | variant | n | responses | errors | p50 | p95 | p99 |\n|---|---|--:|--:|--:|--:|--:|--:|\n");
    for row in rows.iter().take(ROWS) {
        let [p50, p95, p99] =
            [row.p50, row.p95, row.p99].map(|seconds| known(Unit::Seconds, seconds));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.0} | {} | {p50} | {p95} | {p99} |",
            escaped(&shorten(&row.name, 120)),
            named(&row.variant),
            row.trials,
            row.responses,
            row.errors,
        );
    }
    out.push('\n');
}

/// The same table for comparisons with controls; nothing without controls.
fn push_controls(out: &mut String, results: &Results, metrics: &[String]) {
    if results.controls.is_empty() {
        return;
    }
    out.push_str("| metric | variant | control | n | difference | |\n|---|---|---|--:|--:|---|\n");
    let all = metrics.iter().flat_map(|metric| facts::against_controls(results, metric));
    for compared in all.take(ROWS) {
        let conclusion = &compared.conclusion;
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {}",
            code(&conclusion.metric),
            named(&conclusion.variant),
            named(&compared.control),
            conclusion.blocks,
            judged_cells(results, conclusion),
        );
    }
    out.push('\n');
}

/// The last two cells of a row: difference and verdict.
fn judged_cells(results: &Results, conclusion: &Conclusion) -> String {
    let difference = conclusion.estimate;
    format!(
        "{} | {} {} |",
        difference.map_or(String::new(), |e| numbers::estimate(&conclusion.metric, &e)),
        Mark::of_conclusion(results, conclusion).sign(),
        wording::word(conclusion.verdict)
    )
}

fn code(metric: &str) -> String {
    metric.replace(['`', '|'], "'")
}

/// Round trips and memory by the number of connections; nothing for a load without steps.
fn push_steps(out: &mut String, results: &Results) {
    let variants = results.info.variants.iter().map(|variant| variant.name.as_str());
    let mut rows = variants
        .flat_map(|name| step_figures(results, name).into_iter().map(move |step| (name, step)))
        .take(ROWS)
        .peekable();
    if rows.peek().is_none() {
        return;
    }
    out.push_str("| variant | connections | complete, p95 | sender's own result, p95 | memory |\n|---|--:|--:|--:|--:|\n");
    for (name, step) in rows {
        let [complete, own] = [step.complete, step.own].map(|value| known(Unit::Seconds, value));
        let (name, memory) = (named(name), known(Unit::Bytes, step.memory));
        let _ = writeln!(out, "| {name} | {} | {complete} | {own} | {memory} |", step.clients);
    }
    out.push('\n');
}

fn known(unit: Unit, value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| unit.show(value))
}

/// The objects by class, a table per variant; nothing without a census.
fn push_classes(out: &mut String, results: &Results) {
    for compared in results.classes.iter().take(ROWS / 10) {
        let heading = escaped(&class_text::heading(results, compared));
        let _ = writeln!(out, "Objects by class, {heading}: {}\n", class_text::EXPLORATORY);
        let _ = writeln!(out, "| {} |\n|---|--:|--:|--:|--:|", class_text::TITLES.join(" | "));
        for [class, numbers @ ..] in class_text::rows(compared) {
            let _ = writeln!(out, "| {} | {} |", named(&class), numbers.join(" | "));
        }
        let _ = writeln!(out, "\nObjects; {}.\n", class_text::bytes_of(compared));
    }
}

/// The memory at each moment; nothing unless the experiment asks for moments.
fn push_moments(out: &mut String, results: &Results) {
    let shown = moments::shown(results);
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(out, "Memory at each moment ({}):\n", moments::EXPLORATORY);
    out.push_str("| moment | variant | n | median | difference |\n|---|---|--:|--:|--:|\n");
    for one in shown.into_iter().take(ROWS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            moments::name(results, one.moment),
            named(&one.variant),
            one.trials,
            Unit::Bytes.show(one.median),
            moments::difference(one.estimate.as_ref()),
        );
    }
    out.push('\n');
}

/// Whether the metric has a conclusion that is not exploratory.
fn is_decisive(results: &Results, metric: &str) -> bool {
    let mut conclusions = results.conclusions.iter().filter(|c| c.metric == metric);
    conclusions.any(|c| !matches!(c.role, Role::Exploratory))
}

/// The growth of every variant over its load; nothing if no run was decided.
fn push_growth(out: &mut String, results: &Results) {
    let Some(growth) = growth_lines(results) else { return };
    let _ = writeln!(out, "{}:\n", escaped(&capital(&growth.title)));
    for (variant, line) in growth.lines.iter().take(ROWS) {
        let _ = writeln!(out, "- **{}** {}", named(variant), escaped(line));
    }
    if let Some(line) = &growth.undecided {
        let _ = writeln!(out, "- {}", escaped(&shorten(line, 2000)));
    }
    out.push('\n');
}

fn push_context(out: &mut String, results: &Results) {
    let _ = writeln!(out, "\n| machine | |\n|---|---|");
    for (key, fact) in machine_facts(results).iter().take(ROWS) {
        let _ = writeln!(out, "| {} | {} |", escaped(key), escaped(&shorten(fact, 200)));
    }
    let _ = writeln!(out, "| seed | {} |\n\n{}\n\n</details>", results.info.seed, numbers::UNITS);
}

/// Characters of a variant's name: a limit for hostile files, which no real name reaches.
const NAME: usize = 300;

fn named(variant: &str) -> String {
    escaped(&shorten(variant, NAME))
}

/// One line with everything escaped that Markdown, HTML or GitHub's mentions would interpret.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    // GitHub turns bare URLs into links.
    out.replace("://", ":&#47;&#47;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_in_the_input_stays_text() {
        for (given, written) in [
            ("a|b\nc", "a\\|b c"),
            ("[x](javascript:1)", "\\[x\\](javascript:1)"),
            ("<img src=x onerror=1>", "&lt;img src=x onerror=1&gt;"),
            ("@everyone `rm`", "&#64;everyone \\`rm\\`"),
            ("http://x.y", "http:&#47;&#47;x.y"),
        ] {
            assert_eq!(escaped(given), written);
        }
    }
}
