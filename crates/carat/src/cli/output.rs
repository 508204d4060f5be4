//! Writes to the terminal, a pipe or a file.

use crate::report::{Audience, PageOptions, day};
use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}

/// Prints data to standard output. It is no error if the reader has closed the pipe.
pub(crate) fn print_data(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a message to standard error.
pub(crate) fn print_message(text: &str) {
    // If standard error is closed, there is no other place for messages.
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// Prints an error and its causes to standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    print_message(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        print_message(&format!("  caused by: {cause}"));
    }
}

/// Writes a page, all of it or nothing.
pub(crate) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    write_atomically(path, page.as_bytes()).with_context(|| {
        let path = path.display();
        format!("cannot write the page {path}; check the free space, or use -o to write elsewhere")
    })
}

/// Writes a file beside `path`, or beside what the link `path` leads to, and renames it. What a killed carat left there is
/// overwritten. Into a pipe or a device it writes: a rename by root would leave every program a file as its `/dev/null`.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = path.as_os_str().to_owned();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    let _ = std::fs::remove_file(&partial);
    let written = File::create_new(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// Options of a page written today, for the user or to be shared.
pub(crate) fn page_options(share: bool) -> PageOptions {
    let audience = if share { Audience::Shared } else { Audience::Own };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PageOptions { audience, generated_at: Some(day(now.as_millis() as u64)) }
}

/// The text without control characters, because a server's log may contain escape sequences.
fn printable(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{9b}c\n"), "a[31mbc\n");
    }

    #[test]
    fn a_file_is_never_coloured_whatever_the_environment() {
        let file = tempfile::tempfile().unwrap();
        assert!(!colour(&file, |_| None));
    }

    #[test]
    fn a_pipe_or_device_is_written_to_and_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        // Opened for reading and writing, it needs no second process.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let mut reader = options.open(&pipe).unwrap();
        write_atomically(&pipe, b"page").unwrap();
        let mut read = [0; 4];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"page");
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_link_stays_and_the_file_behind_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [page, link] = ["page", "link"].map(|name| folder.path().join(name));
        std::fs::write(&page, "old").unwrap();
        std::os::unix::fs::symlink("page", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "new");
    }
}
