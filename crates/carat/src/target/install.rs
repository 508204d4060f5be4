//! The libraries where every user can read them and no reboot removes them, for servers that carat does not start.
//!
//! `PREFIX/lib/carat/HASH/` holds one version. A folder is complete when it has its name, and it never changes, so
//! servers of an older version go on.

use crate::target::library::{
    Libraries, LibraryError, NAMES, check_loadable, content_hash, files, holds, unpack_in_cache,
    write,
};
use crate::target::trust::{changeable_by_others, closed_to_others, existing, why_changeable};
use carat_files::own_user;
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder of all versions, below the prefix.
const FOLDER: &str = "lib/carat";
/// Prefixes in which installed libraries are looked for, after that of the carat program.
const PREFIXES: [&str; 2] = ["/usr/local", "/usr"];
/// Folders that are emptied at every boot, or after some time (tmpfiles.d(5)).
const PASSING: [&str; 6] = ["/tmp", "/var/tmp", "/run", "/dev", "/proc", "/sys"];
/// File systems in memory: tmpfs and ramfs (statfs(2)).
const IN_MEMORY: [libc::c_long; 2] = [libc::TMPFS_MAGIC, 0x8584_58f6];

/// Why a file must not be named in a file that configures a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LastingError {
    /// It does not exist.
    #[error("{0} cannot be found")]
    Missing(PathBuf),
    /// Its file system is in memory, or its folder is emptied.
    #[error("a reboot removes {0}")]
    Passing(PathBuf),
    /// Its rights, or those of a folder above it.
    #[error("other users cannot read {0}")]
    Unreadable(PathBuf),
}

/// Why the libraries cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A path that depends on the current folder.
    #[error("`{0}` is not an absolute path; give --prefix a path that begins with `/`")]
    Relative(PathBuf),
    /// Ruby splits `RUBYOPT` at white space.
    #[error("{0}: RUBYOPT cannot hold a path with white space; choose another --prefix")]
    WhiteSpace(PathBuf),
    /// Servers could not load the libraries from there.
    #[error("{0}; choose another --prefix, such as /usr/local")]
    NotLasting(LastingError),
    /// The kernel does not map libraries from this mount.
    #[error("{0}: mounted noexec, so no library can be loaded from it; choose another --prefix")]
    NoExec(PathBuf),
    /// Other users could change what servers load.
    #[error(
        "other users can change {0}, and with it what servers load: {reason}; {remedy}, or choose another --prefix, such as \
         /opt/carat",
        reason = why_changeable(.0).0,
        remedy = why_changeable(.0).1
    )]
    Changeable(PathBuf),
    /// A file or folder cannot be written.
    #[error(
        "cannot write {path}; run this as root (sudo), or choose a --prefix that you may write and every user may read"
    )]
    Write {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
}

/// Libraries that are installed.
#[derive(Debug)]
pub struct Installed {
    pub libraries: Libraries,
    /// Whether they were not there before.
    pub is_new: bool,
}

/// Installs the libraries below a prefix, unless they are there.
///
/// # Errors
/// If they cannot be written, or other users could not load them.
pub fn install(prefix: &Path) -> Result<Installed, InstallError> {
    check_prefix(prefix)?;
    // Compared in full, so that a damaged installation is written again.
    if let Some(libraries) = installed_below(prefix) {
        return Ok(Installed { libraries, is_new: false });
    }
    let folder = prefix.join(FOLDER);
    // Before anything is created: a refusal leaves nothing behind.
    check_rights(existing(&folder))?;
    make_folders(&folder)?;
    check_unchangeable(&folder)?;
    let directory = folder.join(content_hash());
    // In the same folder, because a rename cannot cross file systems (rename(2)).
    let fresh = folder.join(format!(".new-{}", std::process::id()));
    let put = fill(&fresh).and_then(|()| put_in_place(&fresh, &directory));
    // Where the rename has moved it, there is nothing to remove.
    let _ = fs::remove_dir_all(&fresh);
    put?;
    // Again, because a folder of this name may have been there before.
    check_unchangeable(&directory)?;
    for (name, _) in files() {
        check_lasting(&directory.join(name)).map_err(InstallError::NotLasting)?;
    }
    Ok(Installed { libraries: Libraries::below(&directory), is_new: true })
}

/// Removes every installed version below a prefix; returns their folders.
///
/// # Errors
/// If one cannot be removed.
pub fn remove(prefix: &Path) -> Result<Vec<PathBuf>, InstallError> {
    if !prefix.is_absolute() {
        return Err(InstallError::Relative(prefix.to_owned()));
    }
    let folder = prefix.join(FOLDER);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut removed = Vec::new();
    for version in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let name = version.file_name().unwrap_or_default().as_bytes();
        // Only what has the form of a version's name: others may use the folder too.
        if name.len() != content_hash().len() || !name.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        // By name: files that somebody else put there stay, and keep the folder.
        for file in NAMES.map(|name| version.join(name)) {
            fs::remove_file(&file).or_else(ignore_missing).map_err(cannot_write(&file))?;
        }
        fs::remove_dir(&version).map_err(cannot_write(&version))?;
        removed.push(version);
    }
    // It stays if anything else is in it.
    let _ = fs::remove_dir(&folder);
    Ok(removed)
}

/// Installed libraries of this version: below `named`, or else below the prefix of the carat program or a usual one.
pub fn find_installed(named: Option<&Path>) -> Option<Libraries> {
    if let Some(prefix) = named {
        return installed_below(prefix);
    }
    let program = std::env::current_exe().ok();
    // A program elsewhere, as in `target/release`, has no prefix.
    let own = program.as_deref().and_then(Path::parent).filter(|folder| folder.ends_with("bin"));
    let own = own.and_then(Path::parent).map(Path::to_owned);
    own.into_iter().chain(PREFIXES.map(PathBuf::from)).find_map(|prefix| installed_below(&prefix))
}

/// The installed libraries of this version, if the server can load them, or else those in this user's cache.
///
/// # Errors
/// If none are installed and there is no suitable folder for a cache.
pub fn find_libraries() -> Result<Libraries, LibraryError> {
    let installed = find_installed(None).filter(|found| check_loadable(&found.directory).is_ok());
    installed.map_or_else(unpack_in_cache, Ok)
}

/// The prefix below which installed libraries are.
pub fn prefix_of(libraries: &Libraries) -> Option<&Path> {
    libraries.directory.ancestors().nth(1 + Path::new(FOLDER).components().count())
}

/// Checks that every user can read a file, also after the next boot.
///
/// # Errors
/// If that does not hold; the path is the one that hinders.
pub fn check_lasting(file: &Path) -> Result<(), LastingError> {
    // Without links: file system and rights are those of the file that is loaded.
    let file = fs::canonicalize(file).map_err(|_| LastingError::Missing(file.to_owned()))?;
    if PASSING.iter().any(|folder| file.starts_with(folder)) || is_in_memory(&file) {
        return Err(LastingError::Passing(file));
    }
    match closed_to_others(&file) {
        Ok(Some(part)) => Err(LastingError::Unreadable(part)),
        // What cannot be read here cannot be judged; whoever loads it will say so.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Whether a file is in memory, on a system that is not in memory as a whole.
fn is_in_memory(file: &Path) -> bool {
    let in_memory = |path: &Path| statfs(path).is_ok_and(|found| IN_MEMORY.contains(&found.f_type));
    in_memory(file) && !in_memory(Path::new("/"))
}

fn installed_below(prefix: &Path) -> Option<Libraries> {
    let directory = prefix.join(FOLDER).join(content_hash());
    check_unchangeable(&directory).ok()?;
    let whole = files().all(|(name, content)| {
        let file = directory.join(name);
        holds(&file, content) && check_lasting(&file).is_ok()
    });
    (prefix.is_absolute() && whole).then(|| Libraries::below(&directory))
}

fn check_prefix(prefix: &Path) -> Result<(), InstallError> {
    if !prefix.is_absolute() {
        return Err(InstallError::Relative(prefix.to_owned()));
    }
    if prefix.as_os_str().as_bytes().iter().any(u8::is_ascii_whitespace) {
        return Err(InstallError::WhiteSpace(prefix.to_owned()));
    }
    // Of folders that do not exist yet, the nearest one above decides.
    let there = prefix.ancestors().find(|part| part.is_dir()).unwrap_or(Path::new("/"));
    check_lasting(there).map_err(InstallError::NotLasting)?;
    let flags = statvfs(there).map(|found| found.f_flag);
    if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOEXEC)) {
        return Err(InstallError::NoExec(there.to_owned()));
    }
    Ok(())
}

/// A folder that is no link, and in whose place nobody but root and this user can put another.
fn check_unchangeable(folder: &Path) -> Result<(), InstallError> {
    let found = fs::symlink_metadata(folder).map_err(cannot_write(folder))?;
    if found.is_dir() {
        check_rights(folder)
    } else {
        Err(InstallError::Changeable(folder.to_owned()))
    }
}

fn check_rights(folder: &Path) -> Result<(), InstallError> {
    match changeable_by_others(folder, own_user()).map_err(cannot_write(folder))? {
        Some(part) => Err(InstallError::Changeable(part)),
        None => Ok(()),
    }
}

/// Creates the missing folders for every user, whatever the umask.
fn make_folders(folder: &Path) -> Result<(), InstallError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|part| !part.exists()).collect();
    for part in missing.into_iter().rev() {
        fs::create_dir(part)
            .and_then(|()| fs::set_permissions(part, Permissions::from_mode(0o755)))
            .map_err(cannot_write(part))?;
    }
    Ok(())
}

fn fill(fresh: &Path) -> Result<(), InstallError> {
    make_folders(fresh)?;
    for (name, content) in files() {
        let file = fresh.join(name);
        // On the disk before the folder gets its name, so that a crash leaves no empty library.
        write(fresh, &file, content)
            .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o644)))
            .and_then(|()| fs::File::open(&file)?.sync_all())
            .map_err(cannot_write(&file))?;
    }
    Ok(())
}

/// Gives a complete folder its name. Of a damaged one with that name, every file is replaced.
fn put_in_place(fresh: &Path, directory: &Path) -> Result<(), InstallError> {
    if !directory.exists() && fs::rename(fresh, directory).is_ok() {
        return Ok(());
    }
    // Another carat may have won the race; its files have the same content.
    make_folders(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))
        .map_err(cannot_write(directory))?;
    for (name, _) in files() {
        let file = directory.join(name);
        fs::rename(fresh.join(name), &file).map_err(cannot_write(&file))?;
    }
    Ok(())
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Write { path, source }
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_others_cannot_read_or_a_reboot_removes_does_not_last() {
        assert_eq!(check_lasting(Path::new("/bin/sh")), Ok(()));
        for (path, reason) in
            [("/proc/self/exe/none", "cannot be found"), ("/proc/version", "a reboot removes")]
        {
            let error = check_lasting(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(reason), "{path}: {error}");
        }
        // Only root and its group may read it (shadow(5)).
        let error = check_lasting(Path::new("/etc/shadow")).unwrap_err();
        assert!(matches!(error, LastingError::Unreadable(_)), "{error}");
    }

    #[test]
    fn a_prefix_must_be_absolute_and_without_white_space() {
        assert!(matches!(install(Path::new("usr")), Err(InstallError::Relative(_))));
        assert!(matches!(remove(Path::new("usr")), Err(InstallError::Relative(_))));
        assert!(matches!(install(Path::new("/usr/a b")), Err(InstallError::WhiteSpace(_))));
    }

    #[test]
    fn the_prefix_of_libraries_is_what_was_installed_below() {
        let directory = Path::new("/opt/x").join(FOLDER).join(content_hash());
        assert_eq!(prefix_of(&Libraries::below(&directory)), Some(Path::new("/opt/x")));
    }
}
