//! When a process ended.

use carat_proc::process::Identity;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that waits for the end of a child, so that its time is not that of the next look.
#[derive(Debug)]
pub(crate) struct ExitWatch(JoinHandle<Instant>);

impl ExitWatch {
    /// Begins to wait for a child of this process.
    pub(crate) fn start(child: Identity) -> Self {
        let pid = i32::try_from(child.pid).ok().and_then(Pid::from_raw);
        Self(thread::spawn(move || {
            if let Some(pid) = pid {
                // The exit status stays for another thread to collect. If it was collected already, this fails at once.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
            }
            Instant::now()
        }))
    }

    /// When the child ended. Waits until it has.
    pub(crate) fn ended(self) -> Option<Instant> {
        self.0.join().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_proc::process::ProcRoot;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn the_end_of_a_child_is_known_before_its_status_is_collected() {
        let began = Instant::now();
        let mut child = Command::new("sleep").arg("0.2").spawn().unwrap();
        let watch = ExitWatch::start(ProcRoot::default().identify(child.id()).unwrap());
        let ended = watch.ended().unwrap();
        assert!(ended - began >= Duration::from_millis(200));
        assert!(child.wait().unwrap().success(), "its status is still there");
    }
}
