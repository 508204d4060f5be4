//! Replacing this process by the server, for `exec`.

use crate::target::Injection;
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
        let changed = std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"));
        if let Err(source) = changed {
            return ReplaceError::Root { root: root.clone(), source };
        }
    }
    let Some((program, arguments)) = command.split_first() else {
        let source = io::ErrorKind::NotFound.into();
        return ReplaceError::Exec { program: String::new(), source };
    };
    let source = Command::new(program).args(arguments).envs(&injection.env).exec();
    ReplaceError::Exec { program: program.clone(), source }
}
