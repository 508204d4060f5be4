//! A file that gets its name only when it is complete.
//!
//! It is written in a folder of its own beside that name, which no other program knows. So nothing is removed that carat
//! did not create, whatever files a user has. This is for files that SQLite writes, which must have a path; its folder is found
//! as for every other file ([`output`](carat_files)).

use carat_files::without_links;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How the name of the folder ends.
const SUFFIX: &str = ".part";

/// A place for a file that is not complete. Dropping it removes what was written.
#[derive(Debug)]
pub(crate) struct FreshFile {
    folder: TempDir,
    /// The folder, locked as long as somebody writes in it.
    _lock: Option<File>,
    path: PathBuf,
    /// The name that it gets, without links on the way.
    target: PathBuf,
}

impl FreshFile {
    /// A place for the file `path`, beside it on the same file system. No file is there yet.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        let target = without_links(path)?;
        let name = target.file_name().unwrap_or_default();
        let mut prefix = OsString::from(".");
        prefix.push(name);
        remove_abandoned(folder_of(&target), &prefix, name);
        let folder = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(SUFFIX)
            .tempdir_in(folder_of(&target))?;
        let lock = locked(folder.path());
        let path = folder.path().join(name);
        Ok(Self { folder, _lock: lock, path, target })
    }

    /// Where to write it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name once its content is on the disk; whatever had that name is replaced.
    pub(crate) fn replace(self) -> io::Result<()> {
        self.publish(|from, to| fs::rename(from, to))
    }

    /// Gives it its name once its content is on the disk. Fails where something has that name.
    pub(crate) fn publish_new(self) -> io::Result<()> {
        self.publish(rename_new)
    }

    /// Renames it, and waits until its name is on the disk too.
    fn publish(self, rename: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        let Self { folder, path, target, .. } = self;
        // Content before name (fsync(2)): after a crash the name must not lead to an empty file.
        File::open(&path)?.sync_all()?;
        rename(&path, &target)?;
        folder.close()?;
        // The name itself is on the disk once its folder is.
        File::open(folder_of(&target))?.sync_all()
    }
}

/// The folder with its lock; `None` where somebody has it, or where the file system locks no folders.
fn locked(folder: &Path) -> Option<File> {
    let opened = File::open(folder).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok().map(|()| opened)
}

/// Removes what a carat that was killed left beside the file `name`: folders that nobody has locked, with files of SQLite alone.
fn remove_abandoned(above: &Path, prefix: &OsStr, name: &OsStr) {
    let starts =
        |text: &OsStr, with: &OsStr| text.as_encoded_bytes().starts_with(with.as_encoded_bytes());
    let is_ours = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.flatten().all(|entry| starts(&entry.file_name(), name))
    };
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let (own, path) = (entry.file_name(), entry.path());
        let is_named = starts(&own, prefix) && own.as_encoded_bytes().ends_with(SUFFIX.as_bytes());
        if is_named && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_ours(&path) {
            // What cannot be removed stays; it is in nobody's way.
            let _ = locked(&path).map(|_lock| fs::remove_dir_all(&path));
        }
    }
}

/// Renames a file; fails where something has the new name.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems without this flag, such as NFS; there another process may take the name between the two steps.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        other => Ok(other?),
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_complete_leaves_nothing_and_a_complete_one_only_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.carat");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let fresh = FreshFile::beside(&path).unwrap();
        fs::write(fresh.path(), "half").unwrap();
        drop(fresh);
        assert_eq!(names(), 0);
        for content in ["one", "two"] {
            let fresh = FreshFile::beside(&path).unwrap();
            fs::write(fresh.path(), content).unwrap();
            fresh.replace().unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), (content, 1));
        }
    }

    #[test]
    fn what_a_killed_carat_left_is_removed_and_neither_what_is_written_nor_what_a_user_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.carat");
        let [abandoned, of_user] =
            [".a.caratAAAAAA.part", ".a.caratBBBBBB.part"].map(|name| folder.path().join(name));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("a.carat-journal"), "half").unwrap();
        fs::create_dir(&of_user).unwrap();
        fs::write(of_user.join("thesis"), "precious").unwrap();
        let written = FreshFile::beside(&path).unwrap();
        let _other = FreshFile::beside(&path).unwrap();
        assert!(!abandoned.exists() && of_user.join("thesis").exists());
        assert!(written.path().parent().unwrap().exists(), "somebody writes there");
    }

    #[test]
    fn it_is_not_written_through_a_link_of_another_user() {
        use carat_files::own_user;
        if own_user() != 0 {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("root"), folder.path().join("link"));
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        FreshFile::beside(&link.join("a.carat")).unwrap_err();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn a_new_name_never_replaces_what_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.carat");
        fs::write(&path, "theirs").unwrap();
        let fresh = FreshFile::beside(&path).unwrap();
        fs::write(fresh.path(), "ours").unwrap();
        let refused = fresh.publish_new().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
