//! `/proc` itself: reading the files of a process.

use crate::process::{Identity, Stat, parse_stat};
use carat_model::Bytes;
use carat_outside::denied::DeniedCause;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why something about a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The process has ended, which is normal.
    #[error("process {0} has ended")]
    Ended(u32),
    /// It is a thread of the kernel, which has no memory of its own.
    #[error("process {0} is a thread of the kernel, which has no memory of its own")]
    KernelThread(u32),
    /// It has ended and has no memory any more; only its exit status is left.
    #[error(
        "process {pid} has ended and is a zombie without memory, because its parent {parent} has not waited for it (wait(2))"
    )]
    Zombie { pid: u32, parent: u32 },
    /// It is a thread, whose memory is that of its process.
    #[error("{id} is a thread of process {of}, not a process; give {of}")]
    Thread { id: u32, of: u32 },
    /// The kernel denied access.
    #[error("cannot read {path}: {cause}")]
    Denied {
        path: PathBuf,
        /// What forbids it, and what helps.
        cause: DeniedCause,
    },
    /// Reading it would keep the process from mapping memory for too long.
    #[error(
        "{path} is not read, because the process could map no memory meanwhile, for seconds: its page tables cover \
         {covered}, of which {resident} are resident, as after reading memory that was never written"
    )]
    TooLong {
        path: PathBuf,
        /// Bytes of addresses that the kernel would walk over.
        covered: Bytes,
        resident: Bytes,
    },
    /// Any other failure.
    #[error("cannot read {path}: {source}")]
    Failed {
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The text does not have the documented format.
    #[error("{path} does not have the format that proc(5) describes")]
    Unexpected { path: PathBuf },
}

impl ProcError {
    /// The kernel denied access to this file in the folder of a process.
    pub fn denied(pid: u32, path: PathBuf) -> Self {
        // `/proc/PID/FILE`: two levels above the file, also in a captured copy.
        let root = path.ancestors().nth(2).unwrap_or(Path::new("/proc"));
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let cause = DeniedCause::of(root, pid, file);
        Self::Denied { path, cause }
    }
}

/// The kernel's `/proc`, or a captured copy of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcRoot(PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        Self(PathBuf::from("/proc"))
    }
}

impl ProcRoot {
    /// A directory with the layout of `/proc`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of one file of one process.
    pub fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.0.join(pid.to_string()).join(name)
    }

    /// The bytes of one file of one process.
    pub fn read(&self, pid: u32, name: &str) -> Result<Vec<u8>, ProcError> {
        let path = self.file(pid, name);
        fs::read(&path).map_err(|source| proc_error(pid, path, source))
    }

    /// Every pid of this moment, in no particular order.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(&self.0)?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// `/proc/PID/stat`, parsed.
    pub fn stat(&self, pid: u32) -> Result<Stat, ProcError> {
        let text = self.read(pid, "stat")?;
        parse_stat(&String::from_utf8_lossy(&text))
            .ok_or_else(|| ProcError::Unexpected { path: self.file(pid, "stat") })
    }

    /// The identity of the process that has this pid now.
    pub fn identify(&self, pid: u32) -> Result<Identity, ProcError> {
        Ok(self.stat(pid)?.identity())
    }

    /// The same for a process whose memory is to be read.
    ///
    /// # Errors
    /// Also if it is a thread of the kernel or of a process, or a zombie.
    pub fn identify_program(&self, pid: u32) -> Result<Identity, ProcError> {
        let stat = self.stat(pid)?;
        if stat.is_kernel_thread {
            return Err(ProcError::KernelThread(pid));
        }
        // `/proc` has a folder for every thread too, which is only not listed (proc(5)).
        if let Some(of) = self.process_of(pid).filter(|of| *of != pid) {
            return Err(ProcError::Thread { id: pid, of });
        }
        match stat.is_dead() {
            true => Err(ProcError::Zombie { pid, parent: stat.parent }),
            false => Ok(stat.identity()),
        }
    }

    /// The process of a thread; `None` if it cannot be read.
    fn process_of(&self, id: u32) -> Option<u32> {
        let status = self.read(id, "status").ok()?;
        let status = String::from_utf8_lossy(&status);
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    }

    /// Whether this process still runs. A zombie does not.
    pub fn alive(&self, identity: Identity) -> bool {
        // A pid alone could be another process's by now.
        self.stat(identity.pid).is_ok_and(|stat| stat.identity() == identity && !stat.is_dead())
    }
}

fn proc_error(pid: u32, path: PathBuf, source: io::Error) -> ProcError {
    // Reading a file that was opened before the process ended fails with ESRCH.
    match source.kind() {
        ErrorKind::NotFound => ProcError::Ended(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => ProcError::Ended(pid),
        ErrorKind::PermissionDenied => ProcError::denied(pid, path),
        _ => ProcError::Failed { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_the_same_pid_with_another_start_time_is_not() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        assert!(root.alive(me));
        assert!(!root.alive(Identity { start_ticks: me.start_ticks + 1, ..me }));
    }

    #[test]
    fn a_thread_of_the_kernel_has_not_ended_and_has_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("2")).unwrap();
        let stat = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0";
        std::fs::write(folder.path().join("2/stat"), stat).unwrap();
        let error = ProcRoot::new(folder.path()).identify_program(2).unwrap_err().to_string();
        assert!(error.contains("process 2 is a thread of the kernel"), "{error}");
    }

    #[test]
    fn a_thread_and_a_zombie_are_no_processes_whose_memory_can_be_read_and_are_named() {
        let root = ProcRoot::default();
        let (send, receive) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            wait.recv().ok()
        });
        let id = receive.recv().unwrap();
        let error = root.identify_program(id).unwrap_err();
        assert!(
            matches!(error, ProcError::Thread { of, .. } if of == std::process::id()),
            "{error}"
        );
        end.send(()).unwrap();
        thread.join().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start = std::time::Instant::now();
        while !root.stat(child.id()).unwrap().is_dead() && start.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        let error = root.identify_program(child.id()).unwrap_err();
        let me = std::process::id();
        assert!(matches!(error, ProcError::Zombie { parent, .. } if parent == me), "{error}");
        child.wait().unwrap();
        assert!(matches!(root.identify_program(child.id()), Err(ProcError::Ended(_))));
    }

    #[test]
    fn a_missing_process_is_reported_as_ended() {
        let error = ProcRoot::default().stat(u32::MAX - 1).unwrap_err();
        assert!(matches!(error, ProcError::Ended(_)), "{error}");
    }
}
