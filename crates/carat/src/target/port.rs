//! Free ports, chosen by the kernel.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of 127.0.0.1 on which no process listens at this moment.
///
/// Another process may take it before the server binds it. The server then fails to start with its own message.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
