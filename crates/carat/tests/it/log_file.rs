//! What carat says that it did: `--log` and `CARAT_LOG`.

use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn a_log_says_what_was_run_without_its_secrets_and_is_continued() {
    let folder = Folder::new("log");
    let arguments = ["exec", "--log", "carat.log", "--", "env", "API_TOKEN=hunter2", "true"];
    for round in 1..=2 {
        folder.run(&arguments).assert_code(0);
        let log = fs::read_to_string(folder.path("carat.log")).unwrap();
        assert_eq!(log.matches("carat begins").count(), round, "{log}");
        assert!(log.contains("API_TOKEN=") && !log.contains("hunter2"), "{log}");
    }
}

#[test]
fn without_a_wish_there_is_no_log_and_a_level_alone_is_written_to_standard_error() {
    let folder = Folder::new("log");
    let silent = folder.run(&["exec", "--", "true"]);
    assert_eq!(silent.talk, "");
    let told = folder.carat(&["exec", "--", "true"]).env("CARAT_LOG", "debug").output().unwrap();
    assert!(String::from_utf8_lossy(&told.stderr).contains("carat begins"), "{told:?}");
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_and_nothing_runs() {
    let folder = Folder::new("log");
    let aim = folder.path("aim");
    fs::write(&aim, "kept").unwrap();
    symlink(&aim, folder.path("link")).unwrap();
    for place in ["link", "none/carat.log", ".", "/dev/null", "/proc/self/mem"] {
        let refused = folder.run(&["exec", "--log", place, "--", "touch", "ran"]);
        refused.assert_code(2);
        assert!(refused.talk.contains("cannot write the log"), "{place}: {}", refused.talk);
    }
    assert_eq!(fs::read_to_string(&aim).unwrap(), "kept");
    assert!(!folder.path("ran").exists());
}

#[test]
fn a_log_of_a_reading_says_which_layout_was_learned_and_whose_malloc_serves() {
    require!(Ruby);
    let ruby = OutsideRuby::start_command(Command::new("ruby"));
    let folder = Folder::new("log");
    let pid = ruby.pid.to_string();
    folder.run(&["explain", &pid, "--log", "carat.log"]).assert_code(0);
    let log = fs::read_to_string(folder.path("carat.log")).unwrap();
    for part in ["layout of heap pages", "candidates: ", "whose malloc serves", "glibc"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}
