//! Servers with one chosen fault.

use carat_load::cable::frame::{MESSAGE_MAX, read_client_frame, write_server_text};
use carat_load::cable::handshake::accept_of;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The fault of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// Every hundredth delivery is left out.
    Drop,
    /// Every hundredth delivery is sent twice.
    Duplicate,
    /// A subscriber gets two broadcasts in the wrong order.
    Reorder,
    /// Subscriptions are never confirmed.
    NeverConfirm,
    /// The first subscription request of every connection is lost.
    ForgetFirst,
    /// Subscriptions are refused.
    Reject,
    /// The welcome is never sent.
    NeverWelcome,
    /// The connection is closed in the middle of one delivery.
    CloseInside,
    /// One connection is told to disconnect and not to return.
    SendAway,
    /// The length field of a frame exceeds the limit.
    Oversized,
    /// A frame has reserved bits set.
    Reserved,
    /// A message is not JSON.
    NoJson,
    /// A message is not UTF-8.
    NoUtf8,
    /// Every byte is sent in its own packet.
    Dribble,
    /// One delivery is repeated with another payload.
    Alter,
    /// The sender's own result is never sent.
    NoResult,
    /// No broadcast is delivered.
    NoDelivery,
    /// One delivery is delayed until the next step's connections have subscribed.
    Late,
    /// After the confirmation, pings come without end and nothing is read.
    PingForever,
}

#[derive(Debug, Default)]
struct Room {
    subscribers: Vec<TcpStream>,
    deliveries: u64,
    held: Option<Vec<u8>>,
    forgotten: Vec<SocketAddr>,
    late: Option<(TcpStream, Vec<u8>)>,
}

/// Starts an Action Cable server with a fault; it runs until the test process ends.
pub(crate) fn cable_server(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let room = Arc::new(Mutex::new(Room::default()));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let room = Arc::clone(&room);
            thread::spawn(move || serve(stream, fault, &room));
        }
    });
    address
}

/// Starts a server that calls `answer` for every request; it runs until the test process ends.
pub(crate) fn raw_server(
    answer: impl Fn(&mut TcpStream, usize) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut served = 0;
                while !read_head(&mut stream).is_empty() {
                    answer(&mut stream, served);
                    served += 1;
                }
            });
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}

fn text(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    write_server_text(text.as_bytes(), &mut frame);
    frame
}

fn send(stream: &mut TcpStream, bytes: &[u8], fault: Fault) {
    if fault == Fault::Dribble {
        for byte in bytes {
            let _ = stream.write_all(&[*byte]);
        }
    } else {
        let _ = stream.write_all(bytes);
    }
}

fn serve(mut stream: TcpStream, fault: Fault, room: &Mutex<Room>) {
    stream.set_nodelay(true).unwrap();
    let head = read_head(&mut stream);
    let Some(key) = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) else {
        return;
    };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        accept_of(key)
    );
    send(&mut stream, answer.as_bytes(), fault);
    if fault == Fault::NeverWelcome {
        thread::sleep(Duration::from_secs(60));
    }
    send(&mut stream, &text(r#"{"type":"welcome"}"#), fault);
    let mut pending = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        pending.extend_from_slice(&piece[..length]);
        while let Some((command, used)) = read_client_frame(&pending) {
            pending.drain(..used);
            if let Some(command) = command {
                run_command(&mut stream, &serde_json::from_slice(&command).unwrap(), fault, room);
            }
            if fault == Fault::PingForever {
                return ping_forever(&mut stream);
            }
        }
    }
}

/// Sends pings until the client closes the connection.
fn ping_forever(stream: &mut TcpStream) {
    let ping = [&[0x89, 125][..], &[b'p'; 125]].concat();
    let many = ping.repeat(512);
    while stream.write_all(&many).is_ok() {}
}

fn run_command(stream: &mut TcpStream, command: &Value, fault: Fault, room: &Mutex<Room>) {
    let identifier = command["identifier"].to_string();
    let mut room = room.lock().unwrap();
    if command["command"] == "subscribe" {
        let peer = stream.peer_addr().unwrap();
        if fault == Fault::ForgetFirst && !room.forgotten.contains(&peer) {
            room.forgotten.push(peer);
            return;
        }
        let kind = if fault == Fault::Reject { "reject" } else { "confirm" };
        let answer =
            text(&format!(r#"{{"identifier":{identifier},"type":"{kind}_subscription"}}"#));
        if fault != Fault::NeverConfirm {
            send(stream, &answer, fault);
        }
        room.subscribers.push(stream.try_clone().unwrap());
        let late = if room.subscribers.len() > 10 { room.late.take() } else { None };
        if let Some((mut stream, frame)) = late {
            send(&mut stream, &frame, fault);
        }
        return;
    }
    let mut data: Value = serde_json::from_str(command["data"].as_str().unwrap()).unwrap();
    let message = |data: &Value| format!(r#"{{"identifier":{identifier},"message":{data}}}"#);
    let delivery = message(&data);
    if fault != Fault::NoDelivery {
        room.deliver(&delivery, fault);
    }
    data["action"] = "broadcastResult".into();
    if fault != Fault::NoResult {
        send(stream, &text(&message(&data)), fault);
    }
}

impl Room {
    fn deliver(&mut self, message: &str, fault: Fault) {
        let mut subscribers = std::mem::take(&mut self.subscribers);
        let swapped = if fault == Fault::Reorder { self.held.take() } else { None };
        if fault == Fault::Reorder && swapped.is_none() {
            self.held = Some(text(message));
        } else {
            for stream in &mut subscribers {
                self.deliveries += 1;
                self.one(stream, message, fault);
                send(stream, &swapped.clone().unwrap_or_default(), fault);
            }
        }
        self.subscribers = subscribers;
    }

    fn one(&mut self, stream: &mut TcpStream, message: &str, fault: Fault) {
        let frame = text(message);
        let hundredth = self.deliveries.is_multiple_of(100);
        let extra = match fault {
            Fault::Drop if hundredth => return,
            Fault::Late if self.deliveries == 100 => {
                self.late = Some((stream.try_clone().unwrap(), frame));
                return;
            }
            Fault::Duplicate if hundredth => frame.clone(),
            Fault::CloseInside if self.deliveries == 100 => {
                send(stream, &frame[..frame.len() / 2], fault);
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            Fault::SendAway if self.deliveries == 100 => {
                text(r#"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#)
            }
            Fault::Oversized if self.deliveries == 100 => {
                [&[0x81, 127][..], &(MESSAGE_MAX as u64 + 1).to_be_bytes()].concat()
            }
            Fault::Reserved if self.deliveries == 100 => vec![0xf1, 0],
            Fault::NoJson if self.deliveries == 100 => text("{\"type\":"),
            Fault::NoUtf8 if self.deliveries == 100 => vec![0x81, 3, b'"', 0xff, b'"'],
            Fault::Alter if self.deliveries == 100 => text(&message.replace("xx\"", "xy\"")),
            _ => Vec::new(),
        };
        send(stream, &frame, fault);
        send(stream, &extra, fault);
    }
}
