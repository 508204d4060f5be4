//! The verdict as text for a terminal: a line per variant, what limits the figures, and what to do next.

use crate::facts;
use crate::layout::{MIN_WIDTH, NAME, Style, name, push_wrapped};
use crate::machine_text::machines_sentence;
use crate::standing::in_order;
use crate::text::{columns, fill, one_line};
use crate::use_it::UseIt;
use crate::verdict::{FurtherBlocks, OpenVerdict, VerdictRow, VerdictTable};
use carat_model::Results;
use carat_redact::redact_results;
use std::fmt::Write as _;

/// Lines of all warnings together; the others are counted.
const WARNING_LINES: usize = 5;
/// Lines of one warning; it is cut after a whole clause.
const LINES_OF_ONE: usize = 2;
/// Columns before the text of a step to take.
const LABEL: usize = 11;

/// The commands that the reader of a verdict may need next; `None` where the caller does not know one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextCommands {
    /// Continues the experiment.
    pub resume: Option<String>,
    /// Begins the experiment anew; `--blocks N` is appended.
    pub anew: Option<String>,
    /// Says what more blocks can find.
    pub plan: Option<String>,
    /// Where more is said: pages and commands.
    pub details: Vec<String>,
}

/// The verdict in about ten lines, ending with a line feed.
pub fn verdict_text(results: &Results, style: Style, next: &NextCommands) -> String {
    let results = &in_order(redact_results(results, style.audience));
    let style = Style { width: style.width.max(MIN_WIDTH), ..style };
    let verdict = VerdictTable::new(results);
    let mut out = String::new();
    match facts::cause_of_no_result(results) {
        Some(cause) => push_wrapped(&mut out, "! ", &cause, style.width),
        None => push_rows(&mut out, &verdict, style),
    }
    push_warnings(&mut out, &verdict.warnings, style.width);
    if let Some(machines) = machines_sentence(results) {
        push_wrapped(&mut out, "", &one_line(&machines), style.width);
    }
    match &verdict.use_it {
        Some(UseIt::Command { line, left_out }) => {
            push_step(&mut out, "Use it", line);
            left_out.iter().for_each(|what| push_step(&mut out, "", what));
        }
        Some(UseIt::Beyond(what)) => {
            push_step(&mut out, "Use it", &format!("{what}; the experiment file has it"));
        }
        None => verdict.not_yet.iter().for_each(|why| push_step(&mut out, "Use it", why)),
    }
    if let Some(open) = &verdict.open {
        push_step(&mut out, "Decide", &decide(open, next));
    }
    if !next.details.is_empty() {
        push_step(&mut out, "Details", &next.details.join(" · "));
    }
    out
}

/// The command that continues an experiment which ended early: with more blocks where those that it may have cannot decide.
pub fn resume_command(results: &Results, next: &NextCommands) -> Option<String> {
    let open = VerdictTable::new(results).open;
    let added = open.filter(|open| open.further == FurtherBlocks::Added);
    match added {
        Some(open) => with_blocks(&next.resume, &open),
        None => next.resume.clone(),
    }
}

fn with_blocks(command: &Option<String>, open: &OpenVerdict) -> Option<String> {
    command.as_ref().zip(open.blocks).map(|(line, blocks)| format!("{line} --blocks {blocks}"))
}

/// The title, and a line per variant; what has no room beside the figures is on lines of its own.
fn push_rows(out: &mut String, verdict: &VerdictTable, style: Style) {
    push_wrapped(out, "", &one_line(&verdict.title), style.width);
    let cells: Vec<[String; 4]> = verdict.rows.iter().map(cells).collect();
    let widths: [usize; 4] = std::array::from_fn(|at| {
        let cells = cells.iter().map(|row| columns(&row[at]));
        // A long name stands above its row and must not widen the column.
        cells.filter(|columns| at != 0 || *columns <= NAME).max().unwrap_or(0)
    });
    for (row, mut cells) in verdict.rows.iter().zip(cells) {
        let mut sign = row.mark.map_or(" ".to_owned(), |mark| style.paint(mark, mark.sign()));
        if columns(&cells[0]) > NAME {
            let _ = writeln!(out, "{sign} {}", std::mem::take(&mut cells[0]));
            " ".clone_into(&mut sign);
        }
        let [name, figures @ ..] = &cells;
        let mut figures_of_row = padded(name, widths[0], false);
        for (at, cell) in figures.iter().enumerate() {
            // The interval follows its change; the others are aligned to the right.
            let _ = write!(figures_of_row, "  {}", padded(cell, widths[at + 1], at < 2));
        }
        let _ = write!(out, "{sign} ");
        push_extras(out, figures_of_row, &row.beside(), style.width - 2);
    }
    if verdict.rows.len() < 2 {
        out.push_str("One variant only: nothing to compare it with.\n");
    }
}

/// Name, value, change and interval.
fn cells(row: &VerdictRow) -> [String; 4] {
    let interval = match (&row.interval, &row.change) {
        (Some(interval), _) => format!("({interval})"),
        (None, Some(_)) => "so far".to_owned(),
        (None, None) => String::new(),
    };
    let value = row.value.clone().unwrap_or_else(|| "–".to_owned());
    [name(&row.variant), value, row.change.clone().unwrap_or_default(), interval]
}

fn padded(text: &str, width: usize, right: bool) -> String {
    let gap = fill(text, width);
    if right { format!("{gap}{text}") } else { format!("{text}{gap}") }
}

/// Adds the texts to the line, and begins another where one has no room.
fn push_extras(out: &mut String, mut line: String, extras: &[String], width: usize) {
    let extras: Vec<String> = extras.iter().map(|extra| one_line(extra)).collect();
    let widest = extras.iter().map(|extra| columns(extra)).max().unwrap_or(0);
    // If no text fits behind the figures, further lines begin at the left.
    let indent = if columns(&line) + 3 + widest > width { 3 } else { columns(&line) };
    for extra in extras {
        if columns(&line) + 3 + columns(&extra) > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent + 2);
        }
        let _ = write!(line, "   {extra}");
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn push_warnings(out: &mut String, warnings: &[String], width: usize) {
    let mut lines = 0;
    for (shown, warning) in warnings.iter().enumerate() {
        let mut text = String::new();
        push_wrapped(&mut text, "! ", &cut(&one_line(warning), LINES_OF_ONE * (width - 8)), width);
        lines += text.lines().count();
        // The first warning is shown however long it is.
        if lines > WARNING_LINES && shown > 0 {
            let _ = writeln!(out, "! {} more below `--details`", warnings.len() - shown);
            return;
        }
        out.push_str(&text);
    }
}

/// The text up to the last end of a clause within `most` columns; all of it if it is short.
fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let ends = text.match_indices([';', ',']).map(|(at, _)| at);
    // A clause that ends early would lose most of the text.
    let whole = ends.rev().find(|at| columns(&text[..*at]) <= most && *at > most / 2);
    whole.map_or_else(|| crate::text::shorten(text, most), |at| text[..at].to_owned())
}

fn push_step(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "{}{text}", padded(label, LABEL, false));
}

/// `3 blocks cannot decide; 7 can: carat demo --blocks 7`.
fn decide(open: &OpenVerdict, next: &NextCommands) -> String {
    let command = match open.further {
        FurtherBlocks::Allowed => next.resume.clone(),
        FurtherBlocks::Added => with_blocks(&next.resume, open),
        // Where no number is known to suffice, a command with one would be a guess.
        FurtherBlocks::Anew => with_blocks(&next.anew, open).or_else(|| next.plan.clone()),
    };
    command.map_or_else(|| open.text.clone(), |command| format!("{}: {command}", open.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_warning_ends_after_a_whole_clause() {
        let text = "one clause is here, another; and the last one is much too long for the line";
        assert_eq!(cut(text, 40), "one clause is here, another");
        assert_eq!(cut(text, 200), text);
    }

    #[test]
    fn an_undecided_verdict_names_the_command_that_can_decide_it() {
        let next = NextCommands {
            resume: Some("carat demo --resume".into()),
            anew: Some("carat demo".into()),
            plan: Some("carat plan demo.carat".into()),
            details: Vec::new(),
        };
        let text = "3 blocks cannot decide; 7 can".to_owned();
        use FurtherBlocks::{Added, Allowed, Anew};
        for (blocks, further, command) in [
            (Some(7), Anew, ": carat demo --blocks 7"),
            (Some(7), Added, ": carat demo --resume --blocks 7"),
            (Some(7), Allowed, ": carat demo --resume"),
            (None, Anew, ": carat plan demo.carat"),
        ] {
            let expected = format!("{text}{command}");
            let open = OpenVerdict { text: text.clone(), blocks, further };
            assert_eq!(decide(&open, &next), expected);
        }
    }
}
