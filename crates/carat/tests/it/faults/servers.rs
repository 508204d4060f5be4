//! Servers that ignore TERM, keep forking, or use all their memory.

use crate::memory_group::MemoryGroup;
use crate::real_run::{experiment, results};

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

#[test]
fn a_worker_that_ended_during_the_load_is_noted() {
    require!(Ruby);
    let ended = "processes of the server ended during the load, 1 of those at its start";
    for (name, env, expected) in
        [("replaced", "REPLACE_AFTER = '20'", true), ("lasting", "REPLACE_AFTER = '100000'", false)]
    {
        let folder = experiment(name, env, "");
        folder.run(&["compare", "real.toml"]).assert_code(3);
        folder.assert_nothing_left();
        for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
            assert_eq!(trial["outcome"], "ok", "{trial}");
            assert_eq!(trial["notes"].to_string().contains(ended), expected, "{trial}");
        }
    }
}

#[test]
fn what_the_load_found_doubtful_is_said_of_trials_that_count() {
    require!(Ruby);
    let folder = experiment("redirects", "STATUS = '302 Found', WRONG_AFTER = '1'", "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(3).assert_says("load, redirects: all of 40 responses are redirects");
    folder.assert_nothing_left();
    let trials = &results(&folder)["results"]["trials"];
    assert!(trials.as_array().unwrap().iter().all(|trial| trial["outcome"] == "ok"), "{trials}");
}

#[test]
fn a_server_that_the_oom_killer_kills_is_counted_as_oom_killed() {
    require!(Ruby);
    let group = MemoryGroup::new("server", 80_000_000);
    let hog = format!("HOG_AFTER = '10', CGROUP = '{}'", group.path.display());
    let folder = experiment("hog", &hog, "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("oom-killed").assert_says("for lack of memory");
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["outcome"] == "oom-killed"), "{trials:?}");
}
