//! A process that carat started, until its end.

use carat_model::Bytes;
use carat_proc::process::{Identity, ProcRoot};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tracing::debug;

/// A child of this process. Its pid is not reused before its exit status is collected here.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    identity: Identity,
    ended: Option<Ended>,
}

/// What the kernel keeps of a process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Highest resident memory of the process, or of the largest descendant for which it or another one waited
    /// (`ru_maxrss` of getrusage(2)). It includes what the process had before `exec`.
    pub(crate) peak: Bytes,
}

impl ChildProcess {
    /// The child with this pid.
    ///
    /// # Errors
    /// If `/proc` does not show it.
    pub(crate) fn of_pid(pid: u32) -> io::Result<Self> {
        // A child's pid stays its own until it is waited for, so this is the child.
        let identity = ProcRoot::default().identify(pid).map_err(io::Error::other)?;
        Ok(Self { identity, ended: None })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        self.wait(libc::WNOHANG)
    }

    /// Kills it and waits for its end.
    pub(crate) fn kill(&mut self) {
        // Asked first: the pid of a child that was waited for can be another process's by now.
        if self.ended().is_none() {
            // SAFETY: the pid is that of a child that was not waited for.
            unsafe { libc::kill(self.raw_pid(), libc::SIGKILL) };
            self.wait(0);
        }
    }

    fn wait(&mut self, options: i32) -> Option<Ended> {
        // Once it is collected the pid is free, and the call could collect another child.
        if self.ended.is_none() {
            let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
            // SAFETY: buffers of the right types.
            let waited = retried(|| unsafe {
                libc::wait4(self.raw_pid(), &raw mut status, options, usage.as_mut_ptr())
            });
            if waited == self.raw_pid() {
                // SAFETY: the call has filled it in; zeros are a valid value too.
                let kib = unsafe { usage.assume_init() }.ru_maxrss;
                let peak = Bytes::from_kib(u64::try_from(kib).unwrap_or(0));
                debug!(pid = self.identity.pid, status, peak = peak.0, "process ended");
                self.ended = Some(Ended { status: ExitStatus::from_raw(status), peak });
            }
        }
        self.ended
    }

    fn raw_pid(&self) -> i32 {
        // A pid is at most 2^22 (proc(5), `pid_max`).
        i32::try_from(self.identity.pid).unwrap_or(i32::MAX)
    }
}

/// Calls until no signal interrupts the call.
fn retried(mut call: impl FnMut() -> i32) -> i32 {
    loop {
        let result = call();
        if result != -1 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[expect(clippy::zombie_processes, reason = "the value that is returned waits for it")]
    fn started(script: &str) -> ChildProcess {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        ChildProcess::of_pid(child.id()).unwrap()
    }

    #[test]
    fn the_end_of_a_child_has_its_status_however_often_it_is_asked() {
        let mut child = started("exit 3");
        let end = child.wait(0).unwrap();
        assert_eq!(end.status.code(), Some(3));
        assert!(end.peak > Bytes(0));
        assert_eq!(child.ended(), Some(end));
    }

    #[test]
    fn a_killed_child_has_ended_and_can_be_killed_again() {
        let mut child = started("exec sleep 600");
        assert_eq!(child.ended(), None);
        child.kill();
        child.kill();
        assert_eq!(child.ended().unwrap().status.signal(), Some(libc::SIGKILL));
    }
}
