//! Free ports, chosen by the kernel.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of 127.0.0.1 on which no process listens at this moment.
///
/// Another process may take it before the server binds it. The server then fails to start with its own message.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Free ports, each given once. The kernel may choose a port again as soon as it was closed.
#[derive(Debug, Default)]
pub(crate) struct DistinctPorts(BTreeSet<u16>);

impl DistinctPorts {
    /// Tries before another port is given up: on a machine with few free ports the kernel has few to choose from.
    const TRIES: usize = 1_000;

    /// A free port that was not given before.
    ///
    /// # Errors
    /// Where the kernel has none.
    pub(crate) fn next(&mut self) -> io::Result<u16> {
        self.next_of(free_port)
    }

    fn next_of(&mut self, mut draw: impl FnMut() -> io::Result<u16>) -> io::Result<u16> {
        for _ in 0..Self::TRIES {
            let port = draw()?;
            if self.0.insert(port) {
                return Ok(port);
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "there is no further free port"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_the_kernel_chooses_again_is_given_once() {
        let mut drawn = [7, 7, 7, 8].into_iter();
        let mut ports = DistinctPorts::default();
        let mut next = || ports.next_of(|| drawn.next().ok_or(io::ErrorKind::Other.into()));
        assert_eq!((next().unwrap(), next().unwrap()), (7, 8));
        assert!(next().is_err());
    }
}
