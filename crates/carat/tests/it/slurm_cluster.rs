//! A cluster of Slurm with three nodes, for one test.

use crate::namespace_cluster::{NamespaceCluster, parent, process_text};
use crate::needs::roots_folder;
use crate::support::{Folder, Ran};
use rustix::process::Pid;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nodes of a cluster: `w1` to `w3`.
pub(crate) const NODES: u64 = 3;

/// A cluster that sees the test's folder, the program and its cache. It ends when it is dropped.
pub(crate) struct SlurmCluster(pub(crate) NamespaceCluster);

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
        let programs = Path::new(env!("CARGO_BIN_EXE_carat")).parent().unwrap();
        let arguments: [PathBuf; 5] = [
            roots_folder().join("slurm"),
            NODES.to_string().into(),
            folder.path(""),
            programs.into(),
            env!("CARGO_TARGET_TMPDIR").into(),
        ];
        Self(NamespaceCluster::start("slurm/cluster", &arguments, folder))
    }

    /// Runs a command inside, with its own folder and variables.
    pub(crate) fn run(&self, command: &Command) -> Ran {
        self.0.run(command)
    }

    /// The block that a node runs now.
    pub(crate) fn running_block(&self, node: &str) -> Option<RunningBlock> {
        let name = format!("SLURMD_NODENAME={node}");
        self.0.pids().into_iter().find_map(|pid| {
            let environment = process_text(pid, "environ");
            let mut variables = environment.split('\0');
            let is_block = process_text(pid, "cmdline").contains("\0fleet\0block\0");
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
        let mut pids = self.0.pids().into_iter();
        let daemon = pids.find(|&pid| process_text(pid, "cmdline") == line);
        daemon.unwrap_or_else(|| panic!("no slurmd of {node}"))
    }
}
