//! A running `psql`, which knows every way to reach a PostgreSQL: addresses, sockets, services, TLS, passwords.
//!
//! A client library would bring an asynchronous runtime into the generator.

use crate::target::credentials;
use crate::text::printable;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two columns; no value has it.
const COLUMN: char = '\u{1f}';
/// Longest line in bytes.
const LINE_MAX: u64 = 64 * 1024;
/// Lines that may wait until they are taken.
const LINES_AT_ONCE: usize = 1024;
const LATE: &str = "PostgreSQL did not answer in time";
/// Begins the line that follows the answer to a statement.
const END: &str = "carat-end-of-answer";

/// A connection to PostgreSQL.
#[derive(Debug)]
pub(super) struct Psql {
    child: Child,
    /// Statements for the thread that writes them: psql reads nothing while the server does not answer.
    statements: SyncSender<String>,
    lines: Receiver<String>,
    timeout: Duration,
}

impl Psql {
    /// # Errors
    /// If `psql` cannot be started; that the server cannot be reached shows with the first statement.
    pub(super) fn open(url: &str, timeout: Duration) -> Result<Self, String> {
        let mut command = Command::new("psql");
        // A password in an argument would be visible to every user of the machine.
        if has_password_in_query(url) {
            return Err("the URL has its password behind `?`, where every user of the machine would see it; \
                        write postgresql://USER:PASSWORD@HOST/DATABASE".to_owned());
        }
        let [_, password] = credentials(url);
        command.envs(password.map(|password| ("PGPASSWORD", password)));
        let without = without_password(url);
        // `-X`: no psqlrc, whose settings would change the output. `-w`: never ask for a password.
        command.args(["-X", "-q", "-A", "-t", "-w", "-F", &COLUMN.to_string(), "-d", &without]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| {
            format!("cannot start psql: {error}; install PostgreSQL's client (postgresql-client)")
        };
        let mut child = command.spawn().map_err(failed)?;
        let gone = || "psql has no pipes".to_owned();
        let input = child.stdin.take().ok_or_else(gone)?;
        // One statement may wait. The thread blocks in its place if psql does not read.
        let (statements, written) = mpsc::sync_channel(1);
        thread::spawn(move || write_statements(input, &written));
        let (send, lines) = mpsc::sync_channel(LINES_AT_ONCE);
        for (pipe, prefix) in [
            (child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), ""),
            (child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), "psql: "),
        ] {
            let (pipe, send) = (pipe.ok_or_else(gone)?, send.clone());
            thread::spawn(move || {
                read_lines(pipe, |line| send.send(format!("{prefix}{line}")).is_ok())
            });
        }
        Ok(Self { child, statements, lines, timeout })
    }

    /// The rows of a statement.
    ///
    /// # Errors
    /// What PostgreSQL or psql says.
    pub(super) fn rows(&mut self, statement: &str) -> Result<Vec<Vec<String>>, String> {
        // `:ERROR` says whether the last statement failed (psql(1)); the line marks its end.
        let text = format!("{statement};\n\\echo {END} :ERROR\n");
        match self.statements.try_send(text) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(LATE.to_owned()),
            Err(TrySendError::Disconnected(_)) => return Err(self.explained(None)),
        }
        let deadline = Instant::now() + self.timeout;
        let (mut rows, mut problem) = (Vec::new(), None);
        loop {
            // Rows and errors come from two threads, so only a deadline ends a silent server.
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match (line.strip_prefix(END), line.strip_prefix("psql: ")) {
                    (Some(error), _) if error.trim() == "false" => return Ok(rows),
                    (Some(_), _) => return Err(self.explained(problem)),
                    (None, Some(said)) => {
                        problem.get_or_insert_with(|| printable(said.as_bytes()));
                    }
                    (None, None) => rows.push(line.split(COLUMN).map(str::to_owned).collect()),
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err(LATE.to_owned());
                }
                // Both readers have ended, and with them psql.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(problem.unwrap_or_else(|| "psql ended".to_owned()));
                }
            }
        }
    }

    /// The reason of a failed statement, which may arrive after its end because it has a pipe of its own.
    fn explained(&self, problem: Option<String>) -> String {
        let said = problem.or_else(|| {
            let line = self.lines.recv_timeout(Duration::from_secs(1)).ok()?;
            Some(printable(line.trim_start_matches("psql: ").as_bytes()))
        });
        said.unwrap_or_else(|| "PostgreSQL refused a statement".to_owned())
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        // A statement may still run; without the kill the drop would wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes statements until psql ends.
fn write_statements(mut input: ChildStdin, statements: &Receiver<String>) {
    for text in statements {
        if input.write_all(text.as_bytes()).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(pipe: impl Read, mut take: impl FnMut(&str) -> bool) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    // A longer line comes in pieces, so that none fills memory.
    while let Ok(1..) = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
        if !take(String::from_utf8_lossy(&line).trim_end_matches('\n')) {
            return;
        }
        line.clear();
    }
}

fn has_password_in_query(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|part| matches!(part.split('=').next(), Some("password" | "sslpassword")))
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        // The last `@`: a password may contain one.
        Some((secret, host)) => {
            let user = secret.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{}", &rest[end..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_an_argument() {
        for (url, expected) in [
            ("postgresql://u:p@h:1/d?x=y", "postgresql://u@h:1/d?x=y"),
            ("postgresql:///d?host=/run", "postgresql:///d?host=/run"),
            ("postgresql://h/a@b", "postgresql://h/a@b"),
        ] {
            assert_eq!(without_password(url), expected);
            assert!(!has_password_in_query(url));
        }
        assert!(has_password_in_query("postgresql:///d?host=/run&password=hunter2"));
    }
}
