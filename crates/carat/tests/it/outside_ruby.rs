//! A real Ruby with a varied heap, for the tests of the reader from outside.

use crate::needs::TestRuby;
use carat::target::Libraries;
use carat_outside::census::{Census, LookOptions};
use carat_outside::readings::look;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program, which tells the truth about itself.
const PROGRAM: &str = include_str!("data/outside.rb");

/// A running Ruby; it is killed at the end.
pub(crate) struct OutsideRuby {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) pid: u32,
}

impl OutsideRuby {
    /// Starts it, and waits until its heap is made.
    pub(crate) fn start(version: TestRuby) -> Self {
        Self::start_command(version.command(None))
    }

    /// The same with a prepared command, which runs `ruby`.
    pub(crate) fn start_command(mut command: Command) -> Self {
        command.args(["-e", PROGRAM]).env_remove("RUBYOPT");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap_or_else(|_| panic!("no pid but {line:?}"));
        Self { child, stdin, stdout, pid }
    }

    /// The same with the runtime and these settings, which are written as `NAME=VALUE;NAME=VALUE`.
    pub(crate) fn start_with(version: TestRuby, libraries: &Libraries, settings: &str) -> Self {
        let mut command = version.command(None);
        command.env("CARAT_SETTINGS", settings).env("CARAT_RUNTIME", &libraries.runtime);
        command.arg("-r").arg(&libraries.shim);
        Self::start_command(command)
    }

    /// Sends a line of Ruby without waiting for its value.
    pub(crate) fn begin(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The value of a line of Ruby, as text.
    pub(crate) fn eval(&mut self, line: &str) -> String {
        self.begin(line);
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "Ruby ended at {line:?}");
        answer.trim_end().to_owned()
    }

    /// The value of a line of Ruby that returns JSON.
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        serde_json::from_str(&self.eval(line)).unwrap()
    }

    /// Reads it from outside.
    pub(crate) fn look(&self, options: &LookOptions) -> Census {
        look(self.pid, options).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for OutsideRuby {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Threads that sleep do not keep it; one that is busy may.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in the truth.
pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

/// Proportional anonymous memory of processes by the kernel, in kB. That of files also depends on other processes.
pub(crate) fn pss(processes: &[u32]) -> u64 {
    let of = |process: &u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    processes.iter().map(of).sum()
}
