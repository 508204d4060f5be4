//! Servers that ignore TERM, keep forking, or use all their memory.

use crate::harness;
use crate::real_run::{experiment, results};
use crate::support::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_server_that_ignores_term_is_measured_killed_and_noted() {
    require!(Ruby);
    let folder = experiment("stubborn", "IGNORE_TERM = '1'", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        assert!(
            trial["notes"].to_string().contains("after TERM and was killed"),
            "{}",
            trial["notes"]
        );
    }
}

#[test]
fn processes_that_fork_while_they_are_killed_are_all_killed() {
    require!(Ruby);
    let folder = experiment("bomb", "BOMB = '40'", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
}

/// A memory control group below the one of this test, removed at the end.
struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// `None` if no group can be made here, or if the group does not limit memory.
    fn new(limit: u64) -> Option<Self> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let below = |controller: &str| {
            let line = text.lines().find(|line| line.contains(controller))?;
            Some(line.rsplit(':').next()?.trim_start_matches('/').to_owned())
        };
        let name = format!("carat-test-{}", std::process::id());
        let one = below(":memory:").map(|group| Path::new("/sys/fs/cgroup/memory").join(group));
        let two = below("0::").map(|group| Path::new("/sys/fs/cgroup").join(group));
        let places = [(one, "memory.limit_in_bytes"), (two, "memory.max")];
        places.into_iter().find_map(|(parent, file)| {
            let path = parent?.join(&name);
            fs::create_dir(&path).ok()?;
            let made = Self { path };
            // Without swap, so that the limit kills.
            let _ = fs::write(made.path.join("memory.swap.max"), "0");
            fs::write(made.path.join(file), limit.to_string()).ok().map(|()| made)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel removes its last process only after a moment.
        wait_until("the group is empty", || fs::remove_dir(&self.path).is_ok());
    }
}

#[test]
fn a_server_that_the_oom_killer_kills_is_counted_as_oom_killed() {
    require!(Ruby);
    let Some(group) = MemoryGroup::new(80_000_000) else {
        harness::skip("no control group that limits memory can be made: it needs root");
    };
    let hog = format!("HOG_AFTER = '10', CGROUP = '{}'", group.path.display());
    let folder = experiment("hog", &hog, "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("oom-killed").assert_says("for lack of memory");
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["outcome"] == "oom-killed"), "{trials:?}");
}
