//! Runs the real program in a temporary folder, with a deadline.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Deadline of every wait, far beyond what a loaded machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The end of an experiment file: two variants that behave alike, one block of them, and keys of `[trials]` may follow.
pub(crate) const TWO_VARIANTS: &str = r#"[[variant]]
name = "default"
[[variant]]
name = "arenas"
settings = { arena_max = 2 }
[trials]
max = 1
seed = 3"#;

/// Server and load of an experiment on simulated servers; keys of `[load.http]` may follow.
pub(crate) const FAKE_LOAD: &str = r#"[server]
command = ["true"]
ready = { tcp = true }
[load.http]
path = "/"
requests = 1
"#;

/// An experiment with two variants on simulated servers; tables, of a third variant too, may follow.
pub(crate) fn fake_experiment(name: &str, tables: &str) -> String {
    let variants = "[[variant]]\nname = \"default\"\n[[variant]]\nname = \"other\"\n";
    format!("name = \"{name}\"\n{FAKE_LOAD}{variants}{tables}")
}

/// A temporary folder for one test; it is kept if the test fails.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            tempfile::Builder::new().prefix(&format!("test-{name}-")).tempdir().unwrap().keep();
        fs::create_dir(path.join("tmp")).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The real program, in this folder, with its own temporary directory.
    pub(crate) fn carat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carat"));
        command
            .args(arguments)
            .current_dir(&self.path)
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env("CARAT_TEST_MARK", self.mark())
            .env_remove("RUBYOPT")
            .stdin(Stdio::null());
        command
    }

    /// Runs it until it ends.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.carat(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The value of `CARAT_TEST_MARK` in the environment of every process started here.
    pub(crate) fn mark(&self) -> String {
        self.path.display().to_string()
    }

    /// Command lines of the processes that have the mark; the test itself has none.
    pub(crate) fn processes(&self) -> Vec<String> {
        let lines =
            self.pids().into_iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")));
        lines.map(|line| line.unwrap_or_default().replace('\0', " ")).collect()
    }

    /// Pids of the processes that have the mark.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let wanted = format!("CARAT_TEST_MARK={}", self.mark());
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes())
        })
        .collect()
    }

    /// Fails unless within the deadline no process and no private directory is left.
    pub(crate) fn assert_nothing_left(&self) {
        wait_until("nothing is left", || {
            self.processes().is_empty() && self.private_directories().is_empty()
        });
    }

    /// Contents of the temporary directory.
    pub(crate) fn private_directories(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).unwrap().filter_map(Result::ok);
        entries.map(|entry| entry.path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("the folder is kept: {}\n", self.path.display()).as_bytes(),
            );
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A process and everything that it started; ended when dropped.
#[derive(Debug)]
pub(crate) struct Group(pub(crate) Child);

impl Group {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.process_group(0).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) talk: String,
}

impl Ran {
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.talk);
        self
    }

    pub(crate) fn assert_says(&self, text: &str) -> &Self {
        let all = format!("{}{}", self.out, self.talk);
        assert!(all.contains(text), "no `{text}` in:\n{all}");
        self
    }
}

/// Waits for a child, with the deadline of every wait.
pub(crate) fn finish(child: Child) -> Ran {
    finish_within(PATIENCE, child)
}

/// Waits for a child that may need longer.
pub(crate) fn finish_within(patience: Duration, mut child: Child) -> Ran {
    let deadline = Instant::now() + patience;
    // In threads, because a full pipe would stop the child.
    let readers = [
        child.stdout.take().map(|mut pipe| read_all(move |text| read(&mut pipe, text))),
        child.stderr.take().map(|mut pipe| read_all(move |text| read(&mut pipe, text))),
    ];
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        sleep(Duration::from_millis(5));
    }
    let code = child.wait().unwrap().code();
    let [out, talk] =
        readers.map(|reader| reader.map(|one| one.join().unwrap()).unwrap_or_default());
    Ran { code, out, talk }
}

fn read(pipe: &mut impl std::io::Read, text: &mut Vec<u8>) {
    pipe.read_to_end(text).unwrap();
}

fn read_all(work: impl FnOnce(&mut Vec<u8>) + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        work(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits until `condition` holds; fails with `what` after the deadline.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
