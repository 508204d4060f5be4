//! A cluster in namespaces of this machine, for one test. It ends with the test, however that ends.

use crate::support::{Folder, PATIENCE, Ran, finish_within};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A cluster that a script starts. It ends when it is dropped.
pub(crate) struct NamespaceCluster {
    script: PathBuf,
    process: Child,
    /// The pid of its first process.
    first: String,
}

impl NamespaceCluster {
    /// Starts a script of `tests`, such as `slurm/cluster`; returns when every node waits for work.
    pub(crate) fn start(script: &str, arguments: &[PathBuf], folder: &Folder) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
        let log = folder.path("cluster.log");
        let mut process = Command::new(&script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut cluster = Self { script, process, first: String::new() };
        let first = line.trim().strip_prefix("ready ");
        let Some(first) = first else { panic!("{}", fs::read_to_string(&log).unwrap()) };
        cluster.first = first.to_owned();
        cluster
    }

    /// Runs a command inside, with its own folder and variables.
    pub(crate) fn run(&self, command: &Command) -> Ran {
        let mut inside = Command::new(&self.script);
        inside.args(["--run", &self.first]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside.current_dir(command.get_current_dir().unwrap());
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A fleet needs as long as its blocks.
        finish_within(4 * PATIENCE, inside.spawn().unwrap())
    }

    /// Kills the script, which then cannot end the cluster itself.
    pub(crate) fn kill_script(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The pids of its processes, as they are outside; containers have namespaces of their own.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let all: Vec<Pid> = names.filter_map(|name| Pid::from_raw(name.parse().ok()?)).collect();
        let parents: HashMap<Pid, Pid> =
            all.iter().filter_map(|&pid| Some((pid, parent(pid)?))).collect();
        let is_inside = |pid: &Pid| {
            let mut ancestors = successors(Some(*pid), |one| parents.get(one).copied());
            ancestors.any(|one| one.as_raw_nonzero().to_string() == self.first)
        };
        all.into_iter().filter(is_inside).collect()
    }
}

impl Drop for NamespaceCluster {
    fn drop(&mut self) {
        // Its first process ends with its input. Linux kills the others before the parent hears.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Sends a signal to processes, of which one may have ended.
pub(crate) fn send(signal: Signal, pids: &[Pid]) {
    for &pid in pids {
        let _ = kill_process(pid, signal);
    }
}

/// A file of a process; empty if it has ended.
pub(crate) fn process_text(pid: Pid, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    let stat = process_text(pid, "stat");
    // After the name, which may have any character: state, parent, …
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
