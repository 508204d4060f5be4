//! Opens a file that a process has mapped, and nothing else.
//!
//! The observed process chose the path, so there may be anything by now: another file, a named pipe whose writer would
//! wake up, a device that notices being opened. `O_PATH` names the file without opening it (open(2)). Only if it is the
//! regular file of the mapping is it opened, through the handle and not by its path.

use crate::memory::MemoryRegion;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Devices with this major number have no hardware. Files of btrfs and overlayfs show another one of them in `maps` than
/// in stat(2): the superblock's, in contrast to the subvolume's or the layer's.
const NO_HARDWARE: u32 = 0;

/// For what a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading.
    Read,
    /// Reading, and writing where that is allowed.
    Write,
}

/// The file behind a mapping of a process; `None` if it cannot be opened or is another one by now. `proc` is the root of
/// the process file system.
pub fn open_mapped(
    proc: &Path,
    process: u32,
    region: &MemoryRegion,
    access: FileAccess,
) -> Option<File> {
    let folder = proc.join(process.to_string());
    // The kernel's own link is right whatever the path leads to, and requires CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    let link = folder.join(format!("map_files/{:x}-{:x}", region.start, region.end));
    let path = folder.join("root").join(region.path.trim_start_matches('/'));
    [link, path].iter().find_map(|path| {
        let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        is_file_of(region, &fstat(&handle).ok()?).then_some(())?;
        reopen(proc, &handle, access)
    })
}

/// The regular file at a path that may be changed by others; `None` if it is something else, also a link.
pub fn open_regular(proc: &Path, path: &Path, access: FileAccess) -> Option<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = open(path, flags, Mode::empty()).ok()?;
    is_regular(&fstat(&handle).ok()?).then_some(())?;
    reopen(proc, &handle, access)
}

/// Opens what a handle names, whatever is at its path by now.
fn reopen(proc: &Path, handle: &OwnedFd, access: FileAccess) -> Option<File> {
    let again = proc.join("self/fd").join(handle.as_raw_fd().to_string());
    let written = match access {
        FileAccess::Read => None,
        FileAccess::Write => File::options().read(true).write(true).open(&again).ok(),
    };
    written.or_else(|| File::open(&again).ok())
}

fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

fn is_file_of(region: &MemoryRegion, found: &Stat) -> bool {
    let device = (major(found.st_dev), minor(found.st_dev));
    let without_hardware = device.0 == NO_HARDWARE && region.device.0 == NO_HARDWARE;
    is_regular(found)
        && found.st_ino == region.inode
        && region.inode != 0
        && (device == region.device || without_hardware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::parse_regions;
    use rustix::fs::{CWD, inotify, mkfifoat};
    use std::io::{Read, Write};

    /// A mapping of this file; no process has it, so it is found by its path.
    fn mapping_of(path: &Path) -> MemoryRegion {
        let found = rustix::fs::stat(path).unwrap();
        MemoryRegion {
            start: 0x1000,
            end: 0x2000,
            device: (major(found.st_dev), minor(found.st_dev)),
            inode: found.st_ino,
            path: path.display().to_string(),
            ..MemoryRegion::default()
        }
    }

    fn opened(region: &MemoryRegion) -> Option<String> {
        let mut text = String::new();
        let file = open_mapped(Path::new("/proc"), std::process::id(), region, FileAccess::Read);
        file.map(|mut file| file.read_to_string(&mut text).map(|_| text).unwrap())
    }

    #[test]
    fn only_the_regular_file_with_the_same_inode_on_the_same_device_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library");
        std::fs::write(&path, "code").unwrap();
        let region = mapping_of(&path);
        assert_eq!(opened(&region).as_deref(), Some("code"));
        for other in [
            MemoryRegion { inode: region.inode + 1, ..region.clone() },
            MemoryRegion { device: (region.device.0 + 1, 0), ..region.clone() },
            MemoryRegion { inode: 0, ..region.clone() },
            MemoryRegion { path: "/dev/null".into(), ..region.clone() },
        ] {
            assert_eq!(opened(&other), None, "{other:?}");
        }
        let anonymous = MemoryRegion { device: (0, 99), ..region.clone() };
        let expected = (region.device.0 == NO_HARDWARE).then_some("code");
        assert_eq!(opened(&anonymous).as_deref(), expected);
    }

    #[test]
    fn a_file_that_may_be_changed_by_others_is_opened_only_if_it_is_a_regular_one() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let proc = Path::new("/proc");
        let mut written = open_regular(proc, &file, FileAccess::Write).unwrap();
        written.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        let mut read = open_regular(proc, &file, FileAccess::Read).unwrap();
        assert!(read.write_all(b"more").is_err());
        for other in [&link, &pipe, folder.path(), Path::new("/dev/null")] {
            assert!(open_regular(proc, other, FileAccess::Read).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_named_pipe_with_the_inode_of_the_mapping_is_not_opened_and_its_writer_goes_on_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, &path, inotify::WatchFlags::OPEN).unwrap();
        assert_eq!(opened(&mapping_of(&path)), None);
        let seen = rustix::io::read(&events, &mut [0; 256]);
        assert_eq!(seen, Err(rustix::io::Errno::AGAIN), "the pipe was opened");
    }

    #[test]
    fn the_program_of_this_process_is_opened_by_what_maps_says_of_it() {
        let maps = std::fs::read("/proc/self/maps").unwrap();
        let own = std::env::current_exe().unwrap().display().to_string();
        let region = parse_regions(&maps).into_iter().find(|region| region.path == own).unwrap();
        let mut start = [0; 4];
        let proc = Path::new("/proc");
        let file = open_mapped(proc, std::process::id(), &region, FileAccess::Read);
        let mut file = file.unwrap();
        file.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"\x7fELF");
    }
}
