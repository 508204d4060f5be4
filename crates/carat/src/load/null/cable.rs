//! A server that speaks as much Action Cable as a broadcast needs, and knows when it sent what.

use crate::load::cable::frame::{read_client_frame, write_server_text};
use crate::load::cable::handshake::accept_of;
use crate::load::clock::MonotonicTime;
use crate::load::descriptors::raise_to_hard;
use crate::load::net::{self, Poller};
use serde_json::{Value, json};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const LISTENER: u64 = u64::MAX;
/// Between two looks at the wish to stop, in nanoseconds like the next.
const LOOK: u64 = 50_000_000;
/// Between two pings of every connection, as Action Cable has it.
const PING: u64 = 3_000_000_000;

/// What a broadcast really took: the truth that a generator's report is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedBroadcast {
    /// When the command had been read.
    pub asked: MonotonicTime,
    /// When the last subscriber's frame had been given to the kernel.
    pub sent: MonotonicTime,
}

/// A null server on one thread.
#[derive(Debug)]
pub struct NullCable {
    listener: TcpListener,
    poller: Poller,
    connections: Vec<Option<NullConnection>>,
    truths: Vec<ServedBroadcast>,
}

#[derive(Debug)]
struct NullConnection {
    socket: OwnedFd,
    upgraded: bool,
    /// Bytes of a command that is not whole yet.
    pending: Vec<u8>,
    /// The identifier as it is repeated in every message, a JSON string; none until subscribed.
    identifier: Option<String>,
    unsent: Vec<u8>,
}

impl NullCable {
    /// A server that accepts from `listener`.
    ///
    /// # Errors
    /// Where the kernel has no descriptor for the poller.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        raise_to_hard();
        listener.set_nonblocking(true)?;
        let poller = Poller::new(1024)?;
        poller.add(&listener, LISTENER)?;
        Ok(Self { listener, poller, connections: Vec::new(), truths: Vec::new() })
    }

    /// Serves until `stop` is set and says what every broadcast took.
    ///
    /// # Errors
    /// Where the poller fails.
    pub fn serve(mut self, stop: &AtomicBool) -> io::Result<Vec<ServedBroadcast>> {
        let mut buffer = vec![0; 64 * 1024];
        let mut pinged = MonotonicTime::now();
        while !stop.load(Ordering::Relaxed) {
            for at in 0..self.poller.wait(LOOK)? {
                let ready = self.poller.ready(at);
                if ready.token == LISTENER {
                    self.accept()?;
                } else {
                    self.serve_one(ready.token as usize, &mut buffer);
                }
            }
            let now = MonotonicTime::now();
            if now.since(pinged) >= PING {
                pinged = now;
                let seconds = now.0 / 1_000_000_000;
                self.tell_all(&json!({ "type": "ping", "message": seconds }).to_string());
            }
        }
        Ok(self.truths)
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
            }));
        }
        Ok(())
    }

    fn serve_one(&mut self, place: usize, buffer: &mut [u8]) {
        while let Some(connection) = &mut self.connections[place] {
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
                    self.obey(place, &text);
                }
            } else {
                connection.upgrade(&buffer[..length]);
            }
        }
    }

    fn obey(&mut self, place: usize, text: &[u8]) {
        let Ok(command) = serde_json::from_slice::<Value>(text) else { return };
        let Some(connection) = &mut self.connections[place] else { return };
        let identifier = command["identifier"].to_string();
        if command["command"] == "subscribe" {
            connection
                .say(&format!(r#"{{"identifier":{identifier},"type":"confirm_subscription"}}"#));
            connection.identifier = Some(identifier);
            return;
        }
        let asked = MonotonicTime::now();
        let data =
            command["data"].as_str().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let Some(mut data) = data else { return };
        let delivery = |data: &Value| format!(r#"{{"identifier":{identifier},"message":{data}}}"#);
        self.tell_subscribers(&delivery(&data));
        self.truths.push(ServedBroadcast { asked, sent: MonotonicTime::now() });
        data["action"] = "broadcastResult".into();
        if let Some(connection) = &mut self.connections[place] {
            connection.say(&delivery(&data));
        }
    }

    fn tell_subscribers(&mut self, text: &str) {
        let mut frame = Vec::new();
        write_server_text(text.as_bytes(), &mut frame);
        for connection in self.connections.iter_mut().flatten() {
            if connection.identifier.is_some() {
                connection.send(&frame);
            }
        }
    }

    fn tell_all(&mut self, text: &str) {
        let upgraded = self.connections.iter_mut().flatten().filter(|one| one.upgraded);
        upgraded.for_each(|connection| connection.say(text));
    }
}

impl NullConnection {
    fn upgrade(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        let accept = accept_of(key.unwrap_or_default().trim());
        self.upgraded = true;
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n\r\n"
        );
        self.send(answer.as_bytes());
        self.say(r#"{"type":"welcome"}"#);
    }

    /// The commands that end with these bytes; everything but text is passed over.
    fn commands(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.pending.extend_from_slice(bytes);
        let mut commands = Vec::new();
        while let Some((text, used)) = read_client_frame(&self.pending) {
            self.pending.drain(..used);
            commands.extend(text);
        }
        commands
    }

    fn say(&mut self, text: &str) {
        let mut frame = Vec::new();
        write_server_text(text.as_bytes(), &mut frame);
        self.send(&frame);
    }

    fn send(&mut self, bytes: &[u8]) {
        if self.unsent.is_empty() {
            let sent = net::send(self.socket.as_fd(), bytes).unwrap_or(0);
            self.unsent.extend_from_slice(&bytes[sent..]);
        } else {
            self.unsent.extend_from_slice(bytes);
        }
    }

    fn flush(&mut self) {
        if !self.unsent.is_empty() {
            let sent = net::send(self.socket.as_fd(), &self.unsent).unwrap_or(0);
            self.unsent.drain(..sent);
        }
    }
}
