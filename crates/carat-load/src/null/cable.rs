//! A server with just enough Action Cable for broadcasts, which records when it sent them.

use crate::cable::frame::{MESSAGE_MAX, read_client_frame, write_server_text};
use crate::cable::handshake::accept_of;
use crate::clock::MonotonicTime;
use crate::descriptors::raise_to_hard;
use crate::http::response::head_end;
use crate::net::{self, Poller};
use serde_json::{Value, json};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const LISTENER: u64 = u64::MAX;
/// Time between two checks of the stop flag, in nanoseconds like the next.
const STOP_CHECK: u64 = 50_000_000;
/// Bytes that may wait for a client, which does not read if there are more; twice as many for an incomplete command.
const WAITING_MAX: usize = MESSAGE_MAX;
/// Time between two pings, as in Action Cable.
const PING_INTERVAL: u64 = 3_000_000_000;

/// The true times of one broadcast, with which a generator's report is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedBroadcast {
    /// When the command was read.
    pub received: MonotonicTime,
    /// When the last subscriber's frame was passed to the kernel.
    pub sent: MonotonicTime,
}

/// A null server on one thread.
#[derive(Debug)]
pub struct NullCable {
    listener: TcpListener,
    poller: Poller,
    connections: Vec<Option<NullConnection>>,
    served: Vec<ServedBroadcast>,
}

#[derive(Debug)]
struct NullConnection {
    socket: OwnedFd,
    upgraded: bool,
    /// Bytes of an incomplete command.
    pending: Vec<u8>,
    /// The identifier that is repeated in every message, a JSON string; `None` until subscribed.
    identifier: Option<String>,
    unsent: Vec<u8>,
    /// Whether it was given up; the event of its end is still to come.
    broken: bool,
}

impl NullCable {
    /// A server that accepts from `listener`.
    ///
    /// # Errors
    /// If the kernel has no descriptor for the poller.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        raise_to_hard();
        listener.set_nonblocking(true)?;
        let poller = Poller::new(1024)?;
        poller.add(&listener, LISTENER)?;
        Ok(Self { listener, poller, connections: Vec::new(), served: Vec::new() })
    }

    /// Serves until `stop` is set and returns the times of every broadcast.
    ///
    /// # Errors
    /// If the poller fails.
    pub fn serve(mut self, stop: &AtomicBool) -> io::Result<Vec<ServedBroadcast>> {
        let mut buffer = vec![0; 64 * 1024];
        let mut pinged = MonotonicTime::now();
        // Relaxed: nothing but the flag itself is exchanged.
        while !stop.load(Ordering::Relaxed) {
            for at in 0..self.poller.wait(STOP_CHECK)? {
                let ready = self.poller.ready(at);
                if ready.token == LISTENER {
                    self.accept()?;
                } else {
                    self.serve_one(ready.token as usize, &mut buffer);
                }
            }
            let now = MonotonicTime::now();
            if now.since(pinged) >= PING_INTERVAL {
                pinged = now;
                let seconds = now.0 / 1_000_000_000;
                self.send_all(&json!({ "type": "ping", "message": seconds }).to_string());
            }
        }
        Ok(self.served)
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            self.poller.add(&stream, self.connections.len() as u64)?;
            self.connections.push(Some(NullConnection {
                socket: stream.into(),
                upgraded: false,
                pending: Vec::new(),
                identifier: None,
                unsent: Vec::new(),
                broken: false,
            }));
        }
        Ok(())
    }

    fn serve_one(&mut self, place: usize, buffer: &mut [u8]) {
        while let Some(connection) = &mut self.connections[place] {
            // First what waits, because the event may be the room for it.
            connection.flush();
            let length = match net::receive(connection.socket.as_fd(), buffer) {
                Ok(receipt) if receipt.length > 0 => receipt.length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {
                    self.connections[place] = None;
                    return;
                }
            };
            if connection.upgraded {
                for text in connection.commands(&buffer[..length]) {
                    self.run_command(place, &text);
                }
            } else {
                connection.upgrade(&buffer[..length]);
            }
        }
    }

    fn run_command(&mut self, place: usize, text: &[u8]) {
        let Ok(command) = serde_json::from_slice::<Value>(text) else { return };
        let Some(connection) = &mut self.connections[place] else { return };
        let identifier = command["identifier"].to_string();
        if command["command"] == "subscribe" {
            connection.send_text(&format!(
                r#"{{"identifier":{identifier},"type":"confirm_subscription"}}"#
            ));
            connection.identifier = Some(identifier);
            return;
        }
        let received = MonotonicTime::now();
        let data =
            command["data"].as_str().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let Some(mut data) = data else { return };
        let delivery = |data: &Value| format!(r#"{{"identifier":{identifier},"message":{data}}}"#);
        self.broadcast(&delivery(&data));
        // The true times, with which a test compares what the generator reports.
        self.served.push(ServedBroadcast { received, sent: MonotonicTime::now() });
        data["action"] = "broadcastResult".into();
        if let Some(connection) = &mut self.connections[place] {
            connection.send_text(&delivery(&data));
        }
    }

    fn broadcast(&mut self, text: &str) {
        let mut frame = Vec::new();
        write_server_text(text.as_bytes(), &mut frame);
        for connection in self.connections.iter_mut().flatten() {
            if connection.identifier.is_some() {
                connection.send(&frame);
            }
        }
    }

    fn send_all(&mut self, text: &str) {
        let upgraded = self.connections.iter_mut().flatten().filter(|one| one.upgraded);
        upgraded.for_each(|connection| connection.send_text(text));
    }
}

impl NullConnection {
    /// Answers the upgrade once its request is complete.
    fn upgrade(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        let Some(end) = head_end(&self.pending) else { return };
        let head: Vec<u8> = self.pending.drain(..end.body).collect();
        let text = String::from_utf8_lossy(&head);
        let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        let accept = accept_of(key.unwrap_or_default().trim());
        self.upgraded = true;
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n\r\n"
        );
        self.send(answer.as_bytes());
        self.send_text(r#"{"type":"welcome"}"#);
    }

    /// The commands that are complete with these bytes; frames that are not text are ignored.
    fn commands(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.keep(bytes);
        let mut commands = Vec::new();
        while let Some((text, used)) = read_client_frame(&self.pending) {
            self.pending.drain(..used);
            commands.extend(text);
        }
        commands
    }

    fn send_text(&mut self, text: &str) {
        let mut frame = Vec::new();
        write_server_text(text.as_bytes(), &mut frame);
        self.send(&frame);
    }

    /// Keeps bytes of an incomplete request or command.
    fn keep(&mut self, bytes: &[u8]) {
        // An incomplete frame of any length would otherwise be kept.
        if self.pending.len() + bytes.len() > 2 * WAITING_MAX {
            self.give_up();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if self.broken {
            return;
        }
        // Behind what waits, so that frames keep their order.
        let sent = match self.unsent.is_empty() {
            true => net::send(self.socket.as_fd(), bytes).unwrap_or(0),
            false => 0,
        };
        if self.unsent.len() + bytes.len() - sent > WAITING_MAX {
            self.give_up();
        } else {
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
    }

    /// Closes the connection to a client that does not read, or whose command has no end.
    fn give_up(&mut self) {
        self.broken = true;
        (self.unsent, self.pending) = (Vec::new(), Vec::new());
        // A connection that has ended already needs no end.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn flush(&mut self) {
        if !self.unsent.is_empty() {
            let sent = net::send(self.socket.as_fd(), &self.unsent).unwrap_or(0);
            self.unsent.drain(..sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn connection() -> (NullConnection, UnixStream) {
        let (socket, peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let connection = NullConnection {
            socket: socket.into(),
            upgraded: false,
            pending: Vec::new(),
            identifier: None,
            unsent: Vec::new(),
            broken: false,
        };
        (connection, peer)
    }

    #[test]
    fn a_client_that_reads_nothing_is_given_up_and_takes_no_memory() {
        let (mut connection, _peer) = connection();
        let text = "x".repeat(1000);
        let mut most = 0;
        for _ in 0..20_000 {
            connection.send_text(&text);
            most = most.max(connection.unsent.len());
        }
        assert!(connection.broken && connection.unsent.is_empty());
        assert!(most > 0 && most <= WAITING_MAX, "{most} bytes");
    }

    #[test]
    fn a_command_without_end_is_given_up() {
        let (mut connection, _peer) = connection();
        let endless = [&[0x81, 0xff][..], &u64::MAX.to_be_bytes()].concat();
        assert!(connection.commands(&endless).is_empty());
        for _ in 0..1_000 {
            assert!(connection.commands(&[b'x'; 16 * 1024]).is_empty());
            assert!(connection.pending.len() <= 2 * WAITING_MAX);
        }
        assert!(connection.broken);
    }

    #[test]
    fn an_upgrade_that_arrives_in_pieces_is_answered_once() {
        let (mut connection, mut peer) = connection();
        let request = "GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        for piece in request.as_bytes().chunks(7) {
            assert!(!connection.upgraded);
            connection.upgrade(piece);
        }
        let mut answer = [0; 1024];
        let length = std::io::Read::read(&mut peer, &mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer[..length]);
        assert!(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
    }
}
