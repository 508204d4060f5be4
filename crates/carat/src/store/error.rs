//! Errors of results files, with what to do about each.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// Why a results file cannot be used. The file is unchanged in every case.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("there is no results file {0}; run `carat compare` first")]
    Missing(PathBuf),
    /// A new experiment would overwrite it.
    #[error(
        "{0} exists already; add --resume to continue it, --fresh to move it aside and begin anew, or -o to write another file"
    )]
    Exists(PathBuf),
    /// A new file that is not an experiment's would overwrite it.
    #[error("{0} exists already; name a new file with -o")]
    Taken(PathBuf),
    /// A new experiment would overwrite it, and it is not an older experiment's.
    #[error(
        "{0} exists already and is not a results file of carat, so it stays as it is; name another file with -o"
    )]
    NotResults(PathBuf),
    /// Not SQLite, or not from carat.
    #[error("{0} is not a results file of carat; give another file")]
    Foreign(PathBuf),
    #[error(
        "{path} was written by a newer carat (format {found}, this one reads up to {known}); install that version to use it"
    )]
    Newer {
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this carat reads.
        known: i64,
    },
    /// Written by an older carat in another format.
    #[error(
        "{path} was written by an older carat: {difference}; `carat salvage {path} -o {}` copies it into the current format",
        salvaged(.path)
    )]
    Older {
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// Begun by an older carat, which hashed the same plan differently.
    #[error(
        "{path} was begun by an older carat, which computed the hash of a plan in another form, so it cannot be resumed; use -o to begin another file (`carat report` and `carat stats` read this one)"
    )]
    OlderPlan { path: PathBuf },
    /// Begun by another experiment.
    #[error(
        "{path} holds the results of another experiment (`{found}`); use -o to write another file"
    )]
    OtherPlan {
        path: PathBuf,
        /// The name of the experiment it holds.
        found: String,
    },
    /// Another process writes to it.
    #[error("{path} is being written by process {pid}; wait for it, or stop it")]
    Busy { path: PathBuf, pid: u32 },
    /// Not a valid SQLite file, or a value that carat never writes.
    #[error(
        "{path} is damaged: {what}; `carat salvage {path} -o {}` copies the undamaged trials",
        salvaged(.path)
    )]
    Damaged {
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    #[error(
        "{path} is not as carat writes results files: {what}; nothing in it was used: give another file"
    )]
    Unexpected {
        path: PathBuf,
        /// What is not.
        what: String,
    },
    /// Larger than anything that carat writes.
    #[error("{path} is too large: {what}; give another file")]
    TooLarge { path: PathBuf, what: String },
    /// The part with the plan is damaged.
    #[error(
        "the plan in {path} cannot be read ({what}), and no trial can be interpreted without it; run the experiment again with -o"
    )]
    PlanLost {
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// An error of SQLite or of the disk.
    #[error(
        "cannot use the results file {path}: {source}; check the free space and the permissions there"
    )]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// A name for the copy of a results file.
fn salvaged(path: &Path) -> String {
    path.with_extension("salvaged.carat").display().to_string()
}

impl StoreError {
    /// The meaning of an SQLite error for the file at `path`.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            // A file that is no database is of another program; one that is broken is damaged.
            Some(ErrorCode::NotADatabase) => Self::Foreign(path),
            Some(ErrorCode::TooBig) => {
                let what = "a text in it is longer than any that carat writes".to_owned();
                Self::TooLarge { path, what }
            }
            // The progress handler interrupts only when the budget of steps is spent.
            Some(ErrorCode::OperationInterrupted) => {
                let what = "to read it takes more steps than a file of its size needs".to_owned();
                Self::TooLarge { path, what }
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: source.to_string() },
            _ => match source {
                // A value that cannot be converted was not written by carat as it is.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::QueryReturnedNoRows => {
                    Self::Damaged { path, what: source.to_string() }
                }
                source => Self::Sqlite { path, source },
            },
        }
    }

    /// The meaning of a system error for the file at `path`.
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        let source = rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        Self::Sqlite { path: path.to_owned(), source }
    }
}
