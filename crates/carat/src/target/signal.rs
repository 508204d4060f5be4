//! Signals to one process, and never to a later one with its pid.

use carat_proc::process::{Identity, ProcRoot};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tracing::debug;

/// Sends a signal to this process. It is no failure if the process has ended.
pub(crate) fn signal(identity: Identity, signal: Signal) {
    let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else { return };
    let root = ProcRoot::default();
    // The descriptor stands for whatever process has the pid now, and for no later one.
    let process = pidfd_open(pid, PidfdFlags::empty());
    if !root.alive(identity) {
        return;
    }
    let sent = match process {
        Ok(process) => pidfd_send_signal(process, signal),
        // Before Linux 5.3, and where a container forbids the call. The pid can be reused between these two steps.
        Err(Errno::NOSYS | Errno::PERM) => kill_process(pid, signal),
        Err(error) => Err(error),
    };
    debug!(
        pid = identity.pid,
        ?signal,
        failed = sent.err().map(tracing::field::display),
        "signal sent"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_signal_reaches_the_process_that_is_meant_and_no_other_one_with_its_pid() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let meant = ProcRoot::default().identify(child.id()).unwrap();
        let earlier = Identity { start_ticks: meant.start_ticks - 1, ..meant };
        signal(earlier, Signal::KILL);
        signal(meant, Signal::TERM);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        signal(meant, Signal::KILL);
    }
}
