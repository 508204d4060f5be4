//! The limit of file descriptors: raised and checked before anything is opened.

use crate::error::GeneratorError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs beside its connections.
const SPARE: u64 = 64;

/// Raises the limit for that many connections.
///
/// # Errors
/// If the hard limit is too low and cannot be raised.
pub(crate) fn raise_descriptors(connections: u64) -> Result<(), GeneratorError> {
    let needed = connections + SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    // Raised only where the soft limit would exceed it, which needs CAP_SYS_RESOURCE.
    let maximum = limit.maximum.map(|hard| hard.max(needed));
    let raised = Rlimit { current: Some(needed), maximum };
    // Only root may raise the hard limit; this call fails for other users.
    setrlimit(Resource::Nofile, raised).map_err(|_| GeneratorError::Descriptors {
        needed,
        hard: limit.maximum.unwrap_or(u64::MAX),
    })
}

/// Raises the soft limit to the hard limit.
pub(crate) fn raise_to_hard() {
    let limit = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard limit is always allowed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_cannot_be_raised_is_refused_with_the_remedy() {
        let error = raise_descriptors(1 << 40).unwrap_err().to_string();
        assert!(error.contains("ulimit -Hn 1099511627840"), "{error}");
    }
}
