//! Why a load could not be run at all.

use crate::target::TargetError;
use carat_model::load::LoadOptionError;
use std::io;
use thiserror::Error;

/// A load that could not be run. A load that ran, however badly, has a report with findings instead.
#[derive(Debug, Error)]
pub enum GeneratorError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] LoadOptionError),
    /// The URL has no server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Too few file descriptors.
    #[error(
        "the load needs {needed} file descriptors and this process may open {hard}: raise the limit with `ulimit -Hn {needed}` as root, `LimitNOFILE={needed}` in a systemd unit or `--ulimit nofile={needed}` for a container, or use fewer connections"
    )]
    Descriptors {
        /// What the load needs.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// Too few local ports.
    #[error(
        "the load needs {connections} connections and this machine has {count} local ports toward one server ({range}): widen net.ipv4.ip_local_port_range, or use fewer connections"
    )]
    Ports {
        /// Connections of the load.
        connections: u64,
        /// First and last port.
        range: String,
        /// Number of ports.
        count: u32,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}; use http:// or ws:// on a port without TLS")]
    Tls(String),
    /// A host that no certificate can name.
    #[error("no certificate can have the name `{0}`: use a DNS name or an address")]
    TlsName(String),
    /// An unusable file of certificates.
    #[error("cannot use the certificates in {file}: {reason}; pass a PEM file")]
    TlsCa {
        file: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// A scenario or a placeholder that cannot be used.
    #[error("{0}")]
    Request(String),
    /// An unexpected failure of a system call.
    #[error("the kernel refused the generator a resource: {0}; check `ulimit -a` and free memory")]
    Kernel(#[source] io::Error),
    /// A thread of the generator panicked.
    #[error("a thread of the generator panicked; please report the lines above")]
    Panicked,
    /// The generator's process could not be started.
    #[error(
        "cannot start the load generator {exe}: {source}; check that the file exists and is executable"
    )]
    Spawn {
        /// The program.
        exe: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The generator's process ended without a report.
    #[error("the load generator ended without a report ({status}): {stderr}")]
    Ended {
        /// Its exit status.
        status: String,
        /// The end of its error stream.
        stderr: String,
    },
    /// A malformed load.
    #[error(
        "the load generator received something that is not a load: {0}; use the same version of carat on both sides"
    )]
    Protocol(#[from] serde_json::Error),
}
