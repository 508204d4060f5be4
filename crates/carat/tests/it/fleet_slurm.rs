//! Fleets on a real Slurm: three nodes on this machine, real jobs, blocks on the fake bench.

use crate::fleet_run::{FAKE, LONG_LOAD, TestFleet};
use crate::namespace_cluster::send;
use crate::slurm_cluster::{NODES, RunningBlock, SlurmCluster};
use crate::support::{Ran, wait_until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Memory of three variants that differ so much that the first look decides.
const DIFFERENT: &str = "71e6:1e5,60e6:1e5,65e6:1e5";

/// A real server.
const SERVED: &str = r#"
name = "served"
[server]
command = ["ruby", "server.rb"]
env = { PORT = "{port}" }
ready = { tcp = true }
"#;

/// A fleet and the cluster that runs it, which ends before the folder goes.
struct SlurmFleet {
    cluster: SlurmCluster,
    fleet: TestFleet,
}

impl SlurmFleet {
    /// Plans a fleet whose jobs draw figures; each trial takes `pace` ms.
    fn plan(name: &str, fake: &str, pace: u32, blocks: u32) -> Self {
        let blocks = blocks.to_string();
        let fleet = TestFleet::plan(name, &["--on", "slurm:any", "--blocks", &blocks]);
        let script = fleet.folder.path("fleet/slurm-any.sbatch");
        let text = fs::read_to_string(&script).unwrap();
        let text = format!("{} --fake {fake} --fake-pace {pace}\n", text.trim_end());
        fs::write(&script, text).unwrap();
        Self::start(fleet)
    }

    fn start(fleet: TestFleet) -> Self {
        let cluster = SlurmCluster::start(&fleet.folder);
        Self { cluster, fleet }
    }

    fn submit(&self) {
        let ran = self.run(&["fleet", "submit", "fleet"]);
        ran.assert_code(0).assert_says("Submitted batch job");
    }

    /// Watches until there is a verdict.
    fn watch(&self) -> Ran {
        self.fleet.watch_on(&self.cluster.0)
    }

    /// Runs carat on the cluster.
    fn run(&self, arguments: &[&str]) -> Ran {
        self.fleet.run_on(&self.cluster.0, arguments)
    }

    /// The jobs of Slurm that are in one of these states.
    fn queue(&self, states: &str) -> String {
        self.execute("squeue", &["--noheader", "--states", states, "--format", "%i %T %R"])
    }

    /// Runs a command of Slurm; returns what it prints.
    fn execute(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.fleet.folder.path("."));
        self.cluster.run(&command).assert_code(0).out.clone()
    }

    /// Waits until the blocks that run have ended.
    fn finish_blocks(&self) {
        wait_until("no block runs", || self.queue("RUNNING,COMPLETING").is_empty());
    }

    /// Stops the block of a node after it has begun and before it has a result.
    fn freeze(&self, node: &str) -> RunningBlock {
        let mut frozen = None;
        wait_until("the node runs a block", || {
            let block = self.cluster.running_block(node);
            frozen = block.filter(|block| self.fleet.freeze(block.number, block.carat));
            frozen.is_some()
        });
        frozen.unwrap()
    }

    /// Cancels every job. Fails unless no block leaves a part, an attempt, a process or a file.
    fn cancel(&self) {
        self.execute("scancel", &["--user", "root"]);
        self.finish_blocks();
        let folder = &self.fleet.folder;
        for inner in ["parts", "attempts"] {
            let left = fs::read_dir(folder.path("fleet").join(inner)).unwrap().count();
            assert_eq!(left, 0, "{inner}");
        }
        let log = fs::read_to_string(folder.path("fleet/log/b1.txt")).unwrap();
        assert!(log.contains("stopped by a signal: block 1 has no result"), "{log}");
        folder.assert_nothing_left();
    }
}

#[test]
fn thirty_blocks_on_three_nodes_of_slurm_have_the_verdict_of_one_machine_byte_for_byte() {
    require!(Slurm);
    let slurm = SlurmFleet::plan("slurm", FAKE, 0, 30);
    slurm.submit();
    let watched = slurm.watch();
    slurm.fleet.assert_like_one_machine(FAKE, "30", &watched);
    assert_eq!(slurm.fleet.hosts(), BTreeSet::from(["w1", "w2", "w3"].map(str::to_owned)));
    let log = fs::read_to_string(slurm.fleet.folder.path("fleet/log/b1.txt")).unwrap();
    assert!(log.contains("block 1/33") && log.contains("part  "), "{log}");

    slurm.finish_blocks();
    let SlurmFleet { cluster, fleet } = slurm;
    drop(cluster);
    fleet.folder.assert_nothing_left();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("roots/slurm"), "{mounts}");
}

#[test]
fn after_the_verdict_slurm_has_no_pending_block_and_each_node_ends_the_one_it_runs() {
    require!(Slurm);
    let slurm = SlurmFleet::plan("slurm-stop", DIFFERENT, 300, 60);
    slurm.submit();
    slurm.watch().assert_code(0);
    let count = |name: &str| slurm.fleet.status()["types"][0][name].as_u64().unwrap();
    let done = count("done");
    assert_eq!(slurm.queue("PENDING"), "");
    slurm.finish_blocks();
    let more = count("done") - done;
    assert!(more <= NODES, "{more} blocks had a result after the verdict");
    assert!(done + more < count("planned"), "there was nothing to stop");
}

#[test]
fn blocks_of_a_dead_and_of_a_silent_node_run_elsewhere_and_count_once() {
    require!(Slurm);
    let slurm = SlurmFleet::plan("slurm-lost", FAKE, 500, 10);
    slurm.submit();
    let (dead, silent) = (slurm.freeze("w2"), slurm.freeze("w3"));
    send(Signal::KILL, &[slurm.cluster.daemon("w2"), dead.step, dead.carat]);
    let node = [slurm.cluster.daemon("w3"), silent.step];
    send(Signal::STOP, &node);
    wait_until("another node has run the block of the dead one", || {
        slurm.fleet.of_block("parts", dead.number).iter().any(|part| part.contains(".a2."))
    });
    wait_until("another node has run the block of the silent one", || {
        slurm.fleet.of_block("parts", silent.number).len() == 1
    });
    send(Signal::CONT, &[silent.carat]);
    wait_until("the silent node ends its block too", || {
        slurm.fleet.of_block("parts", silent.number).len() == 2
    });
    send(Signal::CONT, &node);
    let watched = slurm.watch();
    slurm.fleet.assert_like_one_machine(FAKE, "10", &watched);
    let status = slurm.fleet.status();
    let uncounted = status["uncounted"].as_array().unwrap();
    let start = format!("b{:04}.", silent.number);
    assert!(uncounted.len() == 1 && uncounted[0].as_str().unwrap().starts_with(&start), "{status}");
}

#[test]
fn the_block_of_a_dead_node_runs_before_those_that_never_began() {
    require!(Slurm);
    let slurm = SlurmFleet::plan("slurm-forward", FAKE, 700, 60);
    slurm.submit();
    let dead = slurm.freeze("w2");
    send(Signal::KILL, &[slurm.cluster.daemon("w2"), dead.step, dead.carat]);
    wait_until("another node has run the block of the dead one", || {
        let watched = slurm.run(&["fleet", "watch", "fleet", "--once"]);
        assert!(!watched.talk.contains("runs again after all others"), "{}", watched.talk);
        slurm.fleet.of_block("parts", dead.number).iter().any(|part| part.contains(".a2."))
    });
    assert_ne!(slurm.queue("PENDING"), "", "it ran after all others");
}

#[test]
fn a_cancelled_block_leaves_no_part_and_is_no_attempt() {
    require!(Slurm);
    // A fake trial ends before its block, and sooner than Slurm loses its patience.
    let slurm = SlurmFleet::plan("slurm-cancelled", FAKE, 2000, 10);
    slurm.submit();
    let folder = &slurm.fleet.folder;
    wait_until("every node runs a block", || folder.private_directories().len() >= 3);
    slurm.cancel();
}

#[test]
fn a_cancelled_block_stops_the_server_that_it_measures() {
    require!(Slurm);
    let options = ["--on", "slurm:any", "--blocks", "10"];
    let fleet = TestFleet::of("slurm-server", &format!("{SERVED}{LONG_LOAD}"), &options);
    fleet.folder.write("server.rb", include_str!("data/server.rb"));
    let slurm = SlurmFleet::start(fleet);
    slurm.submit();
    let servers = || {
        let lines = slurm.fleet.folder.processes();
        lines.iter().filter(|line| line.starts_with("ruby server.rb")).count()
    };
    wait_until("every node runs a server", || servers() >= 3);
    slurm.cancel();
    assert_eq!(servers(), 0);
}
