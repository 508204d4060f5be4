//! Replacing this process by the server, for `exec`.

use crate::target::Injection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why this process could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("cannot make {root} the root: {source}")]
    Root { root: PathBuf, source: io::Error },
    #[error("cannot run `{program}`: {why}")]
    Exec { program: String, why: String, source: io::Error },
}

/// Why a program cannot be run with this environment. What the kernel says of a missing file does not tell which file is missing.
fn why(program: &str, env: &BTreeMap<String, String>, source: &io::Error) -> String {
    if source.kind() != io::ErrorKind::NotFound {
        return source.to_string();
    }
    let path = env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    // As execvp(3): only a name without a slash is looked for.
    let exists = match program.contains('/') {
        true => Path::new(program).exists(),
        false => std::env::split_paths(&path.unwrap_or_default())
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

/// The failure of `exec(2)` of a program with this environment.
pub(super) fn cannot_run(
    program: &str,
    env: &BTreeMap<String, String>,
    source: io::Error,
) -> ReplaceError {
    ReplaceError::Exec { program: program.to_owned(), why: why(program, env, &source), source }
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
        return cannot_run("", &injection.env, io::ErrorKind::NotFound.into());
    };
    let source = Command::new(program).args(arguments).envs(&injection.env).exec();
    cannot_run(program, &injection.env, source)
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
            cannot_run(program, &BTreeMap::new(), io::ErrorKind::NotFound.into()).to_string()
        };
        assert_eq!(
            said("nosuchprogram"),
            "cannot run `nosuchprogram`: no such program is in PATH; install it or give its path"
        );
        assert_eq!(said("./no/such"), "cannot run `./no/such`: there is no such file");
        assert!(said("sh").ends_with("does not exist"), "{}", said("sh"));
    }
}
