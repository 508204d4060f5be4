//! The guard: a small process that outlives a killed carat just long enough to clean up after it.
//!
//! `kill -9` leaves carat no last word, so another process listens for its end: the guard holds the
//! reading end of a pipe that the kernel closes with carat. Whom carat started stands in a file of the
//! private directory; when the pipe closes without a farewell the guard kills them, whatever descends
//! from them, and whoever carries the token, and removes the directory. Should the guard be killed as
//! well, the next run of the experiment does the same.

use crate::process::{Identity, ProcRoot, Tree};
use crate::target::directory::is_run_directory;
use crate::target::stop::signal;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// What carat says before it ends by itself.
const FAREWELL: &str = "farewell";
/// Name of the file that lists whom carat started, one `PID START` a line.
const LIST: &str = "processes";

/// The guard as carat sees it; dropping it says farewell.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    list: File,
    told: BTreeSet<Identity>,
}

impl Guard {
    /// Starts a guard over everything that carries `token` and over `directory`, which it removes if
    /// carat dies.
    pub fn start(exe: &Path, token: &str, directory: &Path) -> io::Result<Self> {
        let list = OpenOptions::new().append(true).create(true).open(directory.join(LIST))?;
        let mut child = Command::new(exe)
            .arg("guard")
            .arg(token)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on the terminal reaches the whole foreground group; the guard must survive it.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe, list, told: BTreeSet::new() })
    }

    /// The guard's own pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells the guard whom to end should carat die.
    pub fn watch(&mut self, identities: impl IntoIterator<Item = Identity>) {
        for identity in identities {
            if self.told.insert(identity) {
                let _ = writeln!(self.list, "{} {}", identity.pid, identity.start_ticks);
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = write!(pipe, "{FAREWELL}");
        }
        let _ = self.child.wait();
    }
}

/// What the hidden `guard` command does: waits for carat's end, then cleans up.
pub fn guard_main(token: &str, directory: &Path) -> ExitCode {
    let mut said = String::new();
    let _ = io::stdin().read_to_string(&mut said);
    if said.trim() != FAREWELL {
        clean_up(token, directory);
    }
    ExitCode::SUCCESS
}

/// Ends everything that a killed run left behind and removes its private directory.
pub fn clean_up(token: &str, directory: &Path) {
    let own = is_run_directory(directory);
    let list = own.then(|| fs::read_to_string(directory.join(LIST)).ok()).flatten();
    end(&list.iter().flat_map(|list| list.lines()).filter_map(parse).collect(), token);
    // Without a list nothing was started in it yet, and then it is empty; anything else is not carat's.
    match list {
        Some(_) => drop(fs::remove_dir_all(directory)),
        None if own => drop(fs::remove_dir(directory)),
        None => {}
    }
}

fn parse(line: &str) -> Option<Identity> {
    let (pid, start) = line.split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? })
}

fn end(watched: &BTreeSet<Identity>, token: &str) {
    let root = ProcRoot::default();
    // No process has this pid, so this tree is made of token carriers alone.
    let nobody = Identity { pid: u32::MAX, start_ticks: 0 };
    let mut trees: Vec<Tree> = watched
        .iter()
        .chain([&nobody])
        .map(|&leader| Tree::new(root.clone(), leader, token))
        .collect();
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
