//! Fleets on a real Kubernetes: three nodes on this machine, real pods, blocks on the fake bench and of real servers.

use crate::fleet_run::{FAKE, TestFleet};
use crate::kubernetes_cluster::{IMAGE, KubernetesCluster, NODES, PodBlock};
use crate::namespace_cluster::send;
use crate::support::{Folder, Ran, wait_until};
use rustix::process::{Signal, test_kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Memory of three variants that differ so much that the first look decides.
const DIFFERENT: &str = "71e6:1e5,60e6:1e5,65e6:1e5";
/// The blocks that it looks at.
const FIRST_LOOK: u32 = 9;

/// Gives the claim of docs/how-to/fleet.md a folder of this machine, which every node sees.
fn volume(folder: &Path) -> String {
    let path = serde_json::json!(folder);
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{name: carat-fleet}}
spec:
  accessModes: [ReadWriteMany]
  capacity: {{storage: 1Gi}}
  claimRef: {{namespace: default, name: carat-fleet}}
  hostPath: {{path: {path}}}
"
    )
}

/// The section of docs/how-to/fleet.md.
fn section() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/fleet.md");
    let page = fs::read_to_string(page).unwrap();
    let start = page.find("## Kubernetes, from zero to a verdict").unwrap();
    let section = page[start..].split("\n## ").next().unwrap();
    section.replace("registry.example/app:1", IMAGE)
}

/// The objects that the section creates.
fn objects() -> String {
    section().split("```yaml\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// A fleet and the cluster that runs it, which ends before the folder goes.
struct KubernetesFleet {
    cluster: KubernetesCluster,
    fleet: TestFleet,
}

impl KubernetesFleet {
    /// Plans a fleet whose pods draw figures; each trial takes `pace` ms.
    fn plan(name: &str, fake: &str, pace: u32, options: &[&str]) -> Self {
        let kubernetes = ["--on", "k8s:any", "--image", IMAGE];
        let fleet = TestFleet::plan(name, &[&kubernetes, options].concat());
        let faked = format!(r#"--type, "any", --fake, "{fake}", --fake-pace, "{pace}"]"#);
        change_job(&fleet, r#"--type, "any"]"#, &faked);
        fs::create_dir(fleet.folder.path("app")).unwrap();
        let cluster = KubernetesCluster::start(&fleet.folder);
        claim(&cluster, &fleet.folder);
        Self { cluster, fleet }
    }

    fn submit(&self) {
        self.run(&["fleet", "submit", "fleet"]).assert_code(0).assert_says("job.batch/carat-");
    }

    /// Watches until there is a verdict.
    fn watch(&self) -> Ran {
        self.fleet.watch_on(&self.cluster.0)
    }

    /// Runs carat in the cluster, but in no pod.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.fleet.run_on(&self.cluster.0, arguments)
    }

    /// The block that a pod runs at a place of the only type.
    fn running_blocks(&self) -> Vec<PodBlock> {
        self.cluster.running_blocks(|place| place + 1)
    }

    /// Stops the block of a node after it has begun and before it has a result.
    fn freeze(&self, node: &str) -> PodBlock {
        let mut frozen = None;
        wait_until("the node runs a block", || {
            let mut blocks = self.running_blocks().into_iter();
            let block = blocks.find(|block| block.node == node);
            frozen = block.filter(|block| self.fleet.freeze(block.number, block.carat));
            frozen.is_some()
        });
        frozen.unwrap()
    }

    /// Waits until a block has a part of this attempt.
    fn finish_attempt(&self, number: u32, attempt: &str) {
        wait_until("the attempt has a part", || {
            self.fleet.of_block("parts", number).iter().any(|part| part.contains(attempt))
        });
    }

    /// Fails if a block began before more others than there are nodes.
    fn assert_in_order(&self) {
        let pods = self.cluster.pods();
        let begun = pods.iter().filter_map(|pod| {
            let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
            Some((pod["status"]["startTime"].as_str()?, index.as_str()?.parse::<usize>().ok()?))
        });
        let mut begun: Vec<(&str, usize)> = begun.collect();
        begun.sort_unstable();
        let is_early = |(at, &(_, index)): (usize, &(&str, usize))| index >= at + NODES.len();
        assert!(!begun.iter().enumerate().any(is_early), "{begun:?}");
    }

    /// Fails if two blocks were on one node at once.
    fn assert_nodes_to_themselves(&self) {
        let pods = self.cluster.pods();
        let times = |pod: &Value| {
            let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
            let time = |name: &str| ended[name].as_str().map(str::to_owned);
            Some((time("startedAt")?, time("finishedAt")?))
        };
        for node in NODES {
            let on_node = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
            let mut times: Vec<_> = on_node.filter_map(times).collect();
            times.sort();
            assert!(times.len() > 1, "{node} ran {} blocks", times.len());
            assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{node}: {times:?}");
        }
    }
}

/// Replaces a text in the Job of a fleet.
fn change_job(fleet: &TestFleet, from: &str, to: &str) {
    let job = fleet.folder.path("fleet/k8s-any.yaml");
    let text = fs::read_to_string(&job).unwrap();
    assert!(text.contains(from), "no `{from}` in\n{text}");
    fs::write(&job, text.replace(from, to)).unwrap();
}

/// Lets the pods have the folder of the fleet.
fn claim(cluster: &KubernetesCluster, folder: &Folder) {
    let volume = folder.write("volume.yaml", &volume(&folder.path("fleet")));
    let fleet = folder.write("fleet.yaml", &objects());
    for file in [volume, fleet] {
        cluster.kubectl(&["apply", "--filename", &file.display().to_string()]);
    }
}

/// What a cluster on this machine could leave behind.
fn machine_state() -> Vec<String> {
    let names = |folder: &str, start: &str| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> =
            entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with(start));
        names.sort();
        names.join(" ")
    };
    let values =
        ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];
    let values = values.map(|name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains("kubernetes"));
    let mut state: Vec<String> = mounts.map(str::to_owned).collect();
    state.extend(values);
    state.push(names("/sys/class/net", ""));
    state.push(names("/sys/fs/cgroup/memory", "carat-kubernetes"));
    state
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn the_page_leads_from_zero_to_a_verdict_on_real_servers() {
    require!(Kubernetes);
    let folder = Folder::new("kubernetes-page");
    for inner in ["app", "fleet"] {
        fs::create_dir(folder.path(inner)).unwrap();
    }
    folder.write("app/knobs.rb", include_str!("data/knobs.rb"));
    folder.write("app/arenas.toml", include_str!("data/pods.toml"));
    let cluster = KubernetesCluster::start(&folder);
    claim(&cluster, &folder);
    cluster.kubectl(&["label", "nodes", "--all", "pool=m7g"]);
    cluster.kubectl(&["wait", "pod/carat-fleet", "--for=condition=Ready", "--timeout=100s"]);
    let section = section();
    let commands: Vec<&str> = section.lines().filter(|line| line.starts_with("kubectl ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for line in commands {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(folder.path("."));
        cluster.run(&command).assert_code(0);
    }
    let results = folder.run(&["report", "fleet/arenas.carat", "--json"]);
    let results: Value = serde_json::from_str(&results.assert_code(0).out).unwrap();
    let trials = results["results"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["outcome"] == "ok"), "{trials:?}");
    assert!(folder.path("arenas.html").is_file(), "no page");
    cluster.finish_pods();
    let count = |inner: &str| fs::read_dir(folder.path("fleet").join(inner)).unwrap().count();
    assert_eq!(count("attempts"), count("parts"), "pods that were stopped left something");
    // The same figures can be measured in a pod as outside.
    let one = ["compare", "app/arenas.toml", "--blocks", "1", "-o", "one.carat"];
    folder.run(&one);
    let one = folder.run(&["report", "one.carat", "--json"]);
    let one: Value = serde_json::from_str(&one.assert_code(0).out).unwrap();
    assert_eq!(metrics(&trials[0]), metrics(&one["results"]["trials"][0]));
}

/// The names of the metrics that a trial has.
fn metrics(trial: &Value) -> BTreeSet<String> {
    let metrics = trial["metrics"].as_object().unwrap().iter();
    metrics.filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone()).collect()
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn blocks_on_three_nodes_of_kubernetes_have_the_verdict_of_one_machine_byte_for_byte() {
    require!(Kubernetes);
    KubernetesCluster::clean();
    let before = machine_state();
    let kubernetes =
        KubernetesFleet::plan("kubernetes", FAKE, 0, &["--blocks", "18", "--nodes", "3"]);
    kubernetes.submit();
    let watched = kubernetes.watch();
    kubernetes.fleet.assert_like_one_machine(FAKE, "18", &watched);
    assert_eq!(kubernetes.fleet.hosts(), BTreeSet::from(NODES.map(str::to_owned)));
    kubernetes.cluster.finish_pods();
    kubernetes.assert_nodes_to_themselves();
    kubernetes.assert_in_order();
    let printed = kubernetes.cluster.logs();
    let (warmed, ran) =
        (printed.matches("warm-up block").count(), printed.matches("part  ").count());
    assert!(
        ran > NODES.len() && warmed == NODES.len(),
        "{warmed} warm-ups for {ran} blocks: {printed}"
    );

    let KubernetesFleet { cluster, fleet } = kubernetes;
    drop(cluster);
    fleet.folder.assert_nothing_left();
    assert_eq!(machine_state(), before);
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn after_the_verdict_the_job_is_suspended_and_pods_that_run_leave_no_part() {
    require!(Kubernetes);
    let kubernetes =
        KubernetesFleet::plan("kubernetes-stop", DIFFERENT, 20_000, &["--blocks", "30"]);
    let fleet = &kubernetes.fleet;
    kubernetes.submit();
    wait_until("every node runs a block", || kubernetes.running_blocks().len() == NODES.len());
    let running = kubernetes.running_blocks();
    wait_until("every block has begun", || {
        running.iter().all(|block| !fleet.of_block("attempts", block.number).is_empty())
    });
    // Machines that are no nodes bring the verdict meanwhile.
    for number in 1..=FIRST_LOOK {
        let number = number.to_string();
        let block = ["fleet", "block", "fleet", "--block", &number, "--fake", DIFFERENT];
        fleet.folder.run(&block).assert_code(0).assert_says("part  ");
    }
    kubernetes.watch().assert_code(0);
    assert_eq!(kubernetes.cluster.job()["spec"]["suspend"], true);
    wait_until("no pod is left", || kubernetes.cluster.pods().is_empty());
    for inner in ["parts", "attempts"] {
        let left = fs::read_dir(fleet.folder.path("fleet").join(inner)).unwrap().count();
        assert_eq!(left, FIRST_LOOK as usize, "{inner}");
    }
    assert_eq!(kubernetes.running_blocks().len(), 0);
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn blocks_of_a_failed_pod_and_of_a_silent_node_run_again_and_count_once() {
    require!(Kubernetes);
    let kubernetes = KubernetesFleet::plan("kubernetes-lost", FAKE, 500, &["--blocks", "8"]);
    let fleet = &kubernetes.fleet;
    kubernetes.submit();
    let (failed, silent) = (kubernetes.freeze("w2"), kubernetes.freeze("w3"));
    send(Signal::KILL, &[failed.carat]);
    let node = [kubernetes.cluster.kubelet("w3")];
    send(Signal::STOP, &node);
    kubernetes.finish_attempt(failed.number, ".a2.");
    kubernetes.finish_attempt(silent.number, ".a2.");
    send(Signal::CONT, &[silent.carat]);
    wait_until("the silent node ends its block too", || {
        fleet.of_block("parts", silent.number).len() == 2
    });
    send(Signal::CONT, &node);
    let watched = kubernetes.watch();
    fleet.assert_like_one_machine(FAKE, "8", &watched);
    let status = fleet.status();
    let uncounted = status["uncounted"].as_array().unwrap();
    let start = format!("b{:04}.", silent.number);
    assert!(uncounted.len() == 1 && uncounted[0].as_str().unwrap().starts_with(&start), "{status}");
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn blocks_of_a_job_that_has_failed_are_submitted_again() {
    require!(Kubernetes);
    let kubernetes = KubernetesFleet::plan("kubernetes-again", FAKE, 0, &["--blocks", "6"]);
    let fleet = &kubernetes.fleet;
    let (once, four_times) = ("backoffLimitPerIndex: 0", "backoffLimitPerIndex: 3");
    change_job(fleet, four_times, once);
    change_job(fleet, "--fake,", "--fakes,");
    kubernetes.submit();
    let has_failed = || {
        let conditions = kubernetes.cluster.job()["status"]["conditions"].clone();
        conditions.as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Failed"))
    };
    wait_until("every pod has failed", has_failed);
    change_job(fleet, once, four_times);
    change_job(fleet, "--fakes,", "--fake,");
    kubernetes.submit();
    let watched = kubernetes.watch();
    fleet.assert_like_one_machine(FAKE, "6", &watched);
}

#[test]
#[ignore = "starts a real Kubernetes: bin/test --kubernetes"]
fn a_cluster_that_is_killed_leaves_no_process_and_cleaning_removes_its_cgroups() {
    require!(Kubernetes);
    KubernetesCluster::clean();
    let before = machine_state();
    let folder = Folder::new("kubernetes-killed");
    fs::create_dir(folder.path("app")).unwrap();
    let pids = KubernetesCluster::start(&folder).kill();
    assert!(pids.len() > NODES.len(), "{pids:?}");
    wait_until("no process is left", || pids.iter().all(|&pid| test_kill_process(pid).is_err()));
    KubernetesCluster::clean();
    assert_eq!(machine_state(), before);
}
