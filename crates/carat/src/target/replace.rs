//! Replacing this process by the server, for `exec`.

use crate::target::Injection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Why this process could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("cannot make {root} the root: {source}")]
    Root { root: PathBuf, source: io::Error },
    #[error("cannot run `{program}`: {source}")]
    Exec { program: String, source: io::Error },
}

/// Becomes the command; returns only if that fails.
pub(crate) fn replace_process(command: &[String], injection: &Injection) -> ReplaceError {
    if let Some(root) = &injection.applied.root {
        // chroot(2) leaves the working directory, which would be a way out of the new root.
        let changed = std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"));
        if let Err(source) = changed {
            return ReplaceError::Root { root: root.clone(), source };
        }
    }
    limit_main_stack(injection.applied.main_stack);
    let Some((program, arguments)) = command.split_first() else {
        let source = io::ErrorKind::NotFound.into();
        return ReplaceError::Exec { program: String::new(), source };
    };
    let source = Command::new(program).args(arguments).envs(&injection.env).exec();
    ReplaceError::Exec { program: program.clone(), source }
}

/// Sets the soft limit of the main stack, which the kernel reads at `exec(2)`. Where that is not possible the server starts
/// with the old limit, and the runtime inside it says so on stderr.
pub(super) fn limit_main_stack(bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        // The hard limit stays: only root could raise it again (setrlimit(2)).
        let limit = Rlimit { current: Some(bytes), ..getrlimit(Resource::Stack) };
        let _ = setrlimit(Resource::Stack, limit);
    }
}
