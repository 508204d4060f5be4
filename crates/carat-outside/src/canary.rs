//! Whether reading `/proc/PID/mem` un-shares pages on this kernel.
//!
//! A page that a fork shares copy-on-write can get a copy of its own when another process reads it: some kernels break the
//! sharing for every access from outside ("gup: COW can break either way", 17839856fd58, Linux 5.8 and backports). Such a
//! reading makes the observed tree larger. So a page of ours is forked and read in the child first.

use crate::memory::{PAGE, PageEntry};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

/// Why a process with relatives is not read.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// The page of the child was no longer shared after it was read.
    #[error(
        "reading memory from outside un-shares pages on this kernel, and would make the observed processes larger"
    )]
    Unshares,
    /// The page was not seen as shared before.
    #[error("this kernel does not show whether a page is shared")]
    NotShown,
    /// The test itself failed.
    #[error("cannot test whether reading un-shares pages: {0}")]
    Failed(#[from] io::Error),
}

/// A page of memory that a fork shares.
struct SharedPage(*mut u8);

impl SharedPage {
    fn new() -> io::Result<Self> {
        // SAFETY: a new private mapping, which nothing else uses.
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                PAGE as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let page = Self(address.cast());
        // SAFETY: the mapping is one page long and may be written.
        unsafe { page.0.write_bytes(0xca, PAGE as usize) };
        Ok(page)
    }

    fn address(&self) -> u64 {
        self.0 as u64
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and is used no more.
        let _ = unsafe { munmap(self.0.cast(), PAGE as usize) };
    }
}

/// A child that does nothing until it is killed.
struct WaitingChild(i32);

impl WaitingChild {
    fn fork() -> io::Result<Self> {
        // SAFETY: the call has no requirements.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child calls only functions that are safe after a fork of a process with threads.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => wait_for_the_end(parent),
            process => Ok(Self(process)),
        }
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // SAFETY: ends and waits for our own child, whose status is of no interest.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

/// The child's part: it ends with its parent, and waits to be killed.
fn wait_for_the_end(parent: i32) -> ! {
    // SAFETY: these functions are safe after a fork and take numbers only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before the request.
        while libc::getppid() == parent {
            libc::pause();
        }
        libc::_exit(0)
    }
}

/// Tests this kernel: forks, and reads the child's copy of a page as it would read the observed process.
pub fn test(proc: &Path) -> Result<(), CanaryError> {
    let page = SharedPage::new()?;
    let child = WaitingChild::fork()?;
    let folder = proc.join(child.0.to_string());
    let pagemap = File::open(folder.join("pagemap"))?;
    let mem = File::open(folder.join("mem"))?;
    let before = entry(&pagemap, page.address())?;
    if !before.present() || before.exclusive() {
        return Err(CanaryError::NotShown);
    }
    let mut bytes = [0; 64];
    mem.read_exact_at(&mut bytes, page.address())?;
    if bytes != [0xca; 64] {
        return Err(io::Error::other("the child's page does not read as it was written").into());
    }
    let after = entry(&pagemap, page.address())?;
    if after.exclusive() { Err(CanaryError::Unshares) } else { Ok(()) }
}

fn entry(pagemap: &File, address: u64) -> io::Result<PageEntry> {
    let mut bytes = [0; 8];
    pagemap.read_exact_at(&mut bytes, address / PAGE * 8)?;
    Ok(PageEntry(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_childs_page_is_tested_with_a_real_fork() {
        // Both answers are sound; an error is not.
        let tested = test(Path::new("/proc"));
        assert!(matches!(tested, Ok(()) | Err(CanaryError::Unshares)), "{tested:?}");
    }

    #[test]
    fn the_test_leaves_no_child_behind() {
        for _ in 0..20 {
            let child = WaitingChild::fork().unwrap();
            let folder = format!("/proc/{}", child.0);
            assert!(Path::new(&folder).exists());
            drop(child);
            assert!(!Path::new(&folder).exists());
        }
    }

    #[test]
    fn many_tests_at_once_do_not_wait_for_each_other() {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| test(Path::new("/proc")).is_ok())).collect();
            let answers: Vec<bool> = threads.into_iter().map(|one| one.join().unwrap()).collect();
            assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        });
    }
}
