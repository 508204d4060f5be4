//! Opens a file that a process has mapped, and nothing else.
//!
//! The observed process chose the path, so there may be anything by now: another file, a named pipe whose writer would
//! wake up, a device that notices being opened. `O_PATH` names the file without opening it (open(2)). Only if it is the
//! regular file of the mapping is it opened, through the handle and not by its path.

use crate::memory::MemoryRegion;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Devices with this major number have no hardware. Files of btrfs and overlayfs show another one of them in `maps` than
/// in stat(2): the superblock's, in contrast to the subvolume's or the layer's.
const NO_HARDWARE: u32 = 0;

/// The file behind a mapping of a process; `None` if it cannot be opened or is another one by now. `proc` is the root of
/// the process file system.
pub fn open_mapped(proc: &Path, process: u32, region: &MemoryRegion) -> Option<File> {
    let folder = proc.join(process.to_string());
    // The kernel's own link is right whatever the path leads to, and requires CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    let link = folder.join(format!("map_files/{:x}-{:x}", region.start, region.end));
    let path = folder.join("root").join(region.path.trim_start_matches('/'));
    [link, path].iter().find_map(|path| open_same(proc, path, region))
}

fn open_same(proc: &Path, path: &Path, region: &MemoryRegion) -> Option<File> {
    let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    is_file_of(region, &fstat(&handle).ok()?).then_some(())?;
    File::open(proc.join("self/fd").join(handle.as_raw_fd().to_string())).ok()
}

fn is_file_of(region: &MemoryRegion, found: &Stat) -> bool {
    let device = (major(found.st_dev), minor(found.st_dev));
    let without_hardware = device.0 == NO_HARDWARE && region.device.0 == NO_HARDWARE;
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_ino == region.inode
        && region.inode != 0
        && (device == region.device || without_hardware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::parse_regions;
    use rustix::fs::{CWD, inotify, mkfifoat};
    use std::io::Read;

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
        let file = open_mapped(Path::new("/proc"), std::process::id(), region);
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
        let mut file = open_mapped(Path::new("/proc"), std::process::id(), &region).unwrap();
        file.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"\x7fELF");
    }
}
