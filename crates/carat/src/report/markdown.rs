//! The face for a comment under a pull request: sentences, one table, details folded.

use crate::core::{Results, Role};
use crate::report::facts;
use crate::report::machine::machine_facts;
use crate::report::numbers;
use crate::report::redact::{Audience, prepare};
use crate::report::text::{one_line, shorten};
use crate::report::wording;
use std::fmt::Write as _;

/// A line that marks the comment, so that a bot can replace it instead of adding another.
pub const MARKER: &str = "<!-- carat -->";

/// The most rows of a table: a comment may have 65,536 characters.
const ROWS: usize = 120;

/// The results as GitHub-flavoured Markdown.
pub fn markdown(results: &Results, audience: Audience) -> String {
    let results = &prepare(results, audience);
    let mut out = format!("{MARKER}\n### {}\n\n", escaped(&results.header.name));
    for sentence in wording::sentences(results) {
        let sign = wording::sign(sentence.verdict);
        let _ = writeln!(
            out,
            "- {sign} **{}** {}",
            escaped(&sentence.variant),
            escaped(&sentence.rest)
        );
    }
    push_table(&mut out, results);
    for warning in results.warnings.iter().take(20) {
        let _ = writeln!(out, "> {}", escaped(warning));
    }
    push_context(&mut out, results);
    out
}

fn push_table(out: &mut String, results: &Results) {
    out.push_str("\n| metric | variant | n | median | difference | |\n|---|---|--:|--:|--:|---|\n");
    let rows = facts::metrics(results).into_iter().flat_map(|metric| {
        results.header.variants.iter().map(move |variant| (metric.clone(), variant.name.as_str()))
    });
    let compared = |metric: &str| {
        results
            .conclusions
            .iter()
            .any(|c| c.metric == metric && !matches!(c.role, Role::Exploratory))
    };
    for (metric, variant) in rows.filter(|(metric, _)| compared(metric)).take(ROWS) {
        let spread = facts::variant_summary(results, variant, &metric);
        let found = facts::conclusion(results, variant, &metric);
        let median = spread.map_or("–".into(), |s| facts::unit(&metric).show(s.median));
        let difference = found.and_then(|c| c.estimate);
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {median} | {} | {} |",
            metric.replace(['`', '|'], "'"),
            escaped(&shorten(variant, 60)),
            spread.map_or(0, |s| s.n),
            difference.map_or(String::new(), |e| numbers::estimate(&metric, &e)),
            found.map_or(String::new(), |c| format!(
                "{} {}",
                wording::sign(c.verdict),
                wording::word(c.verdict)
            )),
        );
    }
    out.push('\n');
}

fn push_context(out: &mut String, results: &Results) {
    for variant in &results.header.variants {
        if let Some(failures) = facts::failures(results, &variant.name) {
            let _ =
                writeln!(out, "> {}: trials that do not count: {failures}", escaped(&variant.name));
        }
    }
    let _ = writeln!(out, "\n<details><summary>Machine</summary>\n\n| | |\n|---|---|");
    for (key, fact) in machine_facts(results).iter().take(ROWS) {
        let _ = writeln!(out, "| {} | {} |", escaped(key), escaped(&shorten(fact, 200)));
    }
    let _ = writeln!(out, "| seed | {} |\n\n</details>", results.header.seed);
}

/// On one line, with everything escaped that Markdown, GitHub's HTML or mentions would obey.
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
    // Bare addresses become links by themselves otherwise.
    out.replace("://", ":&#47;&#47;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_from_elsewhere_stays_text() {
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
