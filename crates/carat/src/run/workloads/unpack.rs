//! Writes a workload into a folder.

use crate::run::workloads::source::WorkloadFile;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a workload cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("{0} exists already and stays as it is; name another folder with -o, or remove it")]
    Exists(PathBuf),
    #[error("cannot write {path}; name a folder that you can write with -o")]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the files of a workload into `folder`, which must be new or empty: all of them or nothing.
pub(crate) fn unpack(files: &[WorkloadFile], folder: &Path) -> Result<(), UnpackError> {
    let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.symlink_metadata().is_ok() && !is_empty {
        return Err(UnpackError::Exists(folder.to_owned()));
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    fs::create_dir_all(above).map_err(at(above))?;
    // Beside its place, so that a complete folder only has to be renamed. An interrupted one is hidden.
    let fresh = tempfile::Builder::new()
        .prefix(".carat-workload-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(above)
        .map_err(at(above))?;
    for file in files {
        write(file, fresh.path()).map_err(at(&folder.join(&file.path)))?;
    }
    fs::rename(fresh.path(), folder).map_err(at(folder))?;
    // It has been moved, so dropping the handle must not remove anything.
    let _ = fresh.keep();
    Ok(())
}

fn write(file: &WorkloadFile, folder: &Path) -> io::Result<()> {
    let path = folder.join(&file.path);
    fs::create_dir_all(path.parent().unwrap_or(folder))?;
    let mode = if file.is_executable { 0o755 } else { 0o644 };
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    open.write_all(&file.content)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> UnpackError {
    let path = path.to_owned();
    move |source| UnpackError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::workloads::WorkloadSource;

    fn blog() -> Vec<WorkloadFile> {
        WorkloadSource::Bundled.files("blog").unwrap()
    }

    #[test]
    fn an_unpacked_workload_is_read_again_as_it_was_bundled() {
        let home = tempfile::tempdir().unwrap();
        let files = blog();
        unpack(&files, &home.path().join("deep/er/blog")).unwrap();
        let read = WorkloadSource::Folder(home.path().join("deep/er"));
        assert_eq!(read.names().unwrap(), ["blog"]);
        assert_eq!(read.files("blog").unwrap(), files);
        assert!(files.iter().any(|file| file.path == "ten_boots" && file.is_executable));
        assert!(files.iter().any(|file| file.path == "views/posts/index.html.erb"));
    }

    #[test]
    fn nothing_that_exists_is_overwritten_and_nothing_is_left_of_an_attempt() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("blog");
        fs::create_dir(&folder).unwrap();
        unpack(&blog(), &folder).unwrap();
        fs::write(folder.join("app.rb"), "mine").unwrap();
        assert!(matches!(unpack(&blog(), &folder), Err(UnpackError::Exists(_))));
        assert_eq!(fs::read(folder.join("app.rb")).unwrap(), b"mine");
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(unpack(&blog(), &file), Err(UnpackError::Exists(_))));
        assert!(matches!(unpack(&blog(), &file.join("x")), Err(UnpackError::Write { .. })));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }
}
