//! The bundled workloads: what is in the binary, and `carat workload`.

use crate::support::Folder;
use carat::config::{Experiment, TuneSpec};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The name in an experiment file, or in one of `carat tune`, which has a goal.
fn name_in(path: &Path) -> String {
    let has_goal = fs::read_to_string(path).unwrap().lines().any(|line| line == "[goal]");
    if has_goal {
        TuneSpec::read_with(path, &[]).unwrap().name
    } else {
        Experiment::read(path).unwrap().name
    }
}

#[test]
fn every_bundled_experiment_file_is_valid_and_has_its_own_name() {
    let mut names = Vec::new();
    for workload in fs::read_dir(checkout().join("workloads")).unwrap() {
        for file in fs::read_dir(workload.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = name_in(&path);
                assert!(!names.contains(&name), "{}: `{name}` is taken", path.display());
                names.push(name);
            }
        }
    }
    assert!(names.len() >= 15, "only {names:?}");
}

/// The files below a folder by path: whether each is executable, and its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, (bool, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let is_executable = fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0;
                let inside = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(inside, (is_executable, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn the_binary_contains_the_committed_files_of_every_workload_and_no_others() {
    require!(Git);
    let (folder, workloads) = (Folder::new("workload"), checkout().join("workloads"));
    let listed = Command::new("git").args(["ls-files"]).current_dir(&workloads).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = folder.run(&["workload", "list"]);
    names.assert_code(0);
    let mut unpacked = 0;
    for name in names.out.lines().filter_map(|line| line.split_whitespace().next()) {
        folder.run(&["workload", "unpack", name]).assert_code(0);
        let found = files(&folder.path(name));
        let committed: Vec<&str> =
            listed.lines().filter_map(|path| path.strip_prefix(name)?.strip_prefix('/')).collect();
        let paths: Vec<&str> = found.keys().map(|path| path.to_str().unwrap()).collect();
        let mut sorted = committed.clone();
        sorted.sort_by_key(|path| PathBuf::from(path));
        assert_eq!(paths, sorted, "{name}");
        let in_checkout = files(&workloads.join(name));
        for (path, content) in found {
            assert_eq!(Some(&content), in_checkout.get(&path), "{name}/{}", path.display());
        }
        unpacked += 1;
    }
    assert!(unpacked >= 6, "{}", names.out);
}

#[test]
fn unpacking_says_what_was_written_and_what_to_run_and_overwrites_nothing() {
    let folder = Folder::new("workload");
    let ran = folder.run(&["workload", "unpack", "rails-hello"]);
    ran.assert_code(0).assert_says("rails-hello/app.rb\n");
    ran.assert_says("next: carat compare rails-hello/carat.toml");
    folder.write("rails-hello/app.rb", "mine");
    let again = folder.run(&["workload", "unpack", "rails-hello"]);
    again.assert_code(1).assert_says("rails-hello exists already").assert_says("-o");
    assert_eq!(fs::read(folder.path("rails-hello/app.rb")).unwrap(), b"mine");
    folder.run(&["workload", "unpack", "rails-hello", "-o", "other/place"]).assert_code(0);
    assert!(folder.path("other/place/carat.toml").is_file());
    let unknown = folder.run(&["workload", "unpack", "rails"]);
    unknown.assert_code(1).assert_says("there is no workload `rails`; there are blog, ");
    assert!(!folder.path("rails").exists());
}

#[test]
fn a_named_folder_takes_the_place_of_the_bundled_workloads() {
    let folder = Folder::new("workload");
    folder.run(&["workload", "unpack", "cable", "-o", "mine/sockets"]).assert_code(0);
    folder.write("mine/sockets/database.sqlite3", "rubbish");
    let listed = folder.run(&["workload", "list", "--folder", "mine"]);
    assert_eq!(listed.assert_code(0).out.lines().count(), 1, "{}", listed.out);
    listed.assert_says("sockets ");
    let mut from_variable = folder.carat(&["workload", "unpack", "sockets"]);
    let ran = from_variable.env("CARAT_WORKLOADS", "mine").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(folder.path("sockets/puma.rb").is_file());
    assert!(!folder.path("sockets/database.sqlite3").exists());
    let missing = folder.run(&["workload", "list", "--folder", "none"]);
    missing.assert_code(1).assert_says("cannot read the workloads in none; leave out --folder");
}
