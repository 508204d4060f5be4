//! Ports come from the kernel.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of 127.0.0.1 that nobody listens on at this moment.
///
/// Another process may take it before the server binds it; the server then fails to start, and its own
/// message says so.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
