//! Why a load could not be driven at all.

use crate::core::load::LoadOptionError;
use crate::load::target::TargetError;
use std::io;
use thiserror::Error;

/// A load that could not be run. A load that ran, however badly, has a report with findings instead.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] LoadOptionError),
    /// The URL has no server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Too few file descriptors.
    #[error(
        "the load needs {needed} file descriptors and this process may have {hard}: raise the limit with `ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` in a systemd unit or `--ulimit nofile={needed}` for a container, or use fewer connections"
    )]
    Descriptors {
        /// What the load needs.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}; load the port behind it with http:// or ws://")]
    Tls(String),
    /// A host that cannot be in a certificate.
    #[error("`{0}` is no name that a certificate can have: write a DNS name or an address")]
    TlsName(String),
    /// A file of certificates that cannot be used.
    #[error("cannot use the certificates of {file}: {reason}; name a file in PEM")]
    TlsCa {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A system call failed that never should.
    #[error(
        "the kernel refused the generator a resource: {0}; look at `ulimit -a` and at free memory"
    )]
    Kernel(#[source] io::Error),
    /// A thread of the generator panicked.
    #[error("a thread of the generator panicked; please report the lines above")]
    Panicked,
    /// The generator's process could not be started.
    #[error(
        "cannot start the load generator {exe}: {source}; check that the file is there and executable"
    )]
    Spawn {
        /// The program.
        exe: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The generator's process ended without a report.
    #[error("the load generator ended without a report ({status}): {stderr}")]
    Ended {
        /// Its exit status.
        status: String,
        /// The end of what it wrote to its error stream.
        stderr: String,
    },
    /// What should be a load or a report is not one.
    #[error(
        "the load generator was sent something that is not a load: {0}; use the same carat on both sides"
    )]
    Protocol(#[from] serde_json::Error),
}
