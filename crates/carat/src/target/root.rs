//! Another system's files as the root of a server, in mounts that end with it.
//!
//! The server gets a mount namespace of its own, so that the kernel removes every mount with its last
//! process, however that dies. Over the system's directory lies a file system in memory: whatever the
//! server writes vanishes too, and the system stays as it was made.

use rustix::fs::Mode;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Another root for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRoot {
    /// The system's directory.
    pub system: PathBuf,
    /// An empty directory of this trial to build the root in.
    pub scratch: PathBuf,
    /// Directories of this system that the server sees at the same path.
    pub shared: Vec<PathBuf>,
}

/// Makes this process see the new root; its working directory is then `/`.
///
/// # Errors
/// Needs root, or the capabilities to mount and to change the root.
pub(crate) fn enter(root: &NewRoot) -> io::Result<()> {
    // SAFETY: this process has one thread, and no other process shares its file system state.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let scratch = &root.scratch;
    mount("tmpfs", scratch, "tmpfs", MountFlags::NODEV, None)?;
    let [upper, work, all] = ["upper", "work", "all"].map(|name| scratch.join(name));
    [&upper, &work, &all].into_iter().try_for_each(fs::create_dir)?;
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        root.system.display(),
        upper.display(),
        work.display()
    );
    mount("overlay", &all, "overlay", MountFlags::empty(), Some(&*CString::new(layers)?))?;
    for shared in root.shared.iter().map(PathBuf::as_path).chain([Path::new("/dev")]) {
        let seen = all.join(shared.strip_prefix("/").unwrap_or(shared));
        fs::create_dir_all(&seen)?;
        mount_bind_recursive(shared, &seen)?;
    }
    let proc = all.join("proc");
    fs::create_dir_all(&proc)?;
    mount("proc", &proc, "proc", MountFlags::empty(), None)?;
    rustix::process::chroot(&all)?;
    rustix::process::chdir("/")?;
    // Nothing that the server makes depends on what this process was started under.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}
