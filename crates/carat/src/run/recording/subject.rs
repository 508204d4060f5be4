//! What is recorded: a running process, or a command that carat starts.

use crate::run::recording::RecordError;
use crate::target::install::find_libraries;
use crate::target::{
    InjectRequest, Injection, LaunchSpec, Reaper, inject, make_run_directory, new_token,
    run_directory, set_tree,
};
use carat_model::command_line;
use carat_proc::process::{ProcError, ProcRoot, Tree};
use carat_settings::{Scrub, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) enum RecordingSubject {
    /// A process that ran before. It keeps running.
    Running { tree: Box<Tree>, title: String },
    /// A command that carat starts and stops.
    Command(Box<CommandSubject>),
}

/// A command and what must exist before it starts.
#[derive(Debug)]
pub(crate) struct CommandSubject {
    pub(super) spec: LaunchSpec,
    pub(super) reaper: Reaper,
    // Dropped last, because the reaper writes to it.
    _directory: TempDir,
}

impl RecordingSubject {
    /// A running process, with its descendants unless `leader_only`.
    pub(crate) fn running(pid: u32, leader_only: bool) -> Result<Self, RecordError> {
        let root = ProcRoot::default();
        let leader = root.identify_program(pid).map_err(|source| match source {
            ProcError::Ended(pid) => RecordError::NoProcess(pid),
            source => RecordError::Attach { pid, source },
        })?;
        // Any user may identify a process, but only its own user may read its memory.
        root.read(pid, "maps").map_err(|source| RecordError::Attach { pid, source })?;
        let title = root.read(pid, "cmdline").unwrap_or_default();
        let title = command_line(&String::from_utf8_lossy(&title));
        // No token, because somebody else started the process.
        let tree = Tree::new(root, leader, "").seen_by(std::process::id());
        let tree = if leader_only { tree.leader_only() } else { tree };
        Ok(Self::Running { tree: Box::new(tree), title })
    }

    /// A command whose output goes to `log`.
    pub(crate) fn command(command: &[String], log: &Path) -> Result<Self, RecordError> {
        let request = InjectRequest {
            settings: &Settings::default(),
            given: BTreeMap::new(),
            inherited: &|name| std::env::var(name).ok(),
            ruby: None,
            probe: true,
            // The programs that the server starts are observed as well.
            scrub: Scrub::Nothing,
        };
        let Injection { mut env, .. } = inject(&request, find_libraries)?;
        let token = new_token();
        let directory = make_run_directory(&run_directory(&std::env::temp_dir(), &token)).map_err(
            RecordError::machine(
                "cannot create a private directory; set TMPDIR to a folder that can be written",
            ),
        )?;
        let pages = directory.path().join("pages");
        fs::create_dir(&pages)
            .map_err(RecordError::machine("cannot create a folder for the probe's pages"))?;
        set_tree(&mut env, &token, &pages);
        let dir = std::env::current_dir()
            .map_err(RecordError::machine("cannot determine the working directory"))?;
        let log = dir.join(log);
        let reaper = Reaper::start(&token, directory.path())
            .map_err(RecordError::machine("cannot start the reaper"))?;
        let command = command.to_vec();
        let spec = LaunchSpec { command, dir, env, log, root: None, main_stack: None };
        Ok(Self::Command(Box::new(CommandSubject { spec, reaper, _directory: directory })))
    }

    /// The log of a command that does not exist yet.
    pub(super) fn new_log(&self) -> Option<PathBuf> {
        match self {
            Self::Running { .. } => None,
            Self::Command(command) => Some(command.spec.log.clone()).filter(|log| !log.exists()),
        }
    }

    /// The command, or the title of the process.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Running { title, .. } => title.clone(),
            Self::Command(_) => command_line(&self.words().join("\0")),
        }
    }

    /// Program and arguments of a command; empty for a process that ran before.
    pub(crate) fn words(&self) -> &[String] {
        match self {
            Self::Running { .. } => &[],
            Self::Command(command) => &command.spec.command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_never_was_is_not_said_to_have_ended() {
        // Above the largest number that Linux gives (proc(5), pid_max).
        let refused = RecordingSubject::running(5_000_000, false).unwrap_err();
        let said = "there is no process 5000000; `carat ps` lists the Rubies here";
        assert_eq!(refused.to_string(), said);
    }
}
