//! A cluster of Kubernetes with three nodes, for one test.

use crate::namespace_cluster::{NamespaceCluster, process_text};
use crate::needs::{KUBERNETES, roots_folder};
use crate::support::{Folder, Ran, wait_until};
use rustix::process::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The nodes of a cluster.
pub(crate) const NODES: [&str; 3] = ["w1", "w2", "w3"];
/// The image that its nodes have: Ruby, carat, kubectl, and the folder `app` of the test.
pub(crate) const IMAGE: &str = "localhost/app:1";

/// The label of the pods of fleets.
const LABEL: &str = "app.kubernetes.io/name=carat";

/// A cluster that sees the test's folder and the cache of carat. It ends when it is dropped.
pub(crate) struct KubernetesCluster(pub(crate) NamespaceCluster);

/// A block that a pod runs.
#[derive(Debug, Clone)]
pub(crate) struct PodBlock {
    pub(crate) number: u32,
    pub(crate) node: String,
    pub(crate) carat: Pid,
}

impl KubernetesCluster {
    /// Returns when every node is ready.
    pub(crate) fn start(folder: &Folder) -> Self {
        let carat = Path::new(env!("CARGO_BIN_EXE_carat"));
        let arguments: [PathBuf; 8] = [
            roots_folder().join("kubernetes"),
            KUBERNETES.clone().unwrap(),
            NODES.len().to_string().into(),
            carat.into(),
            folder.path("app"),
            folder.path(""),
            carat.parent().unwrap().into(),
            env!("CARGO_TARGET_TMPDIR").into(),
        ];
        Self(NamespaceCluster::start("kubernetes/cluster", &arguments, folder))
    }

    /// Kills the script that started it; returns the processes that it had.
    pub(crate) fn kill(mut self) -> Vec<Pid> {
        let pids = self.0.pids();
        self.0.kill_script();
        pids
    }

    /// Removes what clusters left that were killed.
    pub(crate) fn clean() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/cluster");
        assert!(Command::new(script).arg("--clean").status().unwrap().success());
    }

    /// Runs a command inside, but in no pod, with its own folder and variables.
    pub(crate) fn run(&self, command: &Command) -> Ran {
        self.0.run(command)
    }

    /// Runs kubectl; returns what it prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("kubectl");
        command.args(arguments).current_dir("/");
        self.run(&command).assert_code(0).out.clone()
    }

    /// The pods of fleets.
    pub(crate) fn pods(&self) -> Vec<Value> {
        let printed = self.kubectl(&["get", "pods", "--selector", LABEL, "--output", "json"]);
        let pods: Value = serde_json::from_str(&printed).unwrap();
        pods["items"].as_array().unwrap().clone()
    }

    /// What the pods of fleets have printed.
    pub(crate) fn logs(&self) -> String {
        self.kubectl(&["logs", "--selector", LABEL, "--tail=-1"])
    }

    /// The only Job, with its specification and state.
    pub(crate) fn job(&self) -> Value {
        let printed = self.kubectl(&["get", "jobs", "--output", "json"]);
        let jobs: Value = serde_json::from_str(&printed).unwrap();
        jobs["items"][0].clone()
    }

    /// The blocks that pods run now.
    pub(crate) fn running_blocks(&self, number_of: impl Fn(u32) -> u32) -> Vec<PodBlock> {
        let block = |pid: Pid| {
            let environment = process_text(pid, "environ");
            let variable = |name: &str| {
                let mut all = environment.split('\0').filter_map(|one| one.split_once('='));
                all.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
            };
            // Servers inherit the variables of their block.
            let is_block = process_text(pid, "cmdline").starts_with("carat\0fleet\0block\0");
            let place = variable("JOB_COMPLETION_INDEX").filter(|_| is_block)?;
            let number = number_of(place.parse().unwrap());
            Some(PodBlock { number, node: variable("NODE_NAME")?, carat: pid })
        };
        self.0.pids().into_iter().filter_map(block).collect()
    }

    /// The process that makes a machine a node.
    pub(crate) fn kubelet(&self, node: &str) -> Pid {
        let name = format!("\0--hostname-override\0{node}\0");
        let is_kubelet = |&pid: &Pid| process_text(pid, "cmdline").contains(&name);
        self.0.pids().into_iter().find(is_kubelet).unwrap_or_else(|| panic!("no kubelet of {node}"))
    }

    /// Waits until no pod of a fleet runs or is about to.
    pub(crate) fn finish_pods(&self) {
        let has_ended =
            |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        wait_until("no pod runs", || self.pods().iter().all(has_ended));
    }
}
