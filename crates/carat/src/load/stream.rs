//! One connection to a server, with or without TLS.

use crate::core::load::ConnectionOptions;
use crate::load::error::GeneratorError;
use crate::load::net::{self, Receipt};
use crate::load::target::Target;
use crate::load::tls::{Tls, TlsSession};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    target: Target,
    tls: Option<Tls>,
}

impl Dialer {
    /// # Errors
    /// If TLS is requested and cannot be set up.
    pub(crate) fn new(target: Target, options: &ConnectionOptions) -> Result<Self, GeneratorError> {
        let tls = target.tls_name.as_deref().map(|name| Tls::new(name, options)).transpose()?;
        Ok(Self { target, tls })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Begins a connection, from a source address if one is given.
    pub(crate) fn dial(&self, source: Option<Ipv4Addr>) -> io::Result<Stream> {
        let tls = self.tls.as_ref().map(Tls::session).transpose()?.map(Box::new);
        Ok(Stream { socket: net::open(&self.target.address, source)?, tls })
    }
}

/// A connection, begun or established.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    /// Boxed, because most connections have none.
    tls: Option<Box<TlsSession>>,
}

impl Stream {
    /// The socket for the poller.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether the connection was established.
    pub(crate) fn connected(&self) -> io::Result<()> {
        net::connected(self.socket.as_fd())
    }

    /// Continues the TLS handshake and returns whether it is finished; without TLS it always is.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(session) => session.handshake(self.socket.as_fd()),
        }
    }

    /// Sends what is accepted now, and returns how much.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => net::send(self.socket.as_fd(), bytes),
            Some(session) => session.write(self.socket.as_fd(), bytes),
        }
    }

    /// Sends what `write` accepted but the kernel did not, as far as the kernel accepts it now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(session) => session.flush(self.socket.as_fd()),
        }
    }

    /// Reads what has arrived.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Receipt> {
        match &mut self.tls {
            None => net::receive(self.socket.as_fd(), buffer),
            Some(session) => session.read(self.socket.as_fd(), buffer),
        }
    }
}
