//! The store of `carat watch`: one SQLite file that survives `kill -9` and power loss, and keeps within its bounds.
//!
//! It is written with a write-ahead log, so that others can read it meanwhile. Every round is one transaction that reaches
//! the disk (`synchronous = FULL`), so at most the round that was being written is lost.

mod error;
mod format;
mod lock;
mod read;
mod rows;
mod set_back;
mod thin;
mod write;

pub use error::WatchStoreError;
pub use format::is_watch_store;
pub use read::Period;
pub use set_back::SetBack;
pub use thin::StoreBounds;
pub use write::Batch;

use crate::store::format::Found;
use crate::store::lock::StoreLock;
use carat_files::{create_folder, without_links};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a store that is moved aside is called after its own name, before the time.
const DAMAGED: &str = ".damaged-";
/// Endings of the files that belong to one store.
const ASIDE: [&str; 3] = ["", "-wal", "-journal"];
/// How long a write waits for a reader that blocks it.
const PATIENCE: Duration = Duration::from_secs(2);

/// An open store.
#[derive(Debug)]
pub struct WatchStore {
    path: PathBuf,
    connection: Connection,
    /// What was found in its place and was moved away.
    moved: Option<PathBuf>,
    /// `None` where it is only read.
    lock: Option<StoreLock>,
    /// Device and inode of the file, to know whether it is still the one at its path; `None` once that is lost.
    file: Option<(u64, u64)>,
    /// Up to which moment each level is thinned.
    thinned_ms: thin::Watermarks,
}

impl WatchStore {
    /// Opens the store to write to it, and creates it where there is none. A damaged one is moved aside.
    ///
    /// # Errors
    /// If another watch writes to it, a newer carat wrote it, or the file is another program's.
    pub fn open(path: &Path, now_ms: u64) -> Result<Self, WatchStoreError> {
        create_folder_of(path)?;
        // Before the lock, which leaves a file of its own: beside another program's nothing is made.
        if let Ok(real) = without_links(path)
            && let Err(error @ (WatchStoreError::Foreign(_) | WatchStoreError::Newer { .. })) =
                format::header(&real, path)
        {
            return Err(error);
        }
        let lock = StoreLock::take(path)?;
        match Self::open_existing(path, false) {
            Ok(connection) => Ok(Self::new(path, connection, None, Some(lock))),
            Err(WatchStoreError::Missing(_)) => {
                let connection = create(path)?;
                Ok(Self::new(path, connection, None, Some(lock)))
            }
            Err(error) if error.is_damage() => {
                let moved = move_aside(path, now_ms)?;
                let connection = create(path)?;
                Ok(Self::new(path, connection, Some(moved), Some(lock)))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the store to read it, also while a watch writes to it.
    ///
    /// # Errors
    /// If there is none, it is damaged, a newer carat wrote it, or the file is another program's.
    pub fn open_to_read(path: &Path) -> Result<Self, WatchStoreError> {
        Ok(Self::new(path, Self::open_existing(path, true)?, None, None))
    }

    /// Begins anew beside what is damaged, or where somebody has taken the store away while it was used.
    ///
    /// # Errors
    /// If the damaged file cannot be moved, another file is in its place, or no other can be made.
    pub fn begin_anew(&mut self, now_ms: u64) -> Result<(), WatchStoreError> {
        let is_in_place = self.is_in_place();
        if !is_in_place {
            // Whoever moved the file gets with it what is still in the log beside its path.
            self.make_room();
            self.place_for_another()?;
        }
        // Closed first, so that nothing is written to the file that is moved.
        self.connection = Connection::open_in_memory()
            .map_err(|error| WatchStoreError::from_sqlite(&self.path, &error))?;
        self.moved = if is_in_place { Some(move_aside(&self.path, now_ms)?) } else { None };
        self.file = None;
        self.connection = create(&self.path)?;
        self.file = identity(&self.path);
        self.thinned_ms = thin::Watermarks::default();
        Ok(())
    }

    /// Prepares to make another store where this one was.
    fn place_for_another(&mut self) -> Result<(), WatchStoreError> {
        create_folder_of(&self.path)?;
        let real =
            without_links(&self.path).map_err(|error| WatchStoreError::io(&self.path, &error))?;
        if !matches!(format::header(&real, &self.path), Ok(Found::Nothing)) {
            let (path, what) = (self.path.clone(), "another file is there now".into());
            return Err(WatchStoreError::Unwritable { path, what });
        }
        // The file of the lock may be gone too, and another watch may have made one.
        self.lock = None;
        self.lock = Some(StoreLock::take(&self.path)?);
        Ok(())
    }

    /// Whether the file that is written is still the one at its path.
    fn is_in_place(&self) -> bool {
        self.file.is_some() && self.file == identity(&self.path)
    }

    /// Where the damaged file is that was in its place; `None` if there was none.
    pub fn moved(&self) -> Option<&Path> {
        self.moved.as_deref()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn new(
        path: &Path,
        connection: Connection,
        moved: Option<PathBuf>,
        lock: Option<StoreLock>,
    ) -> Self {
        let (thinned_ms, file) = (thin::Watermarks::default(), identity(path));
        Self { path: path.to_owned(), connection, moved, lock, file, thinned_ms }
    }

    fn open_existing(path: &Path, reads_only: bool) -> Result<Connection, WatchStoreError> {
        let real = without_links(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => WatchStoreError::Missing(path.to_owned()),
            _ => WatchStoreError::io(path, &error),
        })?;
        // The bytes first: SQLite would call a torn header another program's file.
        match format::header(&real, path)? {
            Found::Nothing => return Err(WatchStoreError::Missing(path.to_owned())),
            Found::Store => {}
        }
        let failed = |error| WatchStoreError::from_sqlite(path, &error);
        let connection = connect(&real, reads_only).map_err(failed)?;
        format::check(&connection, path, !reads_only)?;
        Ok(connection)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, WatchStoreError> {
        work(&self.connection).map_err(|error| WatchStoreError::from_sqlite(&self.path, &error))
    }
}

fn create_folder_of(path: &Path) -> Result<(), WatchStoreError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => create_folder(folder).map_err(|error| WatchStoreError::io(path, &error)),
        None => Ok(()),
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn connect(real: &Path, reads_only: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(real, flags)?;
    prepare(&connection)?;
    if !reads_only {
        return Ok(connection);
    }
    match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
        Ok(()) => Ok(connection),
        // Beside a write-ahead log SQLite needs to make a file. Without one nothing can change under it.
        Err(_) if !beside(real, "-wal").exists() => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(immutable(real), flags)?;
            prepare(&connection)?;
            Ok(connection)
        }
        Err(error) => Err(error),
    }
}

/// A file name as SQLite's URI that says that nobody changes it (sqlite.org/uri.html).
fn immutable(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let escaped = bytes.iter().map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02x}"),
    });
    format!("file:{}?immutable=1", escaped.collect::<String>())
}

/// Restrains what a file of unknown origin can make SQLite do (sqlite.org/security.html).
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // A small cache: the watch keeps within 40 MB.
    connection.pragma_update(None, "cache_size", -1024)?;
    // Pages after which the log goes into the file: with SQLite's 1,000 it would exceed the smallest store, and fill a small disk.
    connection.pragma_update(None, "wal_autocheckpoint", 100)?;
    connection.pragma_update(None, "journal_size_limit", 1 << 20)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "synchronous", "FULL")
}

/// Creates an empty store where there is no file or an empty one.
fn create(path: &Path) -> Result<Connection, WatchStoreError> {
    let real = without_links(path).map_err(|error| WatchStoreError::io(path, &error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let made = Connection::open_with_flags(&real, flags).and_then(|connection| {
        // Titles of processes are for their owner: nobody else may read the file.
        restrict(&real);
        prepare(&connection)?;
        format::create(&connection)?;
        Ok(connection)
    });
    made.map_err(|error| {
        // What was begun without room would be taken for a store, or for another program's file.
        for ending in ASIDE {
            let _ = std::fs::remove_file(beside(&real, ending));
        }
        WatchStoreError::from_sqlite(path, &error)
    })
}

fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // Where that is refused, as on a file system without modes, the file is as closed as its folder.
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
}

/// Another file of SQLite's that belongs to one.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Moves a damaged store and what belongs to it away.
fn move_aside(path: &Path, now_ms: u64) -> Result<PathBuf, WatchStoreError> {
    let to = beside(path, &format!("{DAMAGED}{now_ms}"));
    for ending in ASIDE {
        match std::fs::rename(beside(path, ending), beside(&to, ending)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(WatchStoreError::io(path, &error)),
        }
    }
    // Only an index of the log, which SQLite makes again.
    let _ = std::fs::remove_file(beside(path, "-shm"));
    Ok(to)
}

#[cfg(test)]
mod tests;
