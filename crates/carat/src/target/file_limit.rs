//! The limit of file sizes that this process was started with (`ulimit -f`).

/// While it lives, writing beyond the limit of file sizes fails. Otherwise it would end this process (SIGXFSZ, setrlimit(2)).
/// It must not live when a program is executed, which would inherit that.
#[derive(Debug)]
pub(crate) struct FailingWrites {
    before: libc::sighandler_t,
}

impl FailingWrites {
    pub(crate) fn begin() -> Self {
        // SAFETY: installs no function of ours.
        Self { before: unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } }
    }
}

impl Drop for FailingWrites {
    fn drop(&mut self) {
        if self.before != libc::SIG_ERR {
            // SAFETY: restores what was there before.
            unsafe { libc::signal(libc::SIGXFSZ, self.before) };
        }
    }
}
