//! Why a results file cannot be used, and what to do.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// Why a results file cannot be used. Whatever the reason, the file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("there is no results file {0}; run `carat compare` first")]
    Missing(PathBuf),
    /// A new experiment would overwrite it.
    #[error("{0} exists already; add --resume to go on with it, or -o to write another file")]
    Exists(PathBuf),
    /// Not SQLite, or not from carat.
    #[error("{0} is not a results file of carat; give another file")]
    Foreign(PathBuf),
    /// From a later carat.
    #[error(
        "{path} was written by a newer carat (format {found}, this one reads up to {known}); install that version to use it"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this carat reads.
        known: i64,
    },
    /// From an earlier carat, whose columns were others.
    #[error(
        "{path} was written by an older carat: {difference}; `carat salvage {path} -o NEW` copies it into the form of this one"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The first column that differs.
        difference: String,
    },
    /// From another experiment.
    #[error(
        "{path} holds the results of another experiment (`{found}`); use -o to write another file"
    )]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// The name of the experiment it holds.
        found: String,
    },
    /// Somebody else writes to it.
    #[error("{path} is being written by process {pid}; wait for it, or stop it")]
    Busy {
        /// The file.
        path: PathBuf,
        /// Who runs the experiment.
        pid: u32,
    },
    /// A value that no carat writes.
    #[error("{path} is damaged: {what}; `carat salvage {path} -o NEW` copies what is whole of it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Damaged where the plan stands.
    #[error(
        "the plan in {path} cannot be read ({what}), and without it no trial means anything; run the experiment again with -o"
    )]
    Hopeless {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// What SQLite says of the file or the disk.
    #[error(
        "cannot use the results file {path}: {source}; check the free space and the permissions there"
    )]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// What an error of SQLite's means for the file at `path`.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: source.to_string() },
            _ => match source {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::QueryReturnedNoRows => {
                    Self::Damaged { path, what: source.to_string() }
                }
                source => Self::Sqlite { path, source },
            },
        }
    }

    /// What an error of the system means for the file at `path`.
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        let source = rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        Self::Sqlite { path: path.to_owned(), source }
    }
}
