//! Processes that this user may not read.

use crate::support::{Folder, Ran, finish};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The user `nobody`, who has no rights.
const NOBODY: u32 = 65_534;

fn as_nobody(folder: &Folder, arguments: &[&str]) -> Ran {
    let mut command = folder.carat(arguments);
    command.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

#[test]
fn another_users_process_is_refused_with_what_to_do() {
    require!(Root);
    let folder = Folder::new("foreign");
    let mut server = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = server.id().to_string();
    let explained = as_nobody(&folder, &["explain", &pid]);
    let recorded = as_nobody(&folder, &["record", "--for", "1s", "-o", "r.json", "--pid", &pid]);
    server.kill().unwrap();
    server.wait().unwrap();
    explained.assert_code(1).assert_says(&pid).assert_says("as the same user as the server");
    recorded.assert_code(1).assert_says(&pid).assert_says("as the same user as the server");
}

#[test]
fn without_rights_ones_own_process_is_explained_from_what_is_readable() {
    require!(Root);
    let folder = Folder::new("own");
    let mut command = Command::new("sleep");
    let mut server =
        command.arg("60").uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).spawn().unwrap();
    let ran = as_nobody(&folder, &["explain", &server.id().to_string()]);
    server.kill().unwrap();
    server.wait().unwrap();
    ran.assert_code(0).assert_says("code and files");
}
