//! One watch for each store, also after `kill -9`: the kernel gives a lock back with the process that had it (flock(2)).

use crate::store::WatchStoreError;
use carat_files::without_links;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Bytes of a pid in the file of the lock.
const PID: u64 = 16;

/// The right to write to a store, until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes the lock of the store at `path`.
    pub(crate) fn take(path: &Path) -> Result<Self, WatchStoreError> {
        let failed = |error: std::io::Error| WatchStoreError::io(path, &error);
        // A file of its own: SQLite's own locks are on the store, and closing another descriptor of it would drop them.
        let name = without_links(&lock_path(path)).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(CWD, &name, flags | OFlags::NONBLOCK, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let _ = (&mut file).take(PID).read_to_string(&mut pid);
                let pid = pid.trim().parse::<u32>().map_or("unknown".into(), |pid| pid.to_string());
                return Err(WatchStoreError::Busy { path: path.to_owned(), pid });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // On a full disk the lock holds without its text.
        written.or_else(|error| match error.kind() {
            std::io::ErrorKind::StorageFull => Ok(()),
            _ => Err(failed(error)),
        })?;
        Ok(Self { _file: file })
    }
}

/// The file with the lock of a store.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}
