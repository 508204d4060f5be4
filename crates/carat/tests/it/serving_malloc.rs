//! Which malloc serves a Ruby, whatever libraries are mapped: `carat explain` and `carat exec --verify` give the same answer.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::{Folder, finish};
use carat_settings::find_allocator;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn library(name: &str) -> PathBuf {
    find_allocator(Path::new("/"), name).unwrap()
}

/// What `explain` says of a Ruby with these libraries preloaded, the first of which serves.
fn explained(names: &[&str]) -> Value {
    let folder = Folder::new("malloc");
    let preload: Vec<String> =
        names.iter().map(|name| library(name).display().to_string()).collect();
    let mut command = TestRuby::OnPath.command(None);
    command.env("LD_PRELOAD", preload.join(":"));
    let ruby = OutsideRuby::start_command(command);
    let ran = folder.run(&["explain", &ruby.pid.to_string(), "--json"]);
    ran.assert_code(0);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn the_allocator_that_serves_is_named_also_where_it_uses_brk_or_another_one_is_mapped() {
    require!(Ruby, Allocator("jemalloc"), Allocator("mimalloc"), Allocator("tcmalloc"));
    for (names, active) in [
        (&["tcmalloc"][..], "tcmalloc"),
        (&["mimalloc", "jemalloc"], "mimalloc"),
        (&["jemalloc", "tcmalloc"], "jemalloc"),
    ] {
        let explained = explained(names);
        let found = &explained["ledger"]["processes"][0]["allocator"];
        assert_eq!(found["active"], active, "{names:?}: {found}");
        let findings = explained["findings"].to_string();
        assert!(!findings.contains("allocator-not-active"), "{names:?}: {findings}");
    }
}

/// The verifier's line about the setting, for a Ruby that inherits this library as its preload.
fn verified(preload: &str, setting: &str) -> String {
    let folder = Folder::new("malloc");
    let script =
        folder.write("server.rb", "require 'socket'\nTCPServer.new('127.0.0.1', 0)\nsleep 6");
    let mut command = folder.carat(&["exec", "--verify", setting, "--", "ruby"]);
    command.arg(script).env("LD_PRELOAD", library(preload));
    let ran = finish(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    ran.assert_code(0);
    ran.talk
}

#[test]
fn a_setting_of_malloc_is_applied_only_where_its_malloc_serves() {
    require!(Ruby, Allocator("jemalloc"));
    let talk = verified("jemalloc", "arena_max=2");
    assert!(talk.contains("does nothing under jemalloc, which LD_PRELOAD names"), "{talk}");
    assert!(talk.contains("verify: arena_max=2 NOT APPLIED: jemalloc's malloc serves"), "{talk}");
    let talk = verified("jemalloc", "malloc_conf=narenas:2");
    assert!(!talk.contains("does nothing"), "{talk}");
    assert!(talk.contains("verify: malloc_conf=narenas:2 applied"), "{talk}");
}
