//! The titles of real servers in `carat ps`: which program, which version, and who serves.

use crate::exec_verify::body_at;
use crate::load_sidekiq::{Redis, sidekiq};
use crate::needs::TestRuby;
use crate::serving::{PASSENGER, Site};
use crate::support::{Folder, Group, wait_until};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The tree of a process, and the roles of its Rubies, sorted.
fn tree_of(folder: &Folder, pid: u32) -> (Value, Vec<String>) {
    let ran = folder.run(&["ps", &pid.to_string(), "--json"]);
    let found: Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    let tree = found["trees"][0].clone();
    let processes = tree["processes"].as_array().unwrap().iter();
    let mut roles: Vec<String> =
        processes.map(|one| one["role"].as_str().unwrap().to_owned()).collect();
    roles.sort();
    (tree, roles)
}

/// Starts a server in a folder of its own and returns its tree, once it has answered.
fn served(command: &[&str]) -> (Value, Vec<String>) {
    let site = Site::new();
    let port = carat::target::free_port().unwrap();
    let (number, dir) = (port.to_string(), site.folder.path("").display().to_string());
    let words = command
        .iter()
        .map(|word| word.replace("{port}", &number).replace("{dir}", dir.trim_end_matches('/')));
    let words: Vec<String> = words.collect();
    let mut server = Command::new(&words[0]);
    server.args(&words[1..]).current_dir(site.folder.path("")).env("SEEN", site.seen("served"));
    server.env_remove("RUBYOPT").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Group::start(server);
    wait_until("the server answers", || body_at(port, "/").is_some());
    // Whoever answered has written a file that is named by its pid.
    let entry = std::fs::read_dir(site.folder.path("served")).unwrap().next().unwrap().unwrap();
    let pid = entry.file_name().to_str().unwrap().parse().unwrap();
    let found = tree_of(&site.folder, pid);
    site.signal_all(rustix::process::Signal::TERM);
    wait_until("the server has ended", || site.processes().iter().all(|pid| *pid == server.0.id()));
    found
}

fn version_of(gem: &str) -> String {
    let script =
        format!("require 'rubygems'; print Gem::Specification.find_by_name('{gem}').version");
    let output = Command::new("ruby").args(["-e", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_real_unicorn_is_a_master_with_its_workers() {
    require!(Ruby, Program("unicorn"));
    let (tree, roles) = served(&["unicorn", "-c", "unicorn.rb", "-l", "127.0.0.1:{port}"]);
    assert_eq!(tree["server"]["program"], "unicorn", "{tree}");
    assert_eq!(roles, ["master", "worker", "worker"], "{tree}");
    assert_eq!(tree["workers"], 2, "{tree}");
}

#[test]
fn a_real_thin_is_named_by_its_title() {
    require!(Ruby, Program("thin"));
    let (tree, roles) =
        served(&["thin", "start", "-a", "127.0.0.1", "-p", "{port}", "-R", "config.ru"]);
    assert_eq!(
        (&tree["server"]["program"], roles.as_slice()),
        (&"thin".into(), &["single".to_owned()][..]),
        "{tree}"
    );
}

#[test]
fn a_real_passenger_has_a_watchdog_a_core_and_workers() {
    require!(Ruby, Program("passenger"));
    let (tree, roles) = served(&PASSENGER);
    assert_eq!(tree["server"]["program"], "passenger", "{tree}");
    for role in ["watchdog", "core", "worker"] {
        assert!(roles.iter().any(|one| one == role), "no {role} in {roles:?}: {tree}");
    }
}

#[test]
fn a_real_sidekiq_has_its_version_and_no_workers() {
    require!(Ruby, Sidekiq);
    let folder = Folder::new("ps-sidekiq");
    let redis = Redis::start(&folder, &[]);
    let server = sidekiq(&folder, TestRuby::OnPath, &redis.url());
    let (tree, roles) = tree_of(&folder, server.0.id());
    assert_eq!(tree["server"]["program"], "sidekiq", "{tree}");
    assert_eq!(tree["server"]["version"], version_of("sidekiq"), "{tree}");
    assert_eq!(roles, ["single"], "{tree}");
}
