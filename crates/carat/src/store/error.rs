//! Why a results file cannot be used, and what to do.

use std::path::PathBuf;

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
    #[error(
        "{path} is damaged: {what}; copy what is whole with another SQLite client, or run again with -o"
    )]
    Damaged {
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
