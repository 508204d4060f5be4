//! Replacing this process by the server, for `exec`.

use crate::target::Injection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why this process could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("cannot make {root} the root: {source}")]
    Root { root: PathBuf, source: io::Error },
    #[error("cannot run `{program}`: {}", why(program, path.as_deref(), source))]
    Exec { program: String, path: Option<OsString>, source: io::Error },
}

/// Why a program cannot be run that was looked for in this `PATH`. What the kernel says of a missing file does not tell which file
/// is missing.
pub(super) fn why(program: &str, path: Option<&OsStr>, source: &io::Error) -> String {
    if source.kind() != io::ErrorKind::NotFound {
        return source.to_string();
    }
    // As execvp(3): only a name without a slash is looked for.
    let exists = match program.contains('/') {
        true => Path::new(program).exists(),
        false => std::env::split_paths(path.unwrap_or_default())
            .any(|folder| folder.join(program).exists()),
    };
    match (exists, program.contains('/')) {
        // ENOENT of a file that exists is that of what its first line or its header names (execve(2)).
        (true, _) => "what would run it, named in its first line or its header, does not exist",
        (false, true) => "there is no such file",
        (false, false) => "no such program is in PATH; install it or give its path",
    }
    .to_owned()
}

/// The `PATH` in which `exec` looks: that of the new environment, if it has one.
pub(super) fn searched_path(of_environment: Option<&String>) -> Option<OsString> {
    of_environment.map(OsString::from).or_else(|| std::env::var_os("PATH"))
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
        return ReplaceError::Exec { program: String::new(), path: None, source };
    };
    let source = Command::new(program).args(arguments).envs(&injection.env).exec();
    let path = searched_path(injection.env.get("PATH"));
    ReplaceError::Exec { program: program.clone(), path, source }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_said_to_be_in_no_folder_of_path() {
        let said = |program: &str| {
            let source = io::ErrorKind::NotFound.into();
            let path = searched_path(None);
            ReplaceError::Exec { program: program.into(), path, source }.to_string()
        };
        assert_eq!(
            said("nosuchprogram"),
            "cannot run `nosuchprogram`: no such program is in PATH; install it or give its path"
        );
        assert_eq!(said("./no/such"), "cannot run `./no/such`: there is no such file");
        assert!(said("sh").ends_with("does not exist"), "{}", said("sh"));
    }
}
