//! A cluster of Slurm with three nodes, for one test. It ends with the test, however that ends.

use crate::needs::roots_folder;
use crate::support::{Folder, Ran, finish};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Nodes of a cluster: `w1` to `w3`.
pub(crate) const NODES: u64 = 3;

/// A cluster that sees the test's folder, the program and its cache. It ends when it is dropped.
pub(crate) struct SlurmCluster {
    process: Child,
    /// The pid of its first process.
    first: String,
}

/// A block that a node runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningBlock {
    pub(crate) number: u32,
    pub(crate) carat: Pid,
    /// Slurm's process that waits for the block.
    pub(crate) step: Pid,
}

impl SlurmCluster {
    /// Returns when every node waits for work.
    pub(crate) fn start(folder: &Folder) -> Self {
        let log = folder.path("cluster.log");
        let programs = Path::new(env!("CARGO_BIN_EXE_carat")).parent().unwrap();
        let mut process = Command::new(script())
            .arg(roots_folder().join("slurm"))
            .arg(NODES.to_string())
            .arg(folder.mark())
            .args([programs, Path::new(env!("CARGO_TARGET_TMPDIR"))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut cluster = Self { process, first: String::new() };
        let first = line.trim().strip_prefix("ready ");
        let Some(first) = first else { panic!("{}", fs::read_to_string(&log).unwrap()) };
        cluster.first = first.to_owned();
        cluster
    }

    /// Runs a command inside, with its own folder and variables.
    pub(crate) fn run(&self, command: &Command) -> Ran {
        let mut inside = Command::new(script());
        inside.args(["--run", &self.first]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside.current_dir(command.get_current_dir().unwrap());
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(inside.spawn().unwrap())
    }

    /// The block that a node runs now.
    pub(crate) fn running_block(&self, node: &str) -> Option<RunningBlock> {
        let name = format!("SLURMD_NODENAME={node}");
        self.pids().into_iter().find_map(|pid| {
            let environment = text(pid, "environ");
            let mut variables = environment.split('\0');
            let is_block = text(pid, "cmdline").contains("\0fleet\0block\0");
            if !is_block || !variables.clone().any(|one| one == name) {
                return None;
            }
            let number = variables.find_map(|one| one.strip_prefix("SLURM_ARRAY_TASK_ID="))?;
            let step = parent(pid)?;
            Some(RunningBlock { number: number.parse().unwrap(), carat: pid, step })
        })
    }

    /// The process that makes a machine a node.
    pub(crate) fn daemon(&self, node: &str) -> Pid {
        let line = format!("slurmd\0-N\0{node}\0");
        let daemon = self.pids().into_iter().find(|&pid| text(pid, "cmdline") == line);
        daemon.unwrap_or_else(|| panic!("no slurmd of {node}"))
    }

    /// The pids of its processes, as they are outside.
    fn pids(&self) -> Vec<Pid> {
        let namespace =
            |pid: &str| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/ns/pid")).ok() };
        let own = namespace(&self.first);
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let inside = names.filter(|name| own.is_some() && namespace(name) == own);
        inside.filter_map(|name| Pid::from_raw(name.parse().ok()?)).collect()
    }
}

impl Drop for SlurmCluster {
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

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm/cluster")
}

/// A file of a process; empty if it has ended.
fn text(pid: Pid, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = text(pid, "stat");
    // After the name, which may have any character: state, parent, …
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
