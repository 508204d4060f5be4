//! Processes that this user may not read.

use crate::support::{Folder, Ran, finish};
use std::io::Read;
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
fn another_users_process_has_the_kernels_figures_and_what_is_missing_is_named() {
    require!(Root);
    let folder = Folder::new("foreign");
    let mut server = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = server.id().to_string();
    let explained = as_nobody(&folder, &["explain", &pid]);
    let recorded = as_nobody(&folder, &["record", "--for", "1s", "-o", "r.json", "--pid", &pid]);
    server.kill().unwrap();
    server.wait().unwrap();
    let helps = "the process belongs to user 0; run carat as that user or as root, or give it CAP_SYS_PTRACE\n";
    explained.assert_code(0).assert_says(&pid).assert_says(helps);
    explained.assert_says("What the kernel tells of them").assert_says("sleep 60");
    recorded.assert_code(1).assert_says(&pid).assert_says(helps.trim_end());
}

#[test]
fn root_without_the_right_to_trace_is_told_so_and_what_was_asked_for_is_not_answered() {
    require!(Root);
    let folder = Folder::new("no-trace");
    let mut command = Command::new("sleep");
    let mut server =
        command.arg("60").uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).spawn().unwrap();
    let pid = server.id().to_string();
    let explain = |more: &[&str]| {
        let carat = folder.carat(&[&["explain", pid.as_str()][..], more].concat());
        let mut command = Command::new("setpriv");
        // As in a container; since Linux 6.13 the other two also let read `smaps` (may_access_mm, kernel/fork.c).
        let without = "-sys_ptrace,-sys_admin,-perfmon";
        command.args(["--bounding-set", without, "--inh-caps", without, "--"]);
        command.arg(carat.get_program()).args(carat.get_args()).current_dir(folder.path("."));
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let (plain, owners) = (explain(&[]), explain(&["--owners"]));
    server.kill().unwrap();
    server.wait().unwrap();
    plain.assert_code(0).assert_says("What the kernel tells of them");
    plain.assert_says("the process belongs to user 65534; root lacks CAP_SYS_PTRACE here");
    assert!(!plain.out.contains("as root") && !plain.out.contains("DAC_"), "{}", plain.out);
    owners.assert_code(1).assert_says("root lacks CAP_SYS_PTRACE here");
}

#[test]
fn the_same_user_is_told_that_a_process_is_not_dumpable() {
    require!(Root, Ruby);
    let folder = Folder::new("not-dumpable");
    let become_nobody = format!(
        "Process::GID.change_privilege({NOBODY}); Process::UID.change_privilege({NOBODY}); \
         $stdout.puts; $stdout.flush; sleep"
    );
    let mut command = Command::new("ruby");
    command.args(["-e", &become_nobody]).env_remove("RUBYOPT");
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // Once it has written, it has changed its user.
    server.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let ran = as_nobody(&folder, &["explain", &server.id().to_string()]);
    server.kill().unwrap();
    server.wait().unwrap();
    ran.assert_code(0).assert_says("What the kernel tells of them").assert_says("ruby");
    ran.assert_says(
        "the process is not dumpable, as after it changed its user itself; run carat as root",
    );
    assert!(!ran.out.contains("as that user"), "{}", ran.out);
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
