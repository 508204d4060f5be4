//! Whether the server accepts nothing more because it has as many files open as it may.
//!
//! Such a server is silent: the kernel completes the handshakes and nobody accepts them. So a load looks into `/proc` once
//! something waits for long or fails, provided that the server runs on this machine.

use crate::clock::MonotonicTime;
use crate::net::Address;
use carat_proc::process::{OpenFiles, ProcRoot, listeners};
use std::sync::{Mutex, OnceLock};

/// Nanoseconds from the first look to the second. Each wait is twice as long as the last, because a look reads the files of
/// every process.
const FIRST_WAIT: u64 = 1_000_000_000;

/// The files of the processes that listen at the server's address.
#[derive(Debug)]
pub struct ServerFiles {
    root: ProcRoot,
    /// Port of a server on this machine.
    port: Option<u16>,
    next: Mutex<NextLook>,
    full: OnceLock<OpenFiles>,
}

/// When the next look is due, and the wait after it.
#[derive(Debug)]
struct NextLook {
    due: MonotonicTime,
    wait: u64,
}

impl ServerFiles {
    pub fn new(root: ProcRoot, server: &Address) -> Self {
        let port = match server {
            // Only loopback is surely this machine; another address could be anybody's.
            Address::Inet(address) if address.ip().is_loopback() => Some(address.port()),
            _ => None,
        };
        let next = NextLook { due: MonotonicTime::default(), wait: FIRST_WAIT };
        Self { root, port, next: Mutex::new(next), full: OnceLock::new() }
    }

    /// Looks at the server's files because something waits or fails, unless it has just been done.
    pub fn look(&self, now: MonotonicTime) {
        let Some(port) = self.port.filter(|_| self.full.get().is_none()) else { return };
        // If it is locked, another thread looks.
        let Ok(mut next) = self.next.try_lock() else { return };
        if now < next.due {
            return;
        }
        // Twice as long each time: a look reads the files of every process, and costs time.
        *next = NextLook { due: now.after(next.wait), wait: next.wait.saturating_mul(2) };
        let files = listeners(&self.root, port).into_iter();
        let mut files = files.filter_map(|pid| OpenFiles::read(&self.root, pid));
        // At the limit, not above: the next `accept` fails (EMFILE, accept(2)).
        if let Some(full) = files.find(|files| files.open >= files.limit) {
            // Another thread may have found the same.
            let _ = self.full.set(full);
        }
    }

    /// The process that may open no more files, once one was seen.
    pub fn full(&self) -> Option<OpenFiles> {
        self.full.get().copied()
    }
}

/// What is wrong and what to do.
pub(crate) fn explain(full: OpenFiles) -> String {
    format!(
        "the server ran out of file descriptors: its process {} has {} of {} open, so it accepts no more connections: raise its limit (`ulimit -n`, `LimitNOFILE=`)",
        full.pid, full.open, full.limit
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::SocketAddr;
    use std::path::Path;

    /// A `/proc` in which process 7 listens on port 9441 with so many files and this limit.
    fn proc_of(folder: &Path, files: u64, limit: u64) -> ProcRoot {
        let fd = folder.join("7/fd");
        fs::create_dir_all(&fd).unwrap();
        fs::create_dir_all(folder.join("net")).unwrap();
        let row = "0: 0100007F:24E1 00000000:0000 0A 0:0 0:0 0 0 0 5123 1";
        fs::write(folder.join("net/tcp"), row).unwrap();
        let line = format!("Max open files            {limit}  4096  files\n");
        fs::write(folder.join("7/limits"), line).unwrap();
        for number in 0..files {
            let target = if number == 0 { "socket:[5123]" } else { "/x" };
            std::os::unix::fs::symlink(target, fd.join(number.to_string())).unwrap();
        }
        ProcRoot::new(folder)
    }

    #[test]
    fn a_server_with_as_many_files_as_it_may_have_is_found_once_something_waits() {
        for (address, files, limit, found) in [
            ("127.0.0.1:9441", 300, 300, true),
            ("127.0.0.1:9441", 299, 300, false),
            ("[::1]:9441", 300, 300, true),
            ("127.0.0.1:9441", 200, 300, false),
            ("127.0.0.1:9442", 300, 300, false),
            ("10.0.0.1:9441", 300, 300, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = proc_of(folder.path(), files, limit);
            let server = Address::Inet(address.parse::<SocketAddr>().unwrap());
            let watch = ServerFiles::new(root, &server);
            assert_eq!(watch.full(), None);
            watch.look(MonotonicTime(1));
            let expected = found.then_some(OpenFiles { pid: 7, open: files, limit });
            assert_eq!(watch.full(), expected, "{address} {files}");
        }
    }
}
