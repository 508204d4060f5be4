//! The private directory of one run: logs, the probe's pages, mounts of another root.
//!
//! Its name is chosen before it is created, so that a run can record the name first. Whenever the run is killed,
//! a later run knows what to remove.

use carat_files::own_user;
use rand::RngExt;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Prefix of every private directory's name.
const PREFIX: &str = "carat-";

/// A random token for the environment of every process of a run.
pub(crate) fn new_token() -> String {
    // 64 random bits: no other user can guess the name, and no two runs share one.
    format!("{:016x}", rand::rng().random::<u64>())
}

/// The private directory of the run with this token, below `temporary`. The path is absolute, because a server
/// has another working directory and a resumed run may have one.
pub(crate) fn run_directory(temporary: &Path, token: &str) -> PathBuf {
    let path = temporary.join(format!("{PREFIX}{token}"));
    std::path::absolute(&path).unwrap_or(path)
}

/// Creates it with mode 0700. Dropping it removes it with its content.
///
/// # Errors
/// If it cannot be created, or if the name exists already, even as a link.
pub(crate) fn make_run_directory(path: &Path) -> io::Result<TempDir> {
    // No random part: the run has recorded the whole name before.
    let name = path.file_name().unwrap_or(OsStr::new(PREFIX));
    tempfile::Builder::new()
        .prefix(name)
        .rand_bytes(0)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(path.parent().unwrap_or(Path::new("/")))
}

/// Creates a private directory for the probes' pages of a server that carat does not stop.
pub(crate) fn create_pages() -> io::Result<PathBuf> {
    let directory = tempfile::Builder::new()
        .prefix("carat-pages-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    Ok(directory.keep())
}

/// Whether this is a private directory of this user, and not a link to one.
///
/// The name may come from a results file that another user wrote.
pub(crate) fn is_run_directory(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    named
        && fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == own_user() && found.mode() & 0o077 == 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_has_mode_0700_and_never_replaces_an_existing_file_or_link() {
        let temporary = tempfile::tempdir().unwrap();
        let path = run_directory(temporary.path(), "t");
        let directory = make_run_directory(&path).unwrap();
        assert_eq!(directory.path(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(is_run_directory(&path));
        make_run_directory(&path).unwrap_err();
        drop(directory);
        assert!(!path.exists());
        symlink(temporary.path(), &path).unwrap();
        make_run_directory(&path).unwrap_err();
        assert!(!is_run_directory(&path));
    }

    #[test]
    fn a_directory_that_others_can_read_or_with_another_name_is_not_a_run_directory() {
        let temporary = tempfile::tempdir().unwrap();
        for (name, mode, expected) in
            [("carat-x", 0o700, true), ("carat-y", 0o755, false), ("photos", 0o700, false)]
        {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_run_directory(&path), expected, "{name}");
        }
    }
}
