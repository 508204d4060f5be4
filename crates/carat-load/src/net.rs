//! Non-blocking sockets with kernel time stamps and a chosen source address.
//!
//! Every function is one or two system calls; what their results mean is decided elsewhere.

use rustix::event::epoll;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::Timespec;
use std::io;
use std::mem::{size_of, size_of_val};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Whether it is a local IPv4 address, so that any of 127.0.0.0/8 can be a source.
    pub fn is_loopback_v4(&self) -> bool {
        matches!(self, Self::Inet(address) if matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()))
    }
}

/// Whether an address of this machine leads to the server. A socket without a connection needs no free port for that.
pub(crate) fn has_source(address: &SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    // A datagram socket only looks up the route (udp(7)); no packet is sent.
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.is_ok_and(|socket| net::connect(&socket, address).is_ok())
}

/// Begins a connection; it is established when the socket becomes writable.
///
/// # Errors
/// If the kernel refuses at once.
pub(crate) fn open(address: &Address, source: Option<Ipv4Addr>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        Address::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Address::Inet(_) = address {
        // Without it a small request waits for the acknowledgement of the one before (tcp(7)).
        sockopt::set_tcp_nodelay(&socket, true)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
    }
    if let Some(source) = source {
        // The port is chosen at connect, when the kernel knows the whole four-tuple (ip(7)).
        set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
        net::bind(&socket, &SocketAddr::from((source, 0)))?;
    }
    let begun = match address {
        Address::Inet(address) => net::connect(&socket, address),
        Address::Unix(path) => net::connect(&socket, &net::SocketAddrUnix::new(path)?),
    };
    match begun {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn set_option(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `on`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How a begun connection ended.
///
/// # Errors
/// The reason why the connection failed.
pub(crate) fn connected(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Sends what the kernel accepts, and returns how much.
///
/// # Errors
/// `WouldBlock` if it accepts nothing now, anything else if the connection is broken.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // A closed peer must be an error here, not a SIGPIPE that ends the generator (send(2)).
    Ok(net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// The result of one read.
#[derive(Debug, Clone, Copy)]
pub struct Receipt {
    /// Bytes read; 0 is the end.
    pub length: usize,
    /// Whether the socket is empty now, so that the next read can wait for the next event.
    pub drained: bool,
    /// When the last of them reached the socket, in nanoseconds of `CLOCK_REALTIME`.
    pub stamp: Option<i64>,
}

/// Space for one control message with a `timespec`, aligned as a `cmsghdr` must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Reads what has arrived, with the kernel's time stamp.
///
/// # Errors
/// `WouldBlock` if nothing has arrived, anything else if the connection is broken.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Receipt> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid `msghdr`: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // Its type is that of the C library.
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `message` points to `part` and `control`, which outlive the call, with their true lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let length = length as usize;
    // A full buffer may have left more behind; edge-triggered, no further event would say so.
    Ok(Receipt { length, drained: length < buffer.len(), stamp: stamp(&message) })
}

fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel has filled the control buffer and its length, and the buffer is aligned.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_TIMESTAMPNS {
        return None;
    }
    // SAFETY: a message of this type carries a `timespec`; it may be unaligned, so it is copied.
    let time: libc::timespec =
        unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    Some(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Watches many sockets.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

/// What has happened to a watched socket.
#[derive(Debug, Clone, Copy)]
pub struct SocketEvent {
    /// The number that the socket was added with.
    pub token: u64,
    /// There is something to read, or the end.
    pub readable: bool,
    /// There is space to write, or a connection has been established.
    pub writable: bool,
    /// The peer closed or the connection failed: read until the end.
    pub hung_up: bool,
}

impl Poller {
    /// A poller that reports at most `at_once` sockets per wait.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub fn new(at_once: usize) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(at_once) })
    }

    /// Watches a socket until it is closed.
    ///
    /// Edge-triggered: a read that does not fill its buffer has emptied the socket (epoll(7)). So one system call per
    /// message is enough, and none is needed to change what is watched.
    ///
    /// # Errors
    /// If the kernel has no more space for watches.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        // `OUT` too: it announces a new connection, and room where a send was refused.
        let interest = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), interest)?)
    }

    /// Waits at most `nanos` nanoseconds and returns how many sockets are ready.
    ///
    /// # Errors
    /// Never in practice: an interrupted wait counts as none ready.
    pub fn wait(&mut self, nanos: u64) -> io::Result<usize> {
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(ready) => Ok(ready),
            // A signal, such as that of a profiler, is no failure of the poller.
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// One of the sockets that the last wait found ready.
    pub fn ready(&self, index: usize) -> SocketEvent {
        let event = self.events[index];
        let flags = event.flags;
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        SocketEvent {
            token: event.data.u64(),
            readable: flags.intersects(epoll::EventFlags::IN | ended),
            writable: flags.intersects(epoll::EventFlags::OUT),
            hung_up: flags.intersects(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{MonotonicTime, StampClock};
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn the_kernel_stamps_what_arrives_before_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Inet(listener.local_addr().unwrap());
        let socket = open(&address, Some(Ipv4Addr::new(127, 0, 0, 9))).unwrap();
        let (mut peer, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)));
        let mut poller = Poller::new(8).unwrap();
        poller.add(&socket, 5).unwrap();
        let clock = StampClock::default();
        // The kernel enables time stamps only some time after the first socket requests them.
        for _ in 0..1_000 {
            let before = MonotonicTime::now();
            peer.write_all(b"hello").unwrap();
            while !(0..poller.wait(1_000_000_000).unwrap()).any(|at| poller.ready(at).readable) {}
            let mut buffer = [0; 64];
            let receipt = receive(socket.as_fd(), &mut buffer).unwrap();
            let read = MonotonicTime::now();
            assert_eq!(&buffer[..receipt.length], b"hello");
            if let Some(stamp) = receipt.stamp {
                let arrived = clock.convert(stamp, read).unwrap();
                assert!(arrived <= read, "{arrived:?} {read:?}");
                // The clocks are compared by two readings, between which a busy machine may run others.
                if before.0 < arrived.0 + 100_000 {
                    return;
                }
            }
        }
        panic!("no stamp in a thousand reads that is not before its message");
    }

    #[test]
    fn a_small_request_does_not_wait_for_an_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = open(&Address::Inet(listener.local_addr().unwrap()), None).unwrap();
        assert!(sockopt::tcp_nodelay(&socket).unwrap());
    }

    #[test]
    fn an_address_of_this_machine_leads_to_the_loopback_interface() {
        assert!(has_source(&"127.0.0.1:9".parse().unwrap()));
    }

    #[test]
    fn a_refused_connection_is_reported_as_refused() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = match open(&Address::Inet(port), None) {
            Ok(socket) => socket,
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        };
        let mut poller = Poller::new(8).unwrap();
        poller.add(&socket, 1).unwrap();
        assert_eq!(poller.wait(1_000_000_000).unwrap(), 1);
        let error = connected(socket.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
