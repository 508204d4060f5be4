//! Results as a Markdown comment for a pull request: sentences, a table, and details.

use crate::control_text::control_sentences;
use crate::details::{DetailSection, sections};
use crate::facts;
use crate::machine::machine_facts;
use crate::numbers;
use crate::standing::in_order;
use crate::table::{ColumnPlace, FactTable};
use crate::text::{capital, one_line, settings_text, shorten};
use crate::use_it::UseIt;
use crate::verdict::VerdictTable;
use crate::wording;
use carat_model::Results;
use carat_redact::{Audience, redact_results};
use std::fmt::Write as _;

/// Marks the comment, so that a bot can replace it instead of adding another.
pub const MARKER: &str = "<!-- carat -->";

/// Rows of a table at most, because a comment may have 65,536 characters.
const ROWS: usize = 120;

/// Characters of a line.
const TEXT: usize = 2000;

/// The results as GitHub-flavoured Markdown.
pub fn markdown(results: &Results, audience: Audience) -> String {
    let results = &in_order(redact_results(results, audience));
    let mut out = format!("{MARKER}\n### {}\n\n", escaped(&results.info.name));
    let verdict = VerdictTable::new(results);
    match facts::cause_of_no_result(results) {
        Some(cause) => out += &format!("**{}**\n\n", escaped(&cause)),
        None => push_verdict(&mut out, &verdict),
    }
    let use_it = match &verdict.use_it {
        Some(UseIt::Command { line, left_out }) => {
            let left_out = left_out.iter().map(|what| format!(" {}", escaped(what)));
            Some(format!("Use it: {}{}", as_code(line), left_out.collect::<String>()))
        }
        Some(UseIt::Beyond(what)) => {
            let what = escaped(what);
            Some(format!("To use it, take what the experiment file says: {what}."))
        }
        None => verdict.not_yet.as_ref().map(|why| format!("Use it: {}.", escaped(why))),
    };
    let open = verdict.open.as_ref().map(|open| escaped(&open.text) + ".");
    out.extend(use_it.into_iter().chain(open).map(|paragraph| paragraph + "\n\n"));
    for warning in verdict.warnings.iter().take(20) {
        let _ = writeln!(out, "> {}", escaped(warning));
    }
    out.push_str("\n<details><summary>Details</summary>\n\n");
    for sentence in wording::sentences(results).into_iter().chain(control_sentences(results)) {
        let (name, rest) = (escaped(&sentence.variant), escaped(&sentence.rest));
        let _ = writeln!(out, "- {} **{name}** {rest}", sentence.mark.sign());
    }
    for section in sections(results) {
        push_section(&mut out, &section);
    }
    push_settings(&mut out, results);
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
        let _ = writeln!(
            out,
            "| {} | {} | {} | {change} | {} |",
            row.mark.map_or("", |mark| mark.sign()),
            named(&row.variant),
            row.value.as_deref().unwrap_or("–"),
            escaped(&row.beside().join("; ")),
        );
    }
    out.push('\n');
}

/// Heading, lines and tables of a section.
fn push_section(out: &mut String, section: &DetailSection) {
    let _ = writeln!(out, "\n{}", escaped(&capital(&section.heading)));
    if !section.lines.is_empty() {
        out.push('\n');
    }
    for line in section.lines.iter().take(ROWS) {
        let name = line.variant.as_deref().map(|name| format!("**{}**", named(name)));
        let text = escaped(&shorten(&line.text, TEXT));
        let _ = writeln!(out, "- {}{text}", name.unwrap_or_default());
    }
    for table in section.tables.iter().take(ROWS / 10) {
        if section.tables.len() > 1 {
            let _ = writeln!(out, "\n{}", escaped(&table.label));
        }
        push_table(out, table);
    }
}

fn table_line(cells: Vec<String>) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn push_table(out: &mut String, table: &FactTable) {
    let shown = table.shown(|place| place == ColumnPlace::Everywhere);
    let titles = shown.iter().map(|at| escaped(&table.columns[*at].title)).collect();
    let _ = write!(out, "\n{}|", table_line(titles));
    for at in &shown {
        out.push_str(if table.columns[*at].right() { "--:|" } else { "---|" });
    }
    out.push('\n');
    for row in table.rows.iter().take(ROWS) {
        out.push_str(&table_line(shown.iter().map(|at| named(&row[*at].text)).collect()));
    }
}

/// What every variant sets, also by a profile, which need not set the same in another version.
fn push_settings(out: &mut String, results: &Results) {
    out.push_str("\n| variant | settings |\n|---|---|\n");
    for variant in results.info.variants.iter().take(ROWS) {
        let settings = shorten(&settings_text(variant, "="), TEXT);
        let _ = writeln!(out, "| {} | {} |", named(&variant.name), escaped(&settings));
    }
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

/// A line of a shell as code, in which nothing but a backtick has a meaning.
fn as_code(line: &str) -> String {
    // A backtick would end the code, and the rest be read as Markdown.
    if line.contains('`') { escaped(line) } else { format!("`{}`", one_line(line)) }
}

/// One line with everything escaped that Markdown, HTML or GitHub's mentions would interpret.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // GitHub notifies whoever is mentioned.
            '@' => out.push_str("&#64;"),
            // Everything that could begin emphasis, code, a link, a table cell or a heading.
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
    fn a_command_is_code_unless_it_could_end_it() {
        assert_eq!(as_code("carat exec a_b=2 -- puma"), "`carat exec a_b=2 -- puma`");
        assert_eq!(as_code("carat exec 'a`b'"), "carat exec 'a\\`b'");
    }

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
