//! `carat exec --verify`: a process beside the server that looks at it once it has started.

use crate::cli::exec::Start;
use crate::observe::check_settings;
use crate::process::{ProcRoot, Stat, Tree};
use crate::settings::{SettingCheck, SettingStatus, Settings};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How long settings that act at the end of booting may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server is given before anything is said.
const AT_LEAST: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(250);

/// Starts the verifier, an orphan of its own session so that the server has no child it did not make.
pub(crate) fn start_verifier(settings: &Settings, start: &Start) -> io::Result<()> {
    let server = std::process::id();
    // SAFETY: this process has one thread, so the child may do whatever its parent could.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        child => {
            // SAFETY: waits for the child above, which ends at once.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            return Ok(());
        }
    }
    // SAFETY: as above; the process in between ends without running anybody's exit handlers.
    unsafe {
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
    }
    watch(server, settings, start);
    // SAFETY: ends this process without the handlers of the one it was forked from.
    unsafe { libc::_exit(0) }
}

fn watch(server: u32, settings: &Settings, start: &Start) {
    let root = ProcRoot::default();
    let begun = Instant::now();
    let mut checks = Vec::new();
    while begun.elapsed() < PATIENCE {
        std::thread::sleep(STEP);
        let Ok(leader) = root.identify(server) else { break };
        let mut tree = Tree::new(root.clone(), leader, "no token");
        let members: Vec<_> = tree.members().iter().map(Stat::identity).collect();
        checks = check_settings(&root, &members, settings, &start.environment);
        let open = |check: &SettingCheck| !matches!(check.status, SettingStatus::Applied(_));
        if begun.elapsed() >= AT_LEAST && !checks.iter().any(open) {
            break;
        }
    }
    let mut talk = io::stderr();
    for check in &checks {
        let _ = writeln!(talk, "carat verify: {check}");
    }
    if let Some(pages) = &start.pages {
        let _ = std::fs::remove_dir_all(pages);
    }
}
