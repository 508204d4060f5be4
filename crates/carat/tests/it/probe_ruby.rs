//! A real Ruby with the probe that evaluates line after line, for the tests of the probe.

use carat::target::{Libraries, library};
use carat_proc::observe::ProbePage;
use carat_wire::env;
use carat_wire::page::PageReading;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Deadline of every wait, far beyond what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Evaluates each line of its input and prints one line.
const SERVER: &str = r#"
    $stdout.sync = true
    puts $$
    while (line = $stdin.gets)
      puts eval(line, TOPLEVEL_BINDING).to_s.lines.first.to_s.chomp
    end
"#;

/// Unpacked libraries and a directory for pages.
pub(crate) struct Bench {
    pub(crate) home: TempDir,
    pub(crate) libraries: Libraries,
    pub(crate) pages: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let libraries = library::unpack(&home.path().join("carat")).unwrap();
        let pages = home.path().join("pages");
        fs::create_dir(&pages).unwrap();
        Self { home, libraries, pages }
    }

    /// Makes a Ruby load the probe.
    pub(crate) fn watch<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("RUBYOPT", format!("-r{}", self.libraries.shim.display()))
            .env(env::PROBE, &self.libraries.probe)
            .env(env::PAGES, &self.pages)
            .env_remove(env::OFF)
            .env_remove(env::RUNTIME)
    }

    /// Starts a Ruby that evaluates its input.
    pub(crate) fn start(&self, mut command: Command) -> Ruby<'_> {
        self.watch(&mut command).args(["-e", SERVER]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap_or_else(|_| panic!("no pid but {line:?}"));
        Ruby { bench: self, child, stdin, stdout, pid }
    }

    /// The page of a process, once it is complete.
    pub(crate) fn page(&self, pid: u32) -> ProbePage {
        let start = format!("{pid}-");
        wait_for(&format!("a page of {pid}"), || {
            let entries = fs::read_dir(&self.pages).unwrap().map(|entry| entry.unwrap());
            let mut own = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&start));
            ProbePage::open(&own.next()?.path()).filter(|page| page.read().is_some())
        })
    }

    /// New figures of a process.
    pub(crate) fn ask(&self, pid: u32) -> PageReading {
        let page = self.page(pid);
        page.request();
        wait_for(&format!("an answer of {pid}"), || {
            page.read().filter(|reading| {
                reading.served_by_ruby == reading.requested && reading.served == reading.requested
            })
        })
    }
}

/// Waits until `find` returns something.
pub(crate) fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < until, "{what} did not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running Ruby; it ends when its input is closed.
pub(crate) struct Ruby<'a> {
    bench: &'a Bench,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) pid: u32,
}

impl<'a> Ruby<'a> {
    pub(crate) fn bench(&self) -> &'a Bench {
        self.bench
    }

    /// The value of a line of Ruby, as text.
    pub(crate) fn eval(&mut self, line: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "Ruby ended at {line:?}: {}", self.talk());
        answer.trim_end().to_owned()
    }

    /// New figures.
    pub(crate) fn ask(&self) -> PageReading {
        self.bench.ask(self.pid)
    }

    /// Ends it and returns its stderr.
    pub(crate) fn end(mut self) -> String {
        self.stdin = None;
        let status = self.child.wait().unwrap();
        let talk = self.talk();
        assert!(status.success(), "{status}: {talk}");
        talk
    }

    fn talk(&mut self) -> String {
        self.child.stderr.take().map(|e| std::io::read_to_string(e).unwrap()).unwrap_or_default()
    }
}

impl Drop for Ruby<'_> {
    fn drop(&mut self) {
        // It would end without input, but a failed test must not wait for that.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
