//! Writes to the terminal, a pipe or a file.

use anyhow::Context;
use carat_files::{NamedBy, write_file};
use carat_model::{Results, plain, shorten};
use carat_report::{
    Audience, NextCommands, PageOptions, Style, day, shell_line, terminal, verdict_text,
};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Characters of a message: what it quotes, such as a command line, can be of any length.
const MESSAGE: usize = 16_000;

/// Whether to colour the output: only on a terminal, without `NO_COLOR`, and not if `TERM=dumb`.
pub(crate) fn colour(stream: &impl IsTerminal, variable: impl Fn(&str) -> Option<String>) -> bool {
    let off = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = variable("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !off && !dumb
}

/// A variable of carat's environment.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Columns of the terminal; 100 if there is none.
pub(crate) fn width() -> usize {
    // At least 60, because narrower tables cannot be read; the terminal wraps them.
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}

/// Prints data to standard output. It is no error if the reader has closed the pipe.
pub(crate) fn print_data(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// The same for data that is no text.
pub(crate) fn print_bytes(data: &[u8]) -> io::Result<()> {
    match io::stdout().write_all(data) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints the verdict, or every table.
pub(crate) fn print_results(
    results: &Results,
    next: &NextCommands,
    details: bool,
) -> io::Result<()> {
    let colour = colour(&io::stdout(), variable);
    let style = Style { colour, width: width(), ..Style::default() };
    print_report(&match details {
        true => terminal(results, style),
        false => verdict_text(results, style, next),
    })
}

/// The command that prints every table of a results file, with the arguments of another question than its own.
pub(crate) fn details_command(results: &Path, question: &[String]) -> String {
    let words = ["carat", "stats", &results.display().to_string(), "--details"];
    shell_line(&[&words.map(String::from), question].concat())
}

/// Prints a text without colours to standard output. Whatever it quotes, neither a terminal nor a runner of workflows obeys
/// anything in it.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    print_report(&plain(text))
}

/// Prints a report to standard output, which may have colours of its own.
pub(crate) fn print_report(text: &str) -> io::Result<()> {
    print_data(&without_commands(text))
}

/// Prints a message to standard error.
pub(crate) fn print_message(text: &str) {
    // If standard error is closed, there is no other place for messages.
    let _ = writeln!(io::stderr(), "{}", message(text));
}

/// Prints lines to standard error, each of which is carat's own.
pub(crate) fn print_lines<'a>(lines: impl IntoIterator<Item = &'a str>) {
    lines.into_iter().for_each(print_message);
}

/// A message as it is printed. What it quotes may have several lines: they are indented, so that none looks like another
/// message. An empty line before it is its own.
fn message(text: &str) -> String {
    let text = shorten(&plain(text), MESSAGE);
    let (space, text) = match text.strip_prefix('\n') {
        Some(text) => ("\n", text),
        None => ("", text.as_str()),
    };
    let indented: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(at, line)| match at > 0 && !line.is_empty() {
            true => format!("  {line}"),
            false => line.to_owned(),
        })
        .collect();
    // After the indentation, which is not part of what GitHub's runner compares.
    without_commands(&format!("{space}{}", indented.join("\n")))
}

/// The text without the commands that GitHub's runner obeys in the output of any program: lines that begin with `::`, and `##[`
/// anywhere (src/Runner.Common/ActionCommand.cs).
fn without_commands(text: &str) -> String {
    let text = text.replace("##[", "## [");
    let lines = text.split_inclusive('\n').map(|line| match line.trim_start().starts_with("::") {
        true => line.replacen("::", ": :", 1),
        false => line.to_owned(),
    });
    lines.collect()
}

/// Prints an error and its causes to standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    for line in error_lines(error) {
        print_message(&line);
    }
}

/// The error, then every cause that says something new.
fn error_lines(error: &anyhow::Error) -> Vec<String> {
    let mut said = without_number(&error.to_string());
    let mut lines = vec![format!("error: {said}")];
    for cause in error.chain().skip(1) {
        let cause = without_number(&cause.to_string());
        // Causes often repeat what the error above them has said.
        if !said.contains(&cause) {
            lines.push(format!("  caused by: {cause}"));
            said = cause;
        }
    }
    lines
}

/// The text without the numbers of the system's errors, which say nothing beyond their words.
fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((number, rest)) if number.bytes().all(|c| c.is_ascii_digit()) => text + rest,
        _ => text + " (os error " + part,
    })
}

/// Writes a page under the name that the user gave.
pub(crate) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    write_page_named(path, page, NamedBy::User)
}

/// Writes a page beside the file that it is about.
pub(crate) fn write_page_beside(path: &Path, page: &str) -> anyhow::Result<()> {
    write_page_named(path, page, NamedBy::Carat)
}

fn write_page_named(path: &Path, page: &str, named_by: NamedBy) -> anyhow::Result<()> {
    write_file(path, page.as_bytes(), named_by).with_context(|| {
        let path = path.display();
        format!("cannot write the page {path}; check the free space, or use -o to write elsewhere")
    })
}

/// Options of a page written today, for the user or to be shared.
pub(crate) fn page_options(share: bool) -> PageOptions {
    let audience = if share { Audience::Shared } else { Audience::Own };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PageOptions { audience, generated_at: Some(day(now.as_millis() as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> io::Error {
        io::Error::from_raw_os_error(2)
    }

    #[test]
    fn no_line_that_a_message_quotes_looks_like_another_message_or_is_a_command() {
        for (text, printed) in [
            ("note: a", "note: a"),
            ("note: a\nerror: b\n", "note: a\n  error: b"),
            ("\npage  a.html", "\npage  a.html"),
            ("error: at\n\n  |\n1 | x", "error: at\n\n    |\n  1 | x"),
            ("::set-output name=a::b", ": :set-output name=a::b"),
            ("note: a\n ::add-mask::x", "note: a\n   : :add-mask::x"),
            ("note: ##[add-mask]x of A::B", "note: ## [add-mask]x of A::B"),
        ] {
            assert_eq!(message(text), printed, "{text:?}");
        }
        assert_eq!(without_commands("a\n::error::b\n"), "a\n: :error::b\n");
    }

    #[test]
    fn a_cause_is_said_once_and_without_its_number() {
        let said = anyhow::Error::new(missing()).context("cannot read a.toml");
        let expected = ["error: cannot read a.toml", "  caused by: No such file or directory"]
            .map(String::from);
        assert_eq!(error_lines(&said), expected);
        let twice = format!("cannot read a.toml: {}; give another", missing());
        let twice = anyhow::Error::new(missing()).context(twice);
        let once = "error: cannot read a.toml: No such file or directory; give another";
        assert_eq!(error_lines(&twice), [once]);
        assert_eq!(without_number("a (os error x) b"), "a (os error x) b");
    }

    #[test]
    fn a_file_is_never_coloured_whatever_the_environment() {
        let file = tempfile::tempfile().unwrap();
        assert!(!colour(&file, |_| None));
    }
}
