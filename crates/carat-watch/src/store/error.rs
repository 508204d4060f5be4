//! Errors of the store, with what to do about each.

use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

/// Why a store cannot be used. The file is unchanged in every case.
#[derive(Debug, thiserror::Error)]
pub enum WatchStoreError {
    /// There is no such file.
    #[error("there is no store {0}; `carat watch` makes one")]
    Missing(PathBuf),
    /// Not SQLite, or not from `carat watch`.
    #[error("{0} is not a store of `carat watch`; name another file with --store")]
    Foreign(PathBuf),
    /// Written by a later version.
    #[error(
        "{path} was written by a newer carat (format {found}, this one reads up to {known}); install that version, or name another file with --store"
    )]
    Newer {
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest that this carat reads.
        known: i64,
    },
    /// Another watch writes to it.
    #[error(
        "{path} is being written by the `carat watch` with pid {pid}; stop that one, or name another file with --store"
    )]
    Busy {
        path: PathBuf,
        /// The pid in its own namespace, as it wrote it.
        pid: String,
    },
    /// Not a valid database, or a value that carat never writes.
    #[error("{path} is damaged: {what}")]
    Damaged {
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Somebody removed or moved it while it was written to.
    #[error("{0} was removed or moved while it was written to")]
    Moved(PathBuf),
    /// There is no room, or the disk fails.
    #[error(
        "cannot write to {path}: {what}; check the free space and the permissions there, or name another file with --store"
    )]
    Unwritable {
        path: PathBuf,
        /// The cause.
        what: String,
    },
}

impl WatchStoreError {
    /// The meaning of an error of SQLite for the file at `path`.
    pub(crate) fn from_sqlite(path: &Path, source: &rusqlite::Error) -> Self {
        let (path, what) = (path.to_owned(), source.to_string());
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what },
            Some(_) => Self::Unwritable { path, what },
            // A value that has another type than carat writes.
            None => Self::Damaged { path, what },
        }
    }

    pub(crate) fn io(path: &Path, source: &io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), what: source.to_string() }
    }

    /// The same for a store that is open: what is no database any more was one before.
    pub(crate) fn of_open_store(path: &Path, source: &rusqlite::Error) -> Self {
        match Self::from_sqlite(path, source) {
            Self::Foreign(path) => Self::Damaged { path, what: source.to_string() },
            other => other,
        }
    }

    /// Whether the content is lost, so that it must be moved aside to go on.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// Whether nothing can be written before another store is begun.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Moved(_))
    }
}
