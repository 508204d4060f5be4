//! Writes files under names that a user gave, or that follow from them.
//!
//! A folder may belong to another user, who can place a link where carat is about to write. So the folder is opened first,
//! and files are written relative to it: no link in the place of a file is followed, and a file that exists is replaced
//! whole. A link on the way to the folder that belongs to another user may only lead to a folder of that user.

use rustix::fs::{
    AtFlags, CWD, Dir, DirEntry, FileType, FlockOperation, FsWord, Mode, OFlags, Stat, flock,
    fstat, fstatfs, openat, statat,
};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Links that are followed on the way to a folder, as in the kernel (`MAXSYMLINKS`).
const LINKS: usize = 40;
/// Bytes of a file's name (`NAME_MAX`).
const NAME_BYTES: usize = 255;
/// The end of the name of a file that is not complete yet.
const PARTIAL: &str = ".part";

/// File systems whose files are the kernel's, although many are regular: proc, sysfs, cgroup, cgroup2, debugfs, tracefs,
/// securityfs, configfs, efivarfs (linux/magic.h).
const KERNELS_OWN: [FsWord; 9] = [
    0x9fa0,
    0x6265_6572,
    0x27_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xde5e_81e4,
];

/// Whose choice a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The user's: a pipe or a device of that name is written to.
    User,
    /// Carat's, which derived it from another name: what has it is replaced.
    Carat,
}

/// Writes a file, all of it or nothing. A link of that name is replaced
/// by the file. `/dev/stdout` and `/dev/fd/N` are carat's own descriptors.
///
/// # Errors
/// Where the folder cannot be opened or written to.
pub fn write_file(path: &Path, bytes: &[u8], named_by: NamedBy) -> io::Result<()> {
    // Opened anew, a socket would fail and a file would be written from its beginning.
    if let Some(number) = descriptor(path).filter(|_| named_by == NamedBy::User) {
        return write_to_descriptor(number, bytes);
    }
    let (folder, name) = open_parent(path)?;
    // An error is no answer yet: the write that follows meets it too, and reports it.
    let present = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
    // A rename by root would leave every program a file as its `/dev/null`.
    if named_by == NamedBy::User && present.is_some_and(is_pipe_or_device) {
        return match present.is_some_and(|found| is_trusted(found.st_uid)) {
            true => write_into(&folder, &name, bytes),
            false => Err(not_trusted()),
        };
    }
    replace(&folder, &name, present, bytes)
}

/// The regular file, behind links, that writing to a name that the user gave would replace. `None` where nothing is there or its
/// content cannot be lost: a pipe, a device, carat's own descriptors.
pub fn replaced_file(path: &Path) -> Option<Metadata> {
    if descriptor(path).is_some() {
        return None;
    }
    path.metadata().ok().filter(Metadata::is_file)
}

/// A file that is written piece by piece under another name and gets its own name at the end, whole. Only its user may read it.
/// Until then, and where it is dropped, there is no such file.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// The folder, the name meanwhile, and the name at the end; `None` for a pipe or a device.
    place: Option<(OwnedFd, OsString, OsString)>,
}

impl WholeFile {
    /// Begins a file of a name that the user gave. As in [`write_file`], a link of that name is replaced, a pipe or a device is
    /// written to, and `/dev/stdout` and `/dev/fd/N` are carat's own descriptors.
    ///
    /// # Errors
    /// Where the folder cannot be opened or written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Some(number) = descriptor(path) {
            return Ok(Self { file: own_file(number)?, place: None });
        }
        let (folder, name) = open_parent(path)?;
        let present = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        if present.is_some_and(is_pipe_or_device) {
            return match present.is_some_and(|found| is_trusted(found.st_uid)) {
                true => Ok(Self { file: open_device(&folder, &name)?, place: None }),
                false => Err(not_trusted()),
            };
        }
        let (file, partial) = create_partial(&folder, &name, Mode::from_raw_mode(0o600))?;
        Ok(Self { file, place: Some((folder, partial, name)) })
    }

    /// Another handle of the same open file, for who writes it.
    ///
    /// # Errors
    /// Where the process may not have more open files.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Where it cannot be renamed.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some((folder, partial, name)) = &self.place {
            // Before the rename, as in `write_file`.
            self.file.sync_all()?;
            rustix::fs::renameat(folder, partial, folder, name)?;
        }
        self.place = None;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((folder, partial, _)) = &self.place {
            let _ = rustix::fs::unlinkat(folder, partial, AtFlags::empty());
        }
    }
}

/// Writes a new file, all of it or nothing.
///
/// # Errors
/// As [`create_new`], or where it cannot be written.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    let written = file.write_all(bytes);
    if written.is_err() {
        // What was just created holds nothing of the user's.
        let (folder, name) = open_parent(path)?;
        let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
    }
    written
}

/// Creates a new file for appending.
///
/// # Errors
/// Where something of that name exists, also a link to nowhere, or the folder cannot be opened or written to.
pub fn create_new(path: &Path) -> io::Result<File> {
    let (folder, name) = open_parent(path)?;
    // EXCL refuses a link as well, whatever it leads to (open(2)).
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
    Ok(File::from(openat(&folder, &name, flags, Mode::from_raw_mode(0o666))?))
}

/// Opens a file for appending, and creates it where it does not exist.
///
/// # Errors
/// Where something of that name exists that is not a regular file of this user or of root, or is the kernel's (such as
/// `/proc/self/mem`), or the folder cannot be opened.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let (folder, name) = open_parent(path)?;
    // Without NONBLOCK a pipe in its place would keep carat waiting.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(&folder, &name, flags | OFlags::NONBLOCK, Mode::empty())?;
    // The open file is asked, not its name, which could lead elsewhere by now.
    let found = fstat(&file)?;
    if KERNELS_OWN.contains(&fstatfs(&file)?.f_type) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a file of the kernel"));
    }
    match FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && is_trusted(found.st_uid)
    {
        true => Ok(File::from(file)),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is no regular file of this user",
        )),
    }
}

/// Creates a folder and those above it that are missing; one that exists stays.
///
/// # Errors
/// Where one cannot be created, or a link on the way is not followed. Nothing is created then.
pub fn create_folder(path: &Path) -> io::Result<()> {
    // A link to nowhere is there too: a folder must not be created behind it.
    let mut there = path.ancestors().filter(|part| part.symlink_metadata().is_ok());
    let above = there.next().unwrap_or(Path::new("."));
    let mut folder = open_folder(above)?;
    for name in parts(path.strip_prefix(above).unwrap_or(path)) {
        match rustix::fs::mkdirat(&folder, &name, Mode::from_raw_mode(0o777)) {
            // It was made meanwhile, or is a `..`; the open below refuses what is no folder.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = FOLDER | OFlags::NOFOLLOW | OFlags::DIRECTORY;
        folder = openat(&folder, &name, flags, Mode::empty())?;
    }
    match fstat(&folder)?.st_mode {
        mode if FileType::from_raw_mode(mode) == FileType::Directory => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
    }
}

/// The same file by a path without links.
///
/// # Errors
/// Where the folder does not exist, or is reached by a link that is not followed.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = open_parent(path)?;
    // The kernel's name of the open folder is right even where a link on the way has changed since.
    let folder = rustix::fs::readlinkat(CWD, own_descriptor(&folder), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(folder.into_bytes())).join(name))
}

fn own_descriptor(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The number of the descriptor that a path names.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|at| path.strip_prefix(at));
            number?.parse().ok().filter(|number| *number >= 0)
        }
    }
}

fn not_trusted() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it is a pipe or a device of another user")
}

fn write_to_descriptor(number: i32, bytes: &[u8]) -> io::Result<()> {
    own_file(number)?.write_all(bytes)
}

fn own_file(number: i32) -> io::Result<File> {
    // SAFETY: the descriptor is only duplicated, and the kernel refuses one that is not open.
    // Duplicated, because dropping the `File` would close carat's own output.
    let copy = rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 0)?;
    Ok(File::from(copy))
}

/// The user whose rights count here.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether what belongs to this user is this user's own choice or root's.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == own_user()
}

fn is_pipe_or_device(found: Stat) -> bool {
    let kinds = [FileType::Fifo, FileType::CharacterDevice, FileType::BlockDevice];
    kinds.contains(&FileType::from_raw_mode(found.st_mode))
}

fn write_into(folder: &OwnedFd, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    open_device(folder, name)?.write_all(bytes)
}

fn open_device(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::empty())?))
}

/// A name that no file of the user has.
fn partial_name(name: &OsStr) -> OsString {
    let ending = format!(".{:016x}{PARTIAL}", rand::random::<u64>());
    let kept = name.len().min(NAME_BYTES - ending.len());
    OsString::from_vec([&name.as_bytes()[..kept], ending.as_bytes()].concat())
}

/// Whether two names are of incomplete files of one file: all but the digits of [`partial_name`] is as in its `example`.
fn is_partial(found: &[u8], example: &OsStr) -> bool {
    let digits = example.len() - PARTIAL.len() - 16..example.len() - PARTIAL.len();
    let is_alike = |(at, (found, example)): (usize, (&u8, &u8))| match digits.contains(&at) {
        true => found.is_ascii_hexdigit(),
        false => found == example,
    };
    found.len() == example.len() && found.iter().zip(example.as_bytes()).enumerate().all(is_alike)
}

/// Removes the incomplete files that a carat which was killed left of the file `name`. Who writes one has locked it.
fn remove_abandoned(folder: &OwnedFd, name: &OsStr) {
    // Opened anew: ours is a place only, which cannot be read (`O_PATH`, open(2)).
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(folder, ".", flags, Mode::empty());
    let Ok(entries) = opened.and_then(Dir::new) else { return };
    let example = partial_name(name);
    let is_partial = |entry: &DirEntry| is_partial(entry.file_name().to_bytes(), &example);
    for entry in entries.flatten().filter(is_partial) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, entry.file_name(), flags, Mode::empty()) else { continue };
        let is_ours = fstat(&file).is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                && found.st_uid == own_user()
        });
        // What cannot be removed stays; it is in nobody's way.
        if is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty());
        }
    }
}

/// Creates a locked file under a name that it has until it is whole.
fn create_partial(folder: &OwnedFd, name: &OsStr, mode: Mode) -> io::Result<(File, OsString)> {
    remove_abandoned(folder, name);
    let partial = partial_name(name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(folder, &partial, flags, mode)?;
    lock(&file);
    Ok((File::from(file), partial))
}

/// Tells other carats that somebody writes this file. Where the file system has no locks they cannot lock, and so remove, it either.
fn lock(file: &OwnedFd) {
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}

/// Writes a new file beside the old one and renames it.
fn replace(folder: &OwnedFd, name: &OsStr, old: Option<Stat>, bytes: &[u8]) -> io::Result<()> {
    // The mode of a new file is the umask's affair.
    let mode = Mode::from_raw_mode(0o666);
    // Without a name until it is whole, where the file system has such files (`O_TMPFILE`, open(2)): a carat that is killed while it
    // writes leaves nothing then.
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(folder, ".", flags, mode) {
        remove_abandoned(folder, name);
        lock(&file);
        let mut file = File::from(file);
        write_whole(&mut file, old, bytes)?;
        let (own, partial) = (own_descriptor(&file), partial_name(name));
        // Where /proc is not mounted it gets no name, and is written once more below.
        if rustix::fs::linkat(CWD, own, folder, &partial, AtFlags::SYMLINK_FOLLOW).is_ok() {
            return rename(folder, &partial, name);
        }
    }
    let (mut file, partial) = create_partial(folder, name, mode)?;
    let written = write_whole(&mut file, old, bytes);
    if written.is_err() {
        // The first error is the one to report.
        let _ = rustix::fs::unlinkat(folder, &partial, AtFlags::empty());
        return written;
    }
    rename(folder, &partial, name)
}

fn write_whole(file: &mut File, old: Option<Stat>, bytes: &[u8]) -> io::Result<()> {
    match old {
        // A page that its owner closed to others stays closed.
        Some(old)
            if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
                && old.st_uid == own_user() =>
        {
            rustix::fs::fchmod(&*file, Mode::from_raw_mode(old.st_mode & 0o777))?;
        }
        _ => {}
    }
    file.write_all(bytes)?;
    // Before the rename: after a loss of power the name could lead to an empty file (rename is journalled, the content not).
    file.sync_all()
}

/// Within one folder, so it cannot cross file systems and is atomic (rename(2)).
fn rename(folder: &OwnedFd, partial: &OsStr, name: &OsStr) -> io::Result<()> {
    let renamed = rustix::fs::renameat(folder, partial, folder, name);
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(folder, partial, AtFlags::empty());
    }
    Ok(renamed?)
}

/// The open folder of a path, and the name in it.
fn open_parent(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    // `file_name` leaves the slash out, by which the user means a folder.
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(io::Error::other(
            "a name that ends with `/` is that of a folder; give the name of a file",
        ));
    }
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((open_folder(folder.unwrap_or(Path::new(".")))?, name.to_owned()))
}

/// Opens a folder step by step, so that the owner of every link on the way is known.
fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let mut folder = open_start(path)?;
    // The target of a link takes the link's place in front of what is left of the path.
    let mut rest = parts(path);
    let mut strangers: Vec<u32> = Vec::new();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        // With PATH and NOFOLLOW, a link is opened itself (open(2)).
        let next = openat(&folder, &part, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let found = fstat(&next)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            folder = next;
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        if !is_trusted(found.st_uid) {
            strangers.push(found.st_uid);
        }
        // An empty path reads the link that was opened, not one put there since (readlinkat(2)).
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            folder = open_start(&target)?;
        }
        parts(&target).into_iter().rev().for_each(|part| rest.push_front(part));
    }
    // A stranger's link into a folder of ours would choose which of our files is replaced.
    let owner = fstat(&folder)?.st_uid;
    match strangers.iter().find(|stranger| **stranger != owner) {
        Some(stranger) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "a link on the way belongs to user {stranger} and leads to a folder of user {owner}"
            ),
        )),
        None => Ok(folder),
    }
}

/// A folder as a place to start from, not to be read.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

fn open_start(path: &Path) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    Ok(openat(CWD, start, FOLDER | OFlags::DIRECTORY, Mode::empty())?)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let below = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    below.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, symlink};

    fn write(path: &Path, text: &str) -> io::Result<()> {
        write_file(path, text.as_bytes(), NamedBy::User)
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_in_pieces_appears_whole_and_closed_to_others_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let file = WholeFile::create(&path).unwrap();
        file.writer().unwrap().write_all(b"one\n").unwrap();
        assert!(!path.exists() && names(folder.path()) == 1);
        drop(file);
        assert_eq!(names(folder.path()), 0);
        symlink(folder.path().join("elsewhere"), &path).unwrap();
        let file = WholeFile::create(&path).unwrap();
        file.writer().unwrap().write_all(b"one\n").unwrap();
        file.writer().unwrap().write_all(b"two\n").unwrap();
        file.finish().unwrap();
        let found = path.symlink_metadata().unwrap();
        assert!(found.is_file() && names(folder.path()) == 1);
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        assert!(WholeFile::create(&folder.path().join("none/a")).is_err());
    }

    #[test]
    fn a_name_of_a_folder_is_no_name_of_a_file_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zst/");
        for error in [
            write_file(&path, b"x", NamedBy::User).unwrap_err(),
            WholeFile::create(&path).unwrap_err(),
            open_to_append(&path).unwrap_err(),
            write_new(&path, b"x").unwrap_err(),
        ] {
            assert!(error.to_string().contains("give the name of a file"), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_the_kernel_is_not_appended_to() {
        for path in ["/proc/self/mem", "/proc/self/comm", "/proc/self/oom_score_adj"] {
            let error = open_to_append(Path::new(path)).unwrap_err();
            assert!(error.to_string().contains("a file of the kernel"), "{path}: {error}");
        }
    }

    #[test]
    fn a_pipe_named_by_the_user_is_written_to_and_one_in_the_way_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        // Opened for reading and writing, it needs no second process.
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let mut reader = options.open(&pipe).unwrap();
        write(&pipe, "page").unwrap();
        let mut read = [0; 4];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"page");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        write_file(&pipe, b"page", NamedBy::Carat).unwrap();
        assert!(fs::metadata(&pipe).unwrap().is_file());
        assert_eq!(names(folder.path()), 1, "nothing is left beside it");
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [precious, link, partial] =
            ["precious", "page", "page.part"].map(|name| folder.path().join(name));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &link).unwrap();
        symlink(&precious, &partial).unwrap();
        write(&link, "new").unwrap();
        assert!(!link.is_symlink(), "the page took its place");
        assert!(partial.is_symlink(), "what carat did not make stays");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        let lost = folder.path().join("lost");
        symlink(folder.path().join("nowhere"), &lost).unwrap();
        create_new(&lost).unwrap_err();
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn a_file_is_replaced_whole_keeps_its_mode_and_may_have_the_longest_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(NAME_BYTES));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), 1);
        write(&folder.path().join("none/page"), "new").unwrap_err();
        write(folder.path(), "new").unwrap_err();
    }

    #[test]
    fn what_a_killed_carat_left_of_a_file_goes_with_the_next_and_neither_what_is_written_nor_the_users()
     {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let partial = |name: &str| folder.path().join(partial_name(OsStr::new(name)));
        let abandoned = partial("page");
        let others =
            ["page.part", "page.0123456789abcdeg.part"].map(|name| folder.path().join(name));
        let others = others.into_iter().chain([partial("page.html"), partial("my-page")]);
        let others: Vec<PathBuf> = others.collect();
        for path in others.iter().chain([&abandoned]) {
            fs::write(path, "half").unwrap();
        }
        let written = WholeFile::create(&path).unwrap();
        assert!(!abandoned.exists());
        fs::write(&abandoned, "half").unwrap();
        write(&path, "new").unwrap();
        assert!(!abandoned.exists());
        written.finish().unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "",
            "it was not removed while it was written"
        );
        assert!(others.iter().all(|path| path.exists()));
    }

    #[test]
    fn incomplete_files_are_known_by_their_names() {
        let longest = OsString::from("n".repeat(NAME_BYTES));
        for name in [OsStr::new("a"), &longest] {
            assert!(is_partial(partial_name(name).as_bytes(), &partial_name(name)));
            assert!(!is_partial(name.as_bytes(), &partial_name(name)));
        }
    }

    #[test]
    fn folders_are_reached_through_own_links_and_a_circle_of_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("a/b", folder.path().join("short")).unwrap();
        symlink(folder.path().join("short/.."), folder.path().join("up")).unwrap();
        symlink("round", folder.path().join("round")).unwrap();
        write(&folder.path().join("short/one"), "1").unwrap();
        write(&folder.path().join("up/two"), "2").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b/one")).unwrap(), "1");
        assert_eq!(fs::read_to_string(folder.path().join("a/two")).unwrap(), "2");
        let real = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(without_links(&folder.path().join("up/two")).unwrap(), real.join("a/two"));
        write(&folder.path().join("round/x"), "x").unwrap_err();
    }

    #[test]
    fn a_link_of_another_user_leads_only_to_folders_of_that_user() {
        if own_user() != 0 {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let stranger = Some(rustix::fs::Uid::from_raw(65_534));
        for name in ["root", "theirs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            symlink(name, folder.path().join(format!("to-{name}"))).unwrap();
            let link = folder.path().join(format!("to-{name}"));
            rustix::fs::chownat(CWD, link, stranger, None, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
        std::os::unix::fs::chown(folder.path().join("theirs"), Some(65_534), None).unwrap();
        let refused = write(&folder.path().join("to-root/page"), "x").unwrap_err();
        assert!(refused.to_string().contains("belongs to user 65534"), "{refused}");
        assert_eq!(names(&folder.path().join("root")), 0);
        write(&folder.path().join("to-theirs/page"), "x").unwrap();
        create_folder(&folder.path().join("to-root/a/b")).unwrap_err();
        create_folder(&folder.path().join("to-root")).unwrap_err();
        assert_eq!(names(&folder.path().join("root")), 0);
        create_folder(&folder.path().join("to-theirs/a/b")).unwrap();
        assert!(folder.path().join("theirs/a/b").is_dir());
    }

    #[test]
    fn a_folder_is_created_with_those_above_it_and_may_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        create_folder(&path).unwrap();
        create_folder(&path).unwrap();
        assert!(path.is_dir());
        symlink("a", folder.path().join("own")).unwrap();
        create_folder(&folder.path().join("own/d")).unwrap();
        assert!(folder.path().join("a/d").is_dir());
        fs::write(folder.path().join("file"), "").unwrap();
        create_folder(&folder.path().join("file")).unwrap_err();
        create_folder(&folder.path().join("file/x")).unwrap_err();
    }

    #[test]
    fn the_names_of_descriptors_are_known() {
        for (path, number) in [
            ("/dev/stdout", Some(1)),
            ("/dev/fd/7", Some(7)),
            ("/proc/self/fd/3", Some(3)),
            ("/dev/fd/-1", None),
            ("/dev/null", None),
        ] {
            assert_eq!(descriptor(Path::new(path)), number, "{path}");
        }
    }
}
