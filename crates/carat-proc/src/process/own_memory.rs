//! Processes that run in the memory of their parent: children of vfork(2), until they execute a program.
//!
//! Ruby starts programs by vfork(2), as posix_spawn(3) does. `/proc` shows the parent's whole memory for such a child too, so a
//! sum over both would count it twice.

use crate::process::{ProcRoot, Stat};
use std::collections::HashMap;

/// Compares the memory of two processes (`KCMP_VM`, include/uapi/linux/kcmp.h).
const SAME_MEMORY: libc::c_int = 1;

/// Those whose memory is not that of another process among them.
pub fn with_own_memory(root: &ProcRoot, all: Vec<Stat>) -> Vec<Stat> {
    let by_pid: HashMap<u32, &Stat> = all.iter().map(|one| (one.pid, one)).collect();
    let shares =
        |one: &Stat| by_pid.get(&one.parent).is_some_and(|parent| shares_memory(root, one, parent));
    let own: Vec<bool> = all.iter().map(|one| !shares(one)).collect();
    all.into_iter().zip(own).filter_map(|(one, is_own)| is_own.then_some(one)).collect()
}

/// Whether a child runs in the memory of its parent.
pub(crate) fn shares_memory(root: &ProcRoot, child: &Stat, parent: &Stat) -> bool {
    if !child.has_not_executed {
        return false;
    }
    let asked = (*root == ProcRoot::default()).then(|| same_memory(child.pid, parent.pid));
    // Where the kernel may not be asked: a parent with one thread sleeps uninterruptibly as long as its memory is borrowed.
    asked.flatten().unwrap_or_else(|| {
        parent.state == 'D' && child.memory.is_some() && child.memory == parent.memory
    })
}

/// Whether two processes have one memory; `None` where the kernel does not say (kcmp(2)).
fn same_memory(one: u32, other: u32) -> Option<bool> {
    let (one, other) = (i32::try_from(one).ok()?, i32::try_from(other).ok()?);
    // SAFETY: the call has numbers as arguments only, and changes nothing.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, SAME_MEMORY, 0, 0) } {
        0 => Some(true),
        1..=3 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::time::{Duration, Instant};

    /// Starts `sleep` as a child that waits for the other end of a pipe before it executes it.
    fn spawn(pipe: &std::path::Path) -> u32 {
        let pipe = CString::new(pipe.to_str().unwrap()).unwrap();
        let words = [c"sleep".to_owned(), c"60".to_owned()];
        let words =
            [words[0].as_ptr().cast_mut(), words[1].as_ptr().cast_mut(), std::ptr::null_mut()];
        let mut pid = 0;
        // SAFETY: the texts and the list live during the calls, and the actions are destroyed by none but this function.
        unsafe {
            let mut actions = std::mem::zeroed();
            libc::posix_spawn_file_actions_init(&raw mut actions);
            let (flags, mode) = (libc::O_RDONLY, 0);
            libc::posix_spawn_file_actions_addopen(&raw mut actions, 0, pipe.as_ptr(), flags, mode);
            let (none, environment) = (std::ptr::null(), [std::ptr::null_mut()]);
            let failed = libc::posix_spawnp(
                &raw mut pid,
                words[0],
                &raw const actions,
                none,
                words.as_ptr(),
                environment.as_ptr(),
            );
            libc::posix_spawn_file_actions_destroy(&raw mut actions);
            assert_eq!(failed, 0);
        }
        u32::try_from(pid).unwrap()
    }

    #[test]
    fn a_child_has_no_memory_of_its_own_until_it_executes_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let (cwd, fifo) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(cwd, &pipe, fifo, 0o600.into(), 0).unwrap();
        let at = pipe.clone();
        let spawned = std::thread::spawn(move || spawn(&at));
        let root = ProcRoot::default();
        let own = std::process::id();
        let look = || {
            let all = root.pids().unwrap().into_iter().filter_map(|pid| root.stat(pid).ok());
            let family: Vec<Stat> = all
                .filter(|one| one.pid == own || one.parent == own && one.has_not_executed)
                .collect();
            (family.len(), with_own_memory(&root, family))
        };
        let until = Instant::now() + Duration::from_secs(60);
        while look().0 < 2 {
            assert!(Instant::now() < until, "the child is there");
            std::thread::sleep(Duration::from_millis(10));
        }
        let kept: Vec<u32> = look().1.iter().map(|one| one.pid).collect();
        assert!(kept.contains(&own), "{kept:?}");
        let borrowed = look().0 > kept.len();
        drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
        let child = spawned.join().unwrap();
        assert!(borrowed && !kept.contains(&child), "{child} in {kept:?}");
        let both = [own, child].map(|pid| root.stat(pid).unwrap()).to_vec();
        assert_eq!(with_own_memory(&root, both).len(), 2, "it has executed a program");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }

    #[test]
    fn where_the_kernel_is_not_asked_a_sleeping_parent_of_the_same_size_is_the_sign() {
        let root = ProcRoot::new("/nowhere");
        let stat = |pid: u32, parent: u32, state: char, flags: u32, size: u32| {
            let text = format!(
                "{pid} (ruby) {state} {parent} 1 1 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 9 {size} 50 1"
            );
            crate::process::parse_stat(&text).unwrap()
        };
        let left = |parent: char, flags: u32, size: u32| {
            let all = vec![stat(10, 1, parent, 0, 7_000), stat(11, 10, 'S', flags, size)];
            with_own_memory(&root, all).len()
        };
        assert_eq!(left('D', 0x40, 7_000), 1);
        assert_eq!(
            (left('S', 0x40, 7_000), left('D', 0, 7_000), left('D', 0x40, 7_001)),
            (2, 2, 2)
        );
    }
}
