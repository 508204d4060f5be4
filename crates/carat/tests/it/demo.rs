//! `carat demo`: from nothing to a verdict, and nothing is left but results and page.

use crate::support::{Folder, finish, signal, wait_until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

/// Memory of the variants of the demo, in bytes, of simulated servers.
const FAKE: &str = "71e6:100e3,70e6:100e3,69e6:100e3";

fn start(folder: &Folder, more: &[&str]) -> Child {
    let arguments = [&["demo", "--fake", FAKE], more].concat();
    let mut command = folder.carat(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn it_ends_with_a_verdict_and_leaves_results_and_page_and_keeps_earlier_ones() {
    require!(ActionCable);
    let folder = Folder::new("demo");
    for _ in 0..2 {
        let ran = folder.run(&["demo", "--blocks", "4", "--fake", FAKE]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        ran.assert_says("Memory ").assert_says("demo.html").assert_says("app      `carat workload");
        folder.assert_nothing_left();
    }
    for file in ["demo.carat", "demo.html", "demo.old-1.carat", "demo.old-1.html"] {
        assert!(folder.path(file).is_file(), "{file}");
    }
    let ran = folder.run(&["demo", "--blocks", "1", "--fake", FAKE, "-o", "kept"]);
    ran.assert_says("app      kept\n");
    assert!(folder.path("kept/config.ru").is_file());
    folder.assert_nothing_left();
}

#[test]
fn after_ctrl_c_and_kill_nothing_is_left_and_it_can_be_continued() {
    require!(ActionCable);
    let folder = Folder::new("demo");
    for (killed, more) in [(Signal::INT, &[][..]), (Signal::KILL, &["--resume"])] {
        let child = start(&folder, &[&["--fake-pace", "200"], more].concat());
        wait_until("the workload and the trials have their folders", || {
            folder.path("demo.carat").exists() && folder.private_directories().len() == 2
        });
        signal(&child, killed);
        let ran = finish(child);
        if killed == Signal::INT {
            ran.assert_code(130).assert_says("continue with carat demo --resume");
            folder.assert_nothing_left();
        }
    }
    // Simulated trials have no reaper, so the next run removes the folder of theirs.
    wait_until("the workload is removed", || folder.private_directories().len() <= 1);
    let ran = folder.run(&["demo", "--resume", "--fake", FAKE]);
    assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
    folder.assert_nothing_left();
}

#[test]
fn what_is_missing_is_named_with_its_packages_and_nothing_is_written() {
    let folder = Folder::new("demo");
    // A Ruby that has no gems but Puma.
    let script = "#!/bin/sh\nshift 2\nfor gem; do [ \"$gem\" = puma ] || echo \"$gem\"; done\n";
    fs::create_dir(folder.path("bin")).unwrap();
    let ruby = folder.write("bin/ruby", script);
    fs::set_permissions(&ruby, fs::Permissions::from_mode(0o755)).unwrap();
    for (path, expected) in [
        (
            format!("{}:/usr/bin:/bin", folder.path("bin").display()),
            "activerecord, railties and sqlite3, which",
        ),
        ("/nowhere".to_owned(), "the demo needs ruby, actionpack, "),
    ] {
        let mut command = folder.carat(&["demo"]);
        command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = finish(command.spawn().unwrap());
        ran.assert_code(1).assert_says(expected);
        ran.assert_says("apt-get install --no-install-recommends ").assert_says("ruby-actionpack");
        folder.assert_nothing_left();
        assert!(!folder.path("demo.carat").exists());
    }
}
