//! The private directory of one run: logs, the probe's pages, another root's mounts.
//!
//! It has its name before it is made, so that a run can note the name first: whenever it is killed,
//! somebody knows what to remove.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How every private directory's name begins.
const PREFIX: &str = "carat-";

/// Where the run with that token keeps what is private, below `temporary`; an absolute path, because a
/// server has another working directory and a resumed run may have one.
pub fn run_directory(temporary: &Path, token: &str) -> PathBuf {
    let path = temporary.join(format!("{PREFIX}{token}"));
    std::path::absolute(&path).unwrap_or(path)
}

/// Makes it, for this user alone; dropping it removes it with everything inside.
///
/// # Errors
/// Where it cannot be made, or where anything of that name is there already, be it a link.
pub fn make_run_directory(path: &Path) -> io::Result<TempDir> {
    let name = path.file_name().unwrap_or(OsStr::new(PREFIX));
    tempfile::Builder::new()
        .prefix(name)
        .rand_bytes(0)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(path.parent().unwrap_or(Path::new("/")))
}

/// Whether that is a private directory of this user's, and not a link to one.
///
/// A directory's name may come from a results file that somebody else made.
pub(crate) fn is_run_directory(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let user = rustix::process::geteuid().as_raw();
    named
        && fs::symlink_metadata(path)
            .is_ok_and(|seen| seen.is_dir() && seen.uid() == user && seen.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_is_closed_to_others_and_takes_no_place_that_is_taken() {
        let temporary = tempfile::tempdir().unwrap();
        let path = run_directory(temporary.path(), "t");
        let made = make_run_directory(&path).unwrap();
        assert_eq!(made.path(), path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(is_run_directory(&path));
        make_run_directory(&path).unwrap_err();
        drop(made);
        assert!(!path.exists());
        symlink(temporary.path(), &path).unwrap();
        make_run_directory(&path).unwrap_err();
        assert!(!is_run_directory(&path));
    }

    #[test]
    fn what_others_may_look_into_or_another_name_is_not_ours() {
        let temporary = tempfile::tempdir().unwrap();
        for (name, mode, ours) in
            [("carat-x", 0o700, true), ("carat-y", 0o755, false), ("photos", 0o700, false)]
        {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_run_directory(&path), ours, "{name}");
        }
    }
}
