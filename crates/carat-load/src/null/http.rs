//! A server that answers every HTTP request with the same bytes.

use crate::descriptors::raise_to_hard;
use crate::http::response::{HEAD_MAX, ResponseHead, head_end, parse_fields};
use crate::net::{self, Poller};
use std::io;
use std::net::TcpListener;
use std::ops::Range;
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
    answer: NullAnswer,
    connections: Vec<Option<NullClient>>,
}

/// The answer to every request.
#[derive(Debug)]
struct NullAnswer {
    bytes: Vec<u8>,
    /// Length of the head, which is the whole answer to HEAD (RFC 9110, 9.3.2).
    head: usize,
}

#[derive(Debug)]
struct NullClient {
    socket: OwnedFd,
    /// Bytes of requests that are not answered yet. No more are read while an answer waits, so a client that reads
    /// nothing takes no memory.
    pending: Vec<u8>,
    /// Bytes of a request's body that are still to come.
    body: u64,
    /// The part of the answer that the kernel has not taken.
    unsent: Range<usize>,
    closes: bool,
}

/// What is known of a client after it was served.
#[derive(Debug, PartialEq, Eq)]
enum ClientState {
    Waiting,
    Gone,
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
        Ok(Self { listener, poller, answer: NullAnswer::new(body), connections: Vec::new() })
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
                    continue;
                }
                let place = &mut self.connections[ready.token as usize];
                let Some(client) = place else { continue };
                if client.serve(&self.answer, &mut buffer) == ClientState::Gone {
                    *place = None;
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
            self.connections.push(Some(NullClient::new(stream.into())));
        }
        Ok(())
    }
}

impl NullAnswer {
    fn new(body: usize) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {body}\r\n\r\n"
        );
        let bytes = [head.as_bytes(), &vec![b'x'; body]].concat();
        Self { bytes, head: head.len() }
    }
}

impl NullClient {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, pending: Vec::new(), body: 0, unsent: 0..0, closes: false }
    }

    /// Answers and reads until the kernel takes and has no more.
    fn serve(&mut self, answer: &NullAnswer, buffer: &mut [u8]) -> ClientState {
        loop {
            // Nothing is read while an answer waits: a client that never reads costs nothing.
            while !self.unsent.is_empty() {
                match net::send(self.socket.as_fd(), &answer.bytes[self.unsent.clone()]) {
                    Ok(sent) => self.unsent.start += sent,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return ClientState::Waiting;
                    }
                    Err(_) => return ClientState::Gone,
                }
            }
            if self.closes {
                return ClientState::Gone;
            }
            match self.next_request(answer) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(()) => return ClientState::Gone,
            }
            match net::receive(self.socket.as_fd(), buffer) {
                Ok(receipt) if receipt.length > 0 => {
                    self.pending.extend_from_slice(&buffer[..receipt.length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ClientState::Waiting;
                }
                _ => return ClientState::Gone,
            }
        }
    }

    /// Begins the answer to the next request, if it is complete; an error if it is none that can be answered.
    fn next_request(&mut self, answer: &NullAnswer) -> Result<bool, ()> {
        let skipped = self.pending.len().min(usize::try_from(self.body).unwrap_or(usize::MAX));
        self.pending.drain(..skipped);
        self.body -= skipped as u64;
        let Some(end) = head_end(&self.pending) else {
            return if self.pending.len() > HEAD_MAX { Err(()) } else { Ok(false) };
        };
        let lines = &self.pending[..end.lines];
        let first = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let keep_alive = first.trim_ascii_end().ends_with(b"HTTP/1.1");
        let mut head = ResponseHead { status: 0, keep_alive, chunked: false, length: None };
        parse_fields(&mut head, lines).map_err(|_| ())?;
        // Its end would have to be parsed, and no load sends one.
        if head.chunked {
            return Err(());
        }
        let is_head = first.starts_with(b"HEAD ");
        self.body = head.length.unwrap_or_default();
        self.unsent = 0..if is_head { answer.head } else { answer.bytes.len() };
        self.closes = !head.keep_alive;
        self.pending.drain(..end.body);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// The lengths of the answers to what a client sends in pieces, and whether the connection ends after them.
    fn answers(pieces: &[&[u8]]) -> (Vec<usize>, bool) {
        let answer = NullAnswer::new(5);
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut client = NullClient::new(socket.into());
        let mut lengths = Vec::new();
        for piece in pieces {
            client.pending.extend_from_slice(piece);
            while client.next_request(&answer).unwrap() {
                lengths.push(client.unsent.len());
            }
        }
        (lengths, client.closes)
    }

    #[test]
    fn an_answer_longer_than_the_kernel_takes_is_sent_whole_and_then_the_connection_ends() {
        let answer = NullAnswer::new(3_000_000);
        let (socket, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut client = NullClient::new(socket.into());
        peer.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let (mut buffer, mut received) = (vec![0; 16 * 1024], Vec::new());
        let mut waits = 0;
        while client.serve(&answer, &mut buffer) == ClientState::Waiting {
            waits += 1;
            let mut piece = [0; 64 * 1024];
            let length = peer.read(&mut piece).unwrap();
            received.extend_from_slice(&piece[..length]);
        }
        drop(client);
        peer.read_to_end(&mut received).unwrap();
        assert!(received == answer.bytes && waits > 1, "{} bytes, {waits} waits", received.len());
    }

    #[test]
    fn every_request_has_one_answer_and_head_has_no_body() {
        let NullAnswer { bytes, head } = NullAnswer::new(5);
        let whole = bytes.len();
        assert_eq!(whole, head + 5);
        let post =
            b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\na\r\n\r\nb\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for (pieces, lengths, closes) in [
            (&[&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..]][..], vec![whole], false),
            (&[b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"], vec![head, whole], false),
            (&[b"GET / HTTP/1.1\r", b"\n\r", b"\n"], vec![whole], false),
            (&[post], vec![whole, whole], false),
            (&[&post[..47], &post[47..]], vec![whole, whole], false),
            (&[b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"], vec![whole], true),
            (&[b"GET / HTTP/1.0\r\n\r\n"], vec![whole], true),
        ] {
            assert_eq!(answers(pieces), (lengths, closes), "{pieces:?}");
        }
    }
}
