//! The reaper: a small process that outlives a killed carat to clean up after it.
//!
//! `kill -9` gives carat no chance to clean up, so the reaper waits for carat's end. It holds the reading end
//! of a pipe that the kernel closes with carat. A file in the private directory lists the processes that carat
//! started. When the pipe closes without [`CLEAN_EXIT`], the reaper kills these processes, their descendants
//! and every process with the token, and removes the directory. If the reaper is killed too, the next run of
//! the experiment does the same.

use crate::target::directory::is_run_directory;
use crate::target::signal::signal;
use carat_proc::process::{Identity, ProcRoot, Tree};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// What carat writes to the pipe before it exits by itself.
const CLEAN_EXIT: &str = "clean exit";
/// Name of the file that lists the processes carat started, one `PID START` a line.
const LIST: &str = "processes";

/// Carat's handle of the reaper process. Dropping it reports a clean exit.
#[derive(Debug)]
pub struct Reaper {
    exe: PathBuf,
    child: Child,
    pipe: Option<ChildStdin>,
    list: File,
    registered: BTreeSet<Identity>,
}

impl Reaper {
    /// Starts a reaper for every process that carries `token` and for `directory`, which it removes if carat
    /// dies. Makes carat the subreaper of its descendants, so that no orphan escapes to init.
    ///
    /// # Errors
    /// If carat cannot become a subreaper, cannot find its own binary or cannot start it.
    pub fn start(token: &str, directory: &Path) -> io::Result<Self> {
        // Before anything is started, so that no orphan escapes.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let exe = std::env::current_exe()?;
        let list = OpenOptions::new().append(true).create(true).open(directory.join(LIST))?;
        let mut child = Command::new(&exe)
            .arg("reaper")
            .arg(token)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on the terminal signals the whole foreground group; the reaper must survive it.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { exe, child, pipe, list, registered: BTreeSet::new() })
    }

    /// Carat's own binary, which is executed again for every helper process.
    pub(crate) fn exe(&self) -> &Path {
        &self.exe
    }

    /// Pid of the reaper process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Registers processes to kill if carat dies.
    pub(crate) fn register(&mut self, identities: impl IntoIterator<Item = Identity>) {
        for identity in identities {
            if self.registered.insert(identity) {
                // Without the line, the reaper still finds the process by its token.
                let _ = writeln!(self.list, "{} {}", identity.pid, identity.start_ticks);
            }
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // The pipe closes at the end of this block: the reaper reads to its end, and is waited for.
        if let Some(mut pipe) = self.pipe.take() {
            let _ = write!(pipe, "{CLEAN_EXIT}");
        }
        let _ = self.child.wait();
    }
}

/// Runs the hidden `reaper` command: waits for carat's end, then cleans up.
pub(crate) fn reaper_main(token: &str, directory: &Path) -> ExitCode {
    let mut received = String::new();
    // A read that fails leaves the word out, so what is left is cleaned up.
    let _ = io::stdin().read_to_string(&mut received);
    if received.trim() != CLEAN_EXIT {
        clean_up(token, directory);
    }
    ExitCode::SUCCESS
}

/// Kills every process that a killed run left behind and removes its private directory.
pub(crate) fn clean_up(token: &str, directory: &Path) {
    let is_ours = is_run_directory(directory);
    let list = is_ours.then(|| fs::read_to_string(directory.join(LIST)).ok()).flatten();
    kill_all(&list.iter().flat_map(|list| list.lines()).filter_map(parse).collect(), token);
    match list {
        Some(_) => drop(fs::remove_dir_all(directory)),
        // Without a list nothing was started in it, so carat's directory is empty. A directory with content
        // is not carat's and stays.
        None if is_ours => drop(fs::remove_dir(directory)),
        None => {}
    }
}

fn parse(line: &str) -> Option<Identity> {
    let (pid, start) = line.split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? })
}

fn kill_all(registered: &BTreeSet<Identity>, token: &str) {
    let root = ProcRoot::default();
    // No process has this pid, so its tree consists of the processes with the token.
    let absent = Identity { pid: u32::MAX, start_ticks: 0 };
    let mut trees: Vec<Tree> = registered
        .iter()
        .chain([&absent])
        .map(|&leader| Tree::new(root.clone(), leader, token))
        .collect();
    // A child may fork between listing and killing, so repeat until the list is empty.
    for _ in 0..500 {
        let members: BTreeSet<Identity> = trees
            .iter_mut()
            .flat_map(Tree::members)
            .filter(|stat| stat.pid != std::process::id())
            .map(|stat| stat.identity())
            .collect();
        if members.is_empty() {
            return;
        }
        for member in members {
            signal(member, Signal::KILL);
        }
        sleep(Duration::from_millis(10));
    }
}
