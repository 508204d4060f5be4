//! Why a process is not read, in the words of the cause.

use crate::canary::CanaryError;
use crate::denied::DeniedCause;
use crate::live::OpenMemoryError;
use crate::memory::ReadingStopped;
use crate::owners::threads::{STATE, field_in_stat};
use std::fs;
use std::io;
use std::path::Path;

/// Why a process is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such process.
    #[error("process {0} does not exist")]
    Gone(u32),
    /// The process ended, or started another program, while it was read.
    #[error("process {0} ended, or started another program, while it was read")]
    Ended(u32),
    /// The kernel forbids it.
    #[error("cannot open {file}: {cause}")]
    Denied {
        file: String,
        /// What forbids it, and what helps.
        cause: DeniedCause,
    },
    /// The reading would take more memory of our own than there is room for.
    #[error("{0}")]
    NoMemory(String),
    /// Reading would change the process.
    #[error(transparent)]
    Canary(#[from] CanaryError),
    /// No file that the process has loaded is Ruby's.
    #[error("process {0} runs no Ruby: no file that it has loaded exports rb_cObject")]
    NotRuby(u32),
    /// Too old.
    #[error("Ruby {0} is older than 2.7, whose heap is not known")]
    Version(String),
    /// The time for the reading was over before a Ruby was found.
    #[error("{0}")]
    Stopped(ReadingStopped),
    /// The list of mappings is longer than may be read, in bytes.
    #[error("its list of mappings is longer than {0} bytes")]
    Mappings(u64),
    /// Not the page size that the reader knows.
    #[error("memory pages of {0} bytes are not supported, only of 4096")]
    PageSize(usize),
    /// So many bytes of it at most lie in memory with too many pages to be searched.
    #[error(
        "up to {:.1} MB that it shares with other processes cannot be told from memory that was read and never written; one that was started anew can be read",
        *.0 as f64 / 1e6
    )]
    Indistinct(u64),
    /// Another error.
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: io::Error },
}

/// The refusal that an error means.
pub fn refusal(proc: &Path, process: u32, error: OpenMemoryError) -> Refused {
    match error {
        // While a process starts another program, its files say what those of one that has ended do.
        OpenMemoryError::Gone(process) if runs(proc, process) => Refused::Ended(process),
        OpenMemoryError::Gone(process) => Refused::Gone(process),
        OpenMemoryError::PageSize(bytes) => Refused::PageSize(bytes),
        OpenMemoryError::Mappings(bytes) => Refused::Mappings(bytes),
        OpenMemoryError::Indistinct(bytes) => Refused::Indistinct(bytes),
        OpenMemoryError::Io { file, source } => Refused::Io { file, source },
        OpenMemoryError::Denied { file } => {
            let name = Path::new(&file).file_name().and_then(|name| name.to_str());
            let cause = DeniedCause::of(proc, process, name.unwrap_or_default());
            Refused::Denied { file, cause }
        }
    }
}

/// Whether a process is there and has not ended.
fn runs(proc: &Path, process: u32) -> bool {
    let stat = fs::read(proc.join(process.to_string()).join("stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    field_in_stat(&stat, STATE).is_some_and(|state| !matches!(state, "Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denied::Barrier;

    #[test]
    fn a_process_that_starts_another_program_is_not_said_to_be_missing() {
        let proc = tempfile::tempdir().unwrap();
        for (process, state) in [(7, "R"), (8, "Z")] {
            let folder = proc.path().join(process.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("stat"), format!("{process} (a) b) {state} 1 1")).unwrap();
        }
        let refused = |process| refusal(proc.path(), process, OpenMemoryError::Gone(process));
        assert!(matches!(refused(7), Refused::Ended(7)));
        assert!(matches!(refused(8), Refused::Gone(8)));
        assert!(matches!(refused(9), Refused::Gone(9)));
    }

    #[test]
    fn a_denied_file_is_named_with_what_helps() {
        let cause = DeniedCause {
            barrier: Barrier::Yama(1),
            missing: vec!["CAP_SYS_PTRACE"],
            as_root: false,
        };
        let denied = Refused::Denied { file: "/proc/7/mem".into(), cause };
        assert_eq!(
            denied.to_string(),
            "cannot open /proc/7/mem: Yama forbids it (kernel.yama.ptrace_scope is 1); run carat as root, or give it \
             CAP_SYS_PTRACE"
        );
    }
}
