//! The `/proc` directory of one process, held open so that a reused pid is never mistaken for the process.

use crate::process::{Identity, ProcError, ProcRoot, parse_stat};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// The open directory of one process. Its files disappear with the process.
#[derive(Debug)]
pub(super) struct Directory {
    pid: u32,
    path: PathBuf,
    handle: OwnedFd,
    status: Option<OwnedFd>,
}

impl Directory {
    /// Opens the directory of `identity`. If its pid belongs to another process now, the process has ended.
    pub(super) fn open(root: &ProcRoot, identity: Identity) -> Result<Self, ProcError> {
        let pid = identity.pid;
        let path = root.path().join(pid.to_string());
        let handle = open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failure(pid, path.clone(), errno))?;
        // Checked after opening: the handle stays with this process, whoever gets its pid later.
        let directory = Self { pid, path, handle, status: None };
        let mut text = Vec::new();
        directory.read("stat", &mut text)?;
        match parse_stat(&String::from_utf8_lossy(&text)) {
            Some(stat) if stat.identity() == identity => Ok(directory),
            Some(_) => Err(ProcError::Ended(pid)),
            None => Err(ProcError::Unexpected { path: directory.path.join("stat") }),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Path of one of its files, for messages.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn open_file(&self, name: &str) -> Result<OwnedFd, ProcError> {
        openat(&self.handle, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| self.failure(name, errno))
    }

    /// Reads one file into `buffer`. The file is opened each time, because `maps`, `smaps` and `pagemap` belong to the
    /// program that ran when they were opened, and a server may call `exec`.
    pub(super) fn read(&self, name: &str, buffer: &mut Vec<u8>) -> Result<(), ProcError> {
        let file = self.open_file(name)?;
        read_from_start(&file, buffer).map_err(|errno| self.failure(name, errno))
    }

    /// Hands one file to `each`, piece by piece.
    pub(super) fn read_in_pieces(
        &self,
        name: &str,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), ProcError> {
        let file = self.open_file(name)?;
        let mut piece = vec![0; CHUNK];
        loop {
            match rustix::io::read(&file, &mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => each(&piece[..length]),
                // A signal, such as that of an ended child, is no failure.
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failure(name, errno)),
            }
        }
    }

    /// Reads `status` into `buffer`, through a file that stays open.
    pub(super) fn read_status(&mut self, buffer: &mut Vec<u8>) -> Result<(), ProcError> {
        // Unlike `maps`, it follows the process through an exec, so its path is looked up once.
        if self.status.is_none() {
            self.status = Some(self.open_file("status")?);
        }
        let Some(file) = &self.status else { return Err(ProcError::Ended(self.pid)) };
        read_from_start(file, buffer).map_err(|errno| self.failure("status", errno))
    }

    /// The error of a failed read of one of its files.
    pub(super) fn failure(&self, name: &str, errno: Errno) -> ProcError {
        failure(self.pid, self.path.join(name), errno)
    }
}

/// Reads a whole file into `buffer`, which keeps its capacity between reads.
pub(super) fn read_from_start(file: &OwnedFd, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    let mut length = 0;
    loop {
        if buffer.len() < length + CHUNK {
            buffer.resize(length + CHUNK, 0);
        }
        match rustix::io::pread(file, &mut buffer[length..], length as u64) {
            Ok(0) => break,
            // A short read is not the end: the kernel hands out one buffer at a time (seq_file).
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    buffer.truncate(length);
    Ok(())
}

fn failure(pid: u32, path: PathBuf, errno: Errno) -> ProcError {
    match errno {
        // ENOENT is a directory that is gone, ESRCH a read of one that was open (proc(5)).
        Errno::NOENT | Errno::SRCH => ProcError::Ended(pid),
        Errno::ACCESS | Errno::PERM => ProcError::denied(pid, path),
        errno => ProcError::Failed { path, source: io::Error::from(errno) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_pid_with_another_start_time_has_ended() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        assert!(Directory::open(&root, me).is_ok());
        let later = Identity { start_ticks: me.start_ticks + 1, ..me };
        assert!(matches!(Directory::open(&root, later), Err(ProcError::Ended(_))));
    }

    #[test]
    fn a_process_that_ends_while_held_has_ended_and_is_no_failure() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let root = ProcRoot::default();
        let mut held = Directory::open(&root, root.identify(child.id()).unwrap()).unwrap();
        let mut buffer = Vec::new();
        held.read_status(&mut buffer).unwrap();
        assert!(buffer.starts_with(b"Name:\tcat"));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(matches!(held.read_status(&mut buffer), Err(ProcError::Ended(_))));
        assert!(matches!(held.read("smaps_rollup", &mut buffer), Err(ProcError::Ended(_))));
    }
}
