//! The libraries for Ruby: embedded in the binary, unpacked where only this user can write.
//!
//! Servers load these files, so no existing file is trusted: folders must be private, no other user may rename them,
//! links are rejected, and a file is used only if its content equals the embedded content.

use crate::target::trust::{can_become_others, changeable_by_others, closed_to_others, existing};
use carat_files::own_user;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SHIM: &str = "carat_shim.rb";
/// A hyphen would break the name of the `Init_` function that Ruby derives from a library's name.
const PROBE: &str = "carat_probe.so";
const RUNTIME: &str = "carat_runtime.so";

/// The names that files have in one build or another. The shim loads those with `.musl` if its Ruby is built for musl.
pub(super) const NAMES: [&str; 5] =
    [SHIM, PROBE, RUNTIME, "carat_probe.musl.so", "carat_runtime.musl.so"];

/// Name and content of every library of this build: for glibc, and if `bin/package` built it for musl too.
const LIBRARIES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/libraries.rs"));

/// Name and content of every file of this build.
pub(super) fn files() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let shim: (&str, &[u8]) = (SHIM, include_bytes!("shim.rb"));
    [shim].into_iter().chain(LIBRARIES.iter().copied())
}

/// The paths of the unpacked files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// The folder that contains the other three.
    pub directory: PathBuf,
    /// The Ruby file for `RUBYOPT=-r`.
    pub shim: PathBuf,
    /// The library that observes, for `CARAT_PROBE`.
    pub probe: PathBuf,
    /// The library that changes memory management, for `CARAT_RUNTIME`.
    pub runtime: PathBuf,
}

impl Libraries {
    /// The files in this folder.
    pub(super) fn below(directory: &Path) -> Self {
        let [shim, probe, runtime] = [SHIM, PROBE, RUNTIME].map(|name| directory.join(name));
        Self { directory: directory.to_owned(), shim, probe, runtime }
    }
}

/// Why the libraries could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Ruby splits `RUBYOPT` at white space.
    #[error(
        "{0}: RUBYOPT cannot hold a path with white space; set XDG_CACHE_HOME to another folder"
    )]
    WhiteSpace(PathBuf),
    /// Other users could change the files that servers load.
    #[error("{0}: not a private folder ({1}); remove it or set XDG_CACHE_HOME to another folder")]
    NotPrivate(PathBuf, &'static str),
    /// Another user could put other files in their place.
    #[error(
        "{0}: other users can rename what is in it, and put libraries of their own there; set XDG_CACHE_HOME to a folder \
         that only this user and root can write to, as are those above it"
    )]
    Changeable(PathBuf),
    /// A server that changes its user could not load the libraries, and Ruby does not start without a file of `RUBYOPT`.
    #[error(
        "{0}: other users cannot enter it, so a server that changes its user could not start; run `carat install` as root, or set \
         XDG_CACHE_HOME to a folder that every user can enter"
    )]
    Closed(PathBuf),
    /// The kernel does not map libraries from this mount.
    #[error(
        "{0}: mounted noexec, so no library can be loaded from it; set XDG_CACHE_HOME to another folder"
    )]
    NoExec(PathBuf),
    /// A file or folder cannot be written.
    #[error("{path}: cannot be written; set XDG_CACHE_HOME to a folder of this user")]
    Io {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The server has another root, and cannot open files of this one.
    #[error(
        "carat's libraries are outside the root {0}; trials of `carat compare` have them inside"
    )]
    OutsideRoot(PathBuf),
    /// The command gives the server other files, and Ruby does not start without a file of `RUBYOPT`.
    #[error(
        "`{0}` gives the server other files than carat's; put `carat exec` behind it, as in `{0} … carat exec … -- ruby`"
    )]
    OtherFiles(String),
    /// The list of candidates is empty.
    #[error("there is no folder to unpack the libraries in; set XDG_CACHE_HOME")]
    NoCandidate,
}

/// Unpacks the libraries in this user's cache.
///
/// # Errors
/// If no candidate folder is suitable.
pub fn unpack_in_cache() -> Result<Libraries, LibraryError> {
    unpack_in_first(&cache_roots(|name| std::env::var_os(name), own_user()))
}

/// The folders to unpack in, by preference: the named cache, for root that of the system, the user's, a folder under `/tmp`.
fn cache_roots(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> Vec<PathBuf> {
    let [cache, home] = ["XDG_CACHE_HOME", "HOME"]
        .map(|name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute()));
    [
        cache.map(|cache| cache.join("carat")),
        // A server that root starts may change its user before Ruby loads the libraries, and then cannot enter root's home.
        (user == 0).then(|| PathBuf::from("/var/cache/carat")),
        home.map(|home| home.join(".cache/carat")),
        Some(PathBuf::from(format!("/tmp/carat-{user}"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Unpacks in the first of `roots` that is suitable. The error is that of the first.
fn unpack_in_first(roots: &[PathBuf]) -> Result<Libraries, LibraryError> {
    let mut first = None;
    for root in roots {
        match unpack(root) {
            Ok(libraries) => return Ok(libraries),
            // The first folder is the one that the user expects.
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(LibraryError::NoCandidate))
}

/// Unpacks into `cache_root/<content hash>/`, unless an earlier call has.
///
/// Creates `cache_root` if it is missing. Both folders must belong to this user and not be links. Other users may not write to
/// them, nor rename any folder above. They must be able to enter them and every folder above if this user's servers can change
/// their user, and otherwise may not enter the second. Nothing is created in a folder of another user.
pub fn unpack(cache_root: &Path) -> Result<Libraries, LibraryError> {
    let cache_root = &without_links_above(cache_root)?;
    // Ruby splits RUBYOPT at white space and knows no quotes.
    if cache_root.as_os_str().as_bytes().iter().any(u8::is_ascii_whitespace) {
        return Err(LibraryError::WhiteSpace(cache_root.to_owned()));
    }
    let directory = cache_root.join(content_hash());
    let access = Access::of_user();
    access.make_folders_above(cache_root)?;
    // An existing cache may be readable by others.
    for (folder, forbidden_bits) in [(cache_root, 0o022), (&directory, access.forbidden)] {
        DirBuilder::new().recursive(true).mode(access.folder).create(folder).map_err(at(folder))?;
        check_private(folder, forbidden_bits)?;
    }
    check_loadable(&directory)?;
    for (name, content) in files() {
        let file = directory.join(name);
        if !holds(&file, content) {
            write(&directory, &file, content).map_err(at(&file))?;
        }
        access.open_to_others(&file, access.file)?;
    }
    // Whatever the umask is.
    for folder in [cache_root, &directory] {
        access.open_to_others(folder, access.folder)?;
    }
    Ok(Libraries::below(&directory))
}

/// Who may read the libraries. They are no secret, but only servers that change their user need them readable by others.
struct Access {
    folder: u32,
    file: u32,
    forbidden: u32,
    /// Whether others must be able to load them.
    is_shared: bool,
}

impl Access {
    fn of_user() -> Self {
        match can_become_others() {
            true => Self { folder: 0o755, file: 0o644, forbidden: 0o022, is_shared: true },
            false => Self { folder: 0o700, file: 0o600, forbidden: 0o077, is_shared: false },
        }
    }

    /// Creates the missing folders above the cache.
    fn make_folders_above(&self, cache_root: &Path) -> Result<(), LibraryError> {
        let Some(above) = cache_root.parent() else { return Ok(()) };
        let there = existing(above);
        // Before anything is created: a refusal leaves nothing behind.
        if self.is_shared
            && let Some(part) = closed_to_others(there).map_err(at(there))?
        {
            return Err(LibraryError::Closed(part));
        }
        let mut missing: Vec<&Path> = above.ancestors().take_while(|part| *part != there).collect();
        missing.reverse();
        for folder in missing {
            DirBuilder::new()
                .recursive(true)
                .mode(self.folder)
                .create(folder)
                .map_err(at(folder))?;
            self.open_to_others(folder, self.folder)?;
        }
        Ok(())
    }

    /// Gives a file or folder of ours the bits that it lacks.
    fn open_to_others(&self, path: &Path, wanted: u32) -> Result<(), LibraryError> {
        let mode = fs::symlink_metadata(path).map_err(at(path))?.mode() & 0o7777;
        if mode & wanted == wanted {
            return Ok(());
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode | wanted)).map_err(at(path))
    }
}

/// The path with the real names of the folders above it, which no other user may change.
fn without_links_above(path: &Path) -> Result<PathBuf, LibraryError> {
    let above = existing(path.parent().unwrap_or(path));
    if let Some(part) = changeable_by_others(above, own_user()).map_err(at(above))? {
        return Err(LibraryError::Changeable(part));
    }
    let below = path.strip_prefix(above).unwrap_or(path);
    Ok(above.canonicalize().map_err(at(above))?.join(below))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LibraryError {
    let path = path.to_owned();
    move |source| LibraryError::Io { path, source }
}

/// First 32 hex digits of the SHA-256 of names and contents.
pub(super) fn content_hash() -> String {
    let mut hash = Sha256::new();
    for (name, content) in files() {
        hash.update(name);
        // With its length, so that no byte can move from one file to the next unnoticed.
        hash.update(content.len().to_le_bytes());
        hash.update(content);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_private(folder: &Path, forbidden_bits: u32) -> Result<(), LibraryError> {
    let found = fs::symlink_metadata(folder).map_err(at(folder))?;
    let problem = if !found.is_dir() {
        "a link or a file"
    } else if found.uid() != own_user() {
        "belongs to another user"
    } else if found.mode() & forbidden_bits != 0 {
        "other users have access, mode 0700 is required"
    } else {
        return Ok(());
    };
    Err(LibraryError::NotPrivate(folder.to_owned(), problem))
}

pub(super) fn check_loadable(folder: &Path) -> Result<(), LibraryError> {
    let flags =
        rustix::fs::statvfs(folder).map_err(|errno| at(folder)(io::Error::from(errno)))?.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        return Err(LibraryError::NoExec(folder.to_owned()));
    }
    Ok(())
}

/// Whether this is a regular file with exactly this content. Anything else is replaced.
pub(super) fn holds(file: &Path, content: &[u8]) -> bool {
    // The length first: a file that cannot be equal is not read, however large it is.
    let regular = fs::symlink_metadata(file)
        .is_ok_and(|found| found.is_file() && found.len() == content.len() as u64);
    let mut bytes = Vec::with_capacity(content.len());
    regular
        && File::open(file).is_ok_and(|mut open| open.read_to_end(&mut bytes).is_ok())
        && bytes == content
}

/// Writes a temporary file and renames it, so that another carat never loads a partial library.
pub(super) fn write(directory: &Path, file: &Path, content: &[u8]) -> io::Result<()> {
    // A clock besides the pid: carats in two containers that share a cache can have the same pid.
    let unique = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let temporary =
        directory.join(format!(".{}-{}-{}", std::process::id(), unique.tv_sec, unique.tv_nsec));
    // `create_new` follows no link that another user could put there.
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(Access::of_user().file)
        .open(&temporary)
        .and_then(|mut open| open.write_all(content))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        // The first error is reported. A leftover is harmless, because its name is never read.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder that every user can enter, as the cache of a user who can become another must be.
    fn open_home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        home
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn unpacked_files_are_roots_for_everybody_or_private_and_are_not_written_again() {
        let home = open_home();
        let root = home.path().join("a/carat");
        let first = unpack(&root).unwrap();
        let modes = [&root, &first.directory, &first.probe].map(|path| mode(path));
        let expected =
            if can_become_others() { [0o755, 0o755, 0o644] } else { [0o700, 0o700, 0o600] };
        assert_eq!(modes, expected);
        let written = fs::metadata(&first.probe).unwrap().ino();
        assert_eq!(unpack(&root).unwrap(), first);
        assert_eq!(fs::metadata(&first.probe).unwrap().ino(), written);
        assert_eq!(fs::read_dir(&first.directory).unwrap().count(), files().count());
    }

    #[test]
    fn the_shim_comes_first_and_every_file_has_a_known_name() {
        let names: Vec<&str> = files().map(|(name, _)| name).collect();
        assert_eq!(names[..3], [SHIM, PROBE, RUNTIME]);
        assert!(names.iter().all(|name| NAMES.contains(name)), "{names:?}");
    }

    #[test]
    fn a_file_of_other_content_or_a_link_is_replaced() {
        let home = open_home();
        let root = home.path().join("carat");
        let unpacked = unpack(&root).unwrap();
        let size = fs::metadata(&unpacked.probe).unwrap().len() as usize;
        fs::write(&unpacked.probe, vec![0; size]).unwrap();
        fs::remove_file(&unpacked.shim).unwrap();
        let outside = home.path().join("outside.rb");
        let [(_, shim), (_, probe)] = [files().next(), files().nth(1)].map(Option::unwrap);
        fs::write(&outside, shim).unwrap();
        symlink(&outside, &unpacked.shim).unwrap();
        unpack(&root).unwrap();
        assert_eq!(fs::read(&unpacked.probe).unwrap(), probe);
        assert!(fs::symlink_metadata(&unpacked.shim).unwrap().is_file());
    }

    #[test]
    fn folders_that_other_users_could_change_are_rejected() {
        let home = open_home();
        let open = home.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(matches!(unpack(&open), Err(LibraryError::NotPrivate(..))));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let inner = unpack(&open).unwrap().directory;
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o733)).unwrap();
        assert!(matches!(unpack(&open), Err(LibraryError::NotPrivate(..))));
        let target = home.path().join("target");
        DirBuilder::new().mode(0o700).create(&target).unwrap();
        let link = home.path().join("link");
        symlink(&target, &link).unwrap();
        assert!(matches!(unpack(&link), Err(LibraryError::NotPrivate(..))));
    }

    #[test]
    fn a_cache_whose_folder_others_could_rename_is_rejected_and_nothing_is_made_there() {
        let home = open_home();
        let shared = home.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        let error = unpack(&shared.join("a/carat")).unwrap_err();
        assert!(
            matches!(&error, LibraryError::Changeable(part) if part.ends_with("shared")),
            "{error}"
        );
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
        let roots = [shared.join("carat"), home.path().join("carat")];
        assert!(
            unpack_in_first(&roots).unwrap().shim.starts_with(home.path().canonicalize().unwrap())
        );
    }

    #[test]
    fn a_path_with_a_space_is_skipped() {
        let home = open_home();
        let roots = [home.path().join("my cache"), home.path().join("other")];
        assert!(matches!(unpack(&roots[0]), Err(LibraryError::WhiteSpace(_))));
        assert!(unpack_in_first(&roots).unwrap().shim.starts_with(&roots[1]));
        assert!(matches!(unpack_in_first(&[]), Err(LibraryError::NoCandidate)));
    }

    #[test]
    fn a_cache_below_a_folder_that_others_cannot_enter_is_skipped_by_who_can_become_another_user() {
        let home = open_home();
        let closed = home.path().join("root");
        DirBuilder::new().mode(0o700).create(&closed).unwrap();
        let roots = [closed.join(".cache/carat"), home.path().join("new/carat")];
        let unpacked = unpack_in_first(&roots).unwrap();
        if can_become_others() {
            let error = unpack(&roots[0]).unwrap_err();
            assert!(
                matches!(&error, LibraryError::Closed(part) if part.ends_with("root")),
                "{error}"
            );
            assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
            let names = Libraries::below(&unpacked.directory);
            for file in [names.shim, names.probe, names.runtime] {
                assert_eq!(closed_to_others(&file).unwrap(), None);
            }
        } else {
            assert!(unpacked.shim.starts_with(closed.canonicalize().unwrap()));
        }
    }

    #[test]
    fn the_users_cache_comes_first_and_a_relative_one_is_ignored() {
        for (xdg, home, user, want) in [
            (Some("/x"), Some("/h"), 7, &["/x/carat", "/h/.cache/carat", "/tmp/carat-7"][..]),
            (Some("x"), Some("/h"), 7, &["/h/.cache/carat", "/tmp/carat-7"]),
            (None, None, 7, &["/tmp/carat-7"]),
            (None, None, 0, &["/var/cache/carat", "/tmp/carat-0"]),
        ] {
            let variable = |name: &str| if name == "HOME" { home } else { xdg }.map(OsString::from);
            let want: Vec<PathBuf> = want.iter().map(PathBuf::from).collect();
            assert_eq!(cache_roots(variable, user), want, "XDG_CACHE_HOME={xdg:?} HOME={home:?}");
        }
    }
}
