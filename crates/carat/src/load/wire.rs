//! One connection to a server.

use crate::load::error::LoadError;
use crate::load::net::{self, Receipt};
use crate::load::target::Target;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    target: Target,
}

impl Dialer {
    /// A dialer for a server.
    ///
    /// # Errors
    /// Where TLS is asked for.
    pub(crate) fn new(target: Target) -> Result<Self, LoadError> {
        if target.tls_name.is_some() { Err(LoadError::Tls) } else { Ok(Self { target }) }
    }

    /// The server.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Begins a connection, from a source address where one is given.
    pub(crate) fn dial(&self, source: Option<Ipv4Addr>) -> io::Result<Wire> {
        Ok(Wire { socket: net::open(&self.target.address, source)? })
    }
}

/// A connection, begun or made.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// The socket, to watch it.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// How the begun connection ended.
    pub(crate) fn connected(&self) -> io::Result<()> {
        net::connected(self.socket.as_fd())
    }

    /// Sends what is taken now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        net::send(self.socket.as_fd(), bytes)
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Receipt> {
        net::receive(self.socket.as_fd(), buffer)
    }
}
