//! The exec helper: this binary again, which waits for a signal from carat and then becomes the server.
//!
//! The waiting process already has the server's pid, session and environment, so that sampling can start before
//! the server does. It is a fork of the helper and again a child of carat: `fork(2)` begins a new record of the highest
//! memory, whereas `exec(2)` continues the old one, and carat's own memory is in that of every process it starts with
//! `vfork(2)`.
//!
//! It writes its pid to its standard output and reads a [`LaunchSpec`] as one line of JSON from its standard input. It
//! waits for a second line, writes its highest memory so far, and calls `exec(2)`, which closes the output. A third line
//! says why that failed.

use crate::target::NewRoot;
use crate::target::replace::{cannot_run, limit_main_stack};
use crate::target::root::enter;
use carat_model::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The child is one of carat, like this process. It has the stack of this process, and a copy of its memory.
const CLONE_FLAGS: libc::c_long = (libc::CLONE_PARENT | libc::SIGCHLD) as libc::c_long;

/// A program to start and the environment it starts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Working directory.
    pub(crate) dir: PathBuf,
    /// Variables that override the inherited environment.
    pub(crate) env: BTreeMap<String, String>,
    /// File for standard output and standard error.
    pub(crate) log: PathBuf,
    /// Another root directory, if the server gets one.
    #[serde(default)]
    pub(crate) root: Option<NewRoot>,
    /// The soft limit of its main stack in bytes; `None` leaves it.
    #[serde(default)]
    pub(crate) main_stack: Option<u64>,
}

/// Runs the hidden `exec-helper` command.
pub(crate) fn exec_helper_main() -> ExitCode {
    // SAFETY: this process has one thread, so the child may call any function.
    let forked = unsafe { libc::syscall(libc::SYS_clone, CLONE_FLAGS, 0_u64, 0_u64, 0_u64, 0_u64) };
    // Without a second process this one becomes the server, whose record then includes its own memory.
    if forked > 0 {
        return ExitCode::SUCCESS;
    }
    let Err(problem) = become_server() else { return ExitCode::SUCCESS };
    // The write fails if carat has ended; then no process reads it.
    let _ = writeln!(io::stdout(), "{problem}");
    ExitCode::from(127)
}

fn become_server() -> Result<(), String> {
    // Reported, because carat knows only the pid of the process that made this one.
    writeln!(io::stdout(), "{}", std::process::id()).map_err(|_| "carat has ended")?;
    let mut lines = io::stdin().lock().lines();
    let spec = lines.next().and_then(Result::ok).ok_or("carat has ended")?;
    let spec: LaunchSpec = serde_json::from_str(&spec).map_err(|error| error.to_string())?;
    // Before the wait, so that the process is in its own session when sampling starts.
    rustix::process::setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    lines.next().and_then(Result::ok).ok_or("carat has ended")?;
    // A copy of standard output stays open until exec, to report a failure.
    let report = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
        .map_err(|error| format!("cannot duplicate a pipe: {error}"))?;
    let mut report = File::from(report);
    // As late as possible: what follows counts as the server's.
    let _ = writeln!(report, "{}", highest_memory().0);
    let error = exec(&spec).unwrap_or_else(|error| error);
    let _ = writeln!(report, "{error}");
    Err(String::new())
}

/// Highest resident memory of this process so far (getrusage(2)).
fn highest_memory() -> Bytes {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a buffer of the right type; zeros are a valid value of it, should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    Bytes::from_kib(u64::try_from(usage.ru_maxrss).unwrap_or(0))
}

/// Replaces this process; returns only the reason why that failed.
fn exec(spec: &LaunchSpec) -> Result<String, String> {
    // Before the root changes, so that the path is that of this system.
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&spec.log)
        .map_err(|error| {
            let log = spec.log.display();
            format!("cannot open the log {log}: {error}; choose another place with -o or TMPDIR")
        })?;
    let stderr = log.try_clone().map_err(|error| error.to_string())?;
    if let Some(root) = &spec.root {
        enter(root).map_err(|error| {
            format!(
                "cannot make {} the root: {error}; the setting `root` requires carat to run as root",
                root.system.display()
            )
        })?;
    }
    limit_main_stack(spec.main_stack);
    let [program, arguments @ ..] = spec.command.as_slice() else {
        return Err("the command is empty".into());
    };
    let error = Command::new(program)
        .args(arguments)
        .current_dir(&spec.dir)
        .envs(&spec.env)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(stderr)
        .exec();
    Ok(why_not_run(program, spec, error))
}

/// Why `exec(2)` of a program failed.
fn why_not_run(program: &str, spec: &LaunchSpec, error: io::Error) -> String {
    // A missing working directory is reported as NotFound as well (chdir(2)).
    if error.kind() == io::ErrorKind::NotFound && !spec.dir.is_dir() {
        return format!("there is no directory {}", spec.dir.display());
    }
    cannot_run(program, &spec.env, error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_script_whose_interpreter_is_missing_is_not_said_to_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().display().to_string();
        let said = |program: &str| {
            why_not_run(program, &spec_in(folder.path(), &path), io::ErrorKind::NotFound.into())
        };
        for program in ["server".to_owned(), script.display().to_string()] {
            assert!(said(&program).contains("named in its first line"), "{}", said(&program));
        }
        assert!(said("nosuch").contains("no such program is in PATH"), "{}", said("nosuch"));
    }

    #[test]
    fn a_folder_that_is_missing_is_said_to_be_missing() {
        let spec = spec_in("/no/such".as_ref(), "/bin");
        let said = why_not_run("sh", &spec, io::ErrorKind::NotFound.into());
        assert_eq!(said, "there is no directory /no/such");
    }

    fn spec_in(dir: &std::path::Path, path: &str) -> LaunchSpec {
        LaunchSpec {
            command: Vec::new(),
            dir: dir.into(),
            env: BTreeMap::from([("PATH".to_owned(), path.to_owned())]),
            log: PathBuf::new(),
            root: None,
            main_stack: None,
        }
    }
}
