//! A server that answers every HTTP request with the same bytes.

use crate::load::descriptors::raise_to_hard;
use crate::load::net::{self, Poller};
use memchr::memmem;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The token of the listening socket; connections are numbered below it.
const LISTENER: u64 = u64::MAX;
/// Time between two checks of the stop flag, in nanoseconds.
const STOP_CHECK: u64 = 50_000_000;

/// A null server on one thread.
#[derive(Debug)]
pub struct NullHttp {
    listener: TcpListener,
    poller: Poller,
    response: Vec<u8>,
    connections: Vec<Option<OwnedFd>>,
}

impl NullHttp {
    /// A server whose responses have a body of `body` bytes.
    ///
    /// # Errors
    /// If the kernel has no descriptor for the poller.
    pub fn new(listener: TcpListener, body: usize) -> io::Result<Self> {
        raise_to_hard();
        listener.set_nonblocking(true)?;
        let poller = Poller::new(256)?;
        poller.add(&listener, LISTENER)?;
        let body = "x".repeat(body);
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Self { listener, poller, response: response.into_bytes(), connections: Vec::new() })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// If the poller fails.
    pub fn serve(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        while !stop.load(Ordering::Relaxed) {
            for at in 0..self.poller.wait(STOP_CHECK)? {
                let ready = self.poller.ready(at);
                if ready.token == LISTENER {
                    self.accept()?;
                } else if ready.readable {
                    self.answer(ready.token as usize, &mut buffer);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            self.poller.add(&stream, self.connections.len() as u64)?;
            self.connections.push(Some(stream.into()));
        }
        Ok(())
    }

    /// Sends one response per blank line; a request is far smaller than a read.
    fn answer(&mut self, place: usize, buffer: &mut [u8]) {
        while let Some(socket) = &self.connections[place] {
            let length = match net::receive(socket.as_fd(), buffer) {
                Ok(receipt) if receipt.length > 0 => receipt.length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {
                    self.connections[place] = None;
                    return;
                }
            };
            for _ in memmem::find_iter(&buffer[..length], b"\r\n\r\n") {
                // A client that does not read its responses gets no more.
                let _ = net::send(socket.as_fd(), &self.response);
            }
        }
    }
}
