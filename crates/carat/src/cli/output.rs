//! Writing to the user's terminal or into a pipe.

use std::io::{self, IsTerminal, Write};

/// Whether `stream` may be coloured: a terminal, no `NO_COLOR`, not `TERM=dumb`.
pub(crate) fn colour(stream: &impl IsTerminal, variable: impl Fn(&str) -> Option<String>) -> bool {
    let off = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = variable("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !off && !dumb
}

/// A variable of carat's own environment.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Columns of the terminal; 100 where there is none.
pub(crate) fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}

/// Data, to standard output; a reader that went away is not an error.
pub(crate) fn say(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Talk, to standard error.
pub(crate) fn tell(text: &str) {
    // Nobody is left to tell where standard error is closed.
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// An error and its causes, to standard error.
pub(crate) fn complain(error: &anyhow::Error) {
    tell(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        tell(&format!("  caused by: {cause}"));
    }
}

/// Text without control characters: a server's log may hold escape sequences.
fn printable(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{9b}c\n"), "a[31mbc\n");
    }

    #[test]
    fn a_file_is_never_coloured_whatever_the_environment() {
        let file = tempfile::tempfile().unwrap();
        assert!(!colour(&file, |_| None));
    }
}
