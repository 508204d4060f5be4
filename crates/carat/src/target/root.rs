//! Another system's files as the root of a server.
//!
//! The server gets its own mount namespace, so the kernel removes every mount with the server's last process,
//! however that ends. An overlay in memory covers the system's directory: the server's writes disappear with it,
//! and the system remains unchanged.

use rustix::fs::Mode;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Another root directory for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewRoot {
    /// The system's directory.
    pub(crate) system: PathBuf,
    /// An empty directory of this trial in which the root is mounted.
    pub(crate) scratch: PathBuf,
    /// Directories of this system that the server sees at the same path.
    pub(crate) shared: Vec<PathBuf>,
}

/// Changes this process to the new root, with working directory `/`.
///
/// # Errors
/// Needs root, or the capabilities to mount and to change the root.
pub(crate) fn enter(root: &NewRoot) -> io::Result<()> {
    // SAFETY: this process has one thread, and no other process shares its file system state.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    // Where `/` is shared, mounts would appear on the machine too (mount_namespaces(7)).
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
    // A system's directory has no devices of its own.
    for shared in root.shared.iter().map(PathBuf::as_path).chain([Path::new("/dev")]) {
        let inside = all.join(shared.strip_prefix("/").unwrap_or(shared));
        fs::create_dir_all(&inside)?;
        mount_bind_recursive(shared, &inside)?;
    }
    let proc = all.join("proc");
    fs::create_dir_all(&proc)?;
    // Mounted anew, because the directory's own is empty.
    mount("proc", &proc, "proc", MountFlags::empty(), None)?;
    rustix::process::chroot(&all)?;
    // chroot(2) leaves the working directory, which would be a way out of the new root.
    rustix::process::chdir("/")?;
    // The server's files must not depend on the umask that carat was started with.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}
