//! One connection to a server, with or without TLS.

use crate::error::GeneratorError;
use crate::fault::SocketFault;
use crate::net::{self, Address, Receipt};
use crate::ports::PortRange;
use crate::server_files::ServerFiles;
use crate::target::Target;
use crate::tls::{Tls, TlsSession};
use carat_model::load::ConnectionOptions;
use carat_proc::process::ProcRoot;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Connections from one source address if the range of local ports is unknown: well below the kernel's default range.
const PER_SOURCE: u32 = 20_000;
/// The last source address for a local server, 127.0.0.254; the first is the kernel's choice.
const LAST_SOURCE: u8 = 254;

/// Opens connections to one server.
#[derive(Debug)]
pub struct Dialer {
    target: Target,
    tls: Option<Tls>,
    ports: Option<PortRange>,
    /// Whether the server has run out of files.
    pub server_files: ServerFiles,
}

impl Dialer {
    /// # Errors
    /// If TLS is requested and cannot be set up.
    pub fn new(
        target: Target,
        options: &ConnectionOptions,
        root: &ProcRoot,
    ) -> Result<Self, GeneratorError> {
        let tls = target.tls_name.as_deref().map(|name| Tls::new(name, options)).transpose()?;
        let ports = PortRange::read(root.path());
        let server_files = ServerFiles::new(root.clone(), &target.address);
        Ok(Self { target, tls, ports, server_files })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The range of local ports, if it is known.
    pub fn ports(&self) -> Option<PortRange> {
        self.ports
    }

    /// # Errors
    /// If there are fewer local ports than connections.
    pub fn check_ports(&self, connections: u64) -> Result<(), GeneratorError> {
        // Unknown ports, or a socket without any, are checked by the kernel itself.
        let (Some(ports), Address::Inet(_)) = (self.ports, &self.target.address) else {
            return Ok(());
        };
        let sources = if self.target.address.is_loopback_v4() { u64::from(LAST_SOURCE) } else { 1 };
        if connections > u64::from(ports.count()) * sources {
            let (range, count) = (ports.to_string(), ports.count());
            return Err(GeneratorError::Ports { connections, range, count });
        }
        Ok(())
    }

    /// Begins the connection of that number among those of all threads.
    ///
    /// Toward a local server, further source addresses are used before the ports of one are exhausted, because the kernel
    /// searches long for the last ones, and when somebody else has them.
    pub fn dial(&self, number: u32) -> Result<Stream, SocketFault> {
        let session = self.tls.as_ref().map(Tls::session).transpose();
        let tls = session.map_err(|error| SocketFault::of(&error))?.map(Box::new);
        let address = &self.target.address;
        // The usual address first; others only where its ports are used up.
        let mut begun = net::open(address, self.source(number, 0));
        for further in 1..LAST_SOURCE {
            let exhausted =
                matches!(&begun, Err(error) if SocketFault::of(error) == SocketFault::NoPort);
            match self.source(number, further).filter(|_| exhausted) {
                Some(source) => begun = net::open(address, Some(source)),
                None => break,
            }
        }
        match begun.map_err(|error| SocketFault::of(&error)) {
            Ok(socket) => Ok(Stream { socket, tls }),
            // Without a route the kernel also answers EADDRNOTAVAIL, which is no lack of ports.
            Err(SocketFault::NoPort) if !self.has_source() => Err(SocketFault::NoSource),
            Err(fault) => Err(fault),
        }
    }

    /// The address from which the connection of that number comes, or the one that is so many further; `None` is the
    /// kernel's choice.
    fn source(&self, number: u32, further: u8) -> Option<Ipv4Addr> {
        if !self.target.address.is_loopback_v4() {
            return None;
        }
        // Two thirds: the kernel finds a free one of the last third by search.
        let each = self.ports.map_or(PER_SOURCE, |ports| (ports.count() * 2 / 3).max(1));
        let nth = number / each + u32::from(further);
        // 127.0.0.1 is what the kernel chooses anyway, so the first further one is .2.
        let last = u8::try_from(nth + 1).ok().filter(|last| (2..=LAST_SOURCE).contains(last))?;
        Some(Ipv4Addr::new(127, 0, 0, last))
    }

    fn has_source(&self) -> bool {
        match &self.target.address {
            Address::Inet(address) => net::has_source(address),
            Address::Unix(_) => true,
        }
    }
}

/// A connection, begun or established.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    /// Boxed, because most connections have none.
    tls: Option<Box<TlsSession>>,
}

impl Stream {
    /// The socket for the poller.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether the connection was established.
    pub fn connected(&self) -> io::Result<()> {
        net::connected(self.socket.as_fd())
    }

    /// Continues the TLS handshake and returns whether it is finished; without TLS it always is.
    pub fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(session) => session.handshake(self.socket.as_fd()),
        }
    }

    /// Sends what is accepted now, and returns how much.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => net::send(self.socket.as_fd(), bytes),
            Some(session) => session.write(self.socket.as_fd(), bytes),
        }
    }

    /// Sends what `write` accepted but the kernel did not, as far as the kernel accepts it now.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(session) => session.flush(self.socket.as_fd()),
        }
    }

    /// Reads what has arrived.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Receipt> {
        match &mut self.tls {
            None => net::receive(self.socket.as_fd(), buffer),
            Some(session) => session.read(self.socket.as_fd(), buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::resolve;
    use std::fs;
    use std::net::TcpListener;

    /// A dialer of a machine with these local ports.
    fn dialer(url: &str, ports: &str) -> Dialer {
        let folder = tempfile::tempdir().unwrap();
        let range = folder.path().join("sys/net/ipv4");
        fs::create_dir_all(&range).unwrap();
        fs::write(range.join("ip_local_port_range"), ports).unwrap();
        let root = ProcRoot::new(folder.path());
        Dialer::new(resolve(url).unwrap(), &ConnectionOptions::default(), &root).unwrap()
    }

    #[test]
    fn connections_to_a_local_server_come_from_further_addresses_before_the_ports_are_exhausted() {
        let local = dialer("http://127.0.0.1:9", "40000 40299");
        for (number, further, last) in [
            (0, 0, None),
            (199, 0, None),
            (200, 0, Some(2)),
            (400, 0, Some(3)),
            (0, 1, Some(2)),
            (200, 1, Some(3)),
            (200 * 254 - 1, 0, Some(254)),
            (200 * 254, 0, None),
        ] {
            let source = local.source(number, further).map(|source| source.octets()[3]);
            assert_eq!(source, last, "{number} {further}");
        }
        assert_eq!(dialer("http://10.0.0.1:9", "40000 40299").source(1000, 3), None);
    }

    #[test]
    fn more_connections_than_local_ports_are_refused_before_the_load_with_the_range() {
        for (url, connections, refused) in [
            ("http://10.0.0.1:9", 200, false),
            ("http://10.0.0.1:9", 201, true),
            ("http://[::1]:9", 201, true),
            ("http://127.0.0.1:9", 201, false),
            ("unix:/run/x.sock", 201, false),
        ] {
            let checked = dialer(url, "40000 40199").check_ports(connections);
            assert_eq!(checked.is_err(), refused, "{url} {connections}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.contains("200") && text.contains("40000 to 40199"), "{text}");
            }
        }
    }

    #[test]
    fn the_server_sees_the_address_of_a_later_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let dialer = dialer(&url, "32768 60999");
        for (number, last) in [(0, 1), (30_000, 2), (60_000, 4)] {
            let _stream = dialer.dial(number).unwrap();
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), Ipv4Addr::new(127, 0, 0, last), "{number}");
        }
    }
}
