//! WebSocket frames (RFC 6455, 5.2): read from pieces of any size, and written.
//!
//! A connection keeps bytes only while a frame is split across reads or a message across frames. Otherwise messages are
//! borrowed directly from the read buffer.

use thiserror::Error;

/// Longest accepted message in bytes; no memory is allocated because of a server's length field alone.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Longest payload of a control frame (RFC 6455, 5.5).
const CONTROL_MAX: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Why bytes are not frames that a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Reserved bits or an unknown opcode.
    #[error("a frame has reserved bits or an unknown opcode")]
    Reserved,
    /// A masked frame; only clients mask.
    #[error("a frame from the server is masked")]
    Masked,
    /// A control frame that is long or split.
    #[error("a control frame is longer than 125 bytes or split")]
    Control,
    /// A message beyond [`MESSAGE_MAX`].
    #[error("a message is longer than 1 MiB")]
    Long,
    /// A continuation without a beginning, or a new message inside another.
    #[error("the frames of a message are out of order")]
    Order,
}

/// A complete message or control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMessage<'a> {
    /// Text; not checked for UTF-8.
    Text(&'a [u8]),
    /// Binary data.
    Binary(&'a [u8]),
    /// A ping, to be answered by a pong with the same payload.
    Ping(&'a [u8]),
    /// The answer to a ping.
    Pong,
    /// The end of the connection, with its code.
    Close(Option<u16>),
}

/// Bytes that a connection keeps between two reads; empty most of the time.
#[derive(Debug, Default)]
pub struct FrameBuffer(Option<Box<PartialMessage>>);

#[derive(Debug, Default)]
struct PartialMessage {
    /// The beginning of a frame that is not complete.
    pending: Vec<u8>,
    /// The frames of a message that is not complete.
    fragments: Vec<u8>,
    /// Opcode of that message; 0 if there is none.
    opcode: u8,
    /// Whether `fragments` has been returned as a message and must be emptied.
    returned: bool,
}

/// Iterates over the messages of one read.
#[derive(Debug)]
pub struct FrameReader<'a> {
    frames: &'a mut FrameBuffer,
    fresh: &'a [u8],
    at: usize,
    carried: bool,
}

#[derive(Debug, Clone, Copy)]
struct FrameHead {
    last: bool,
    opcode: u8,
    size: usize,
    length: usize,
}

/// Parses a header; `None` if more bytes are needed.
fn parse_header(bytes: &[u8]) -> Result<Option<FrameHead>, FrameError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (last, opcode) = (first & 0x80 != 0, first & 0x0f);
    // No extension was negotiated, so the reserved bits must be zero (RFC 6455, 5.2).
    if first & 0x70 != 0 || !matches!(opcode, CONTINUATION..=BINARY | CLOSE..=PONG) {
        return Err(FrameError::Reserved);
    }
    // A server must not mask (RFC 6455, 5.1). Unmasking all the same would hide a broken one.
    if second & 0x80 != 0 {
        return Err(FrameError::Masked);
    }
    let (size, length) = match (second & 0x7f, rest) {
        (126, [a, b, ..]) => (4, u64::from(u16::from_be_bytes([*a, *b]))),
        (127, [a, b, c, d, e, f, g, h, ..]) => {
            (10, u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]))
        }
        (126 | 127, _) => return Ok(None),
        (short, _) => (2, u64::from(short)),
    };
    // Control frames come between the fragments of a message, so they must be whole (5.4).
    if opcode >= CLOSE && (length > CONTROL_MAX as u64 || !last) {
        return Err(FrameError::Control);
    }
    let length = usize::try_from(length).map_err(|_| FrameError::Long)?;
    // Before anything is allocated: the length is the server's word only.
    if length > MESSAGE_MAX {
        return Err(FrameError::Long);
    }
    Ok(Some(FrameHead { last, opcode, size, length }))
}

impl FrameBuffer {
    /// The messages that are complete with these bytes.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8]) -> FrameReader<'a> {
        // Only a split frame costs a copy. Usually messages are borrowed from the read buffer.
        let carried = match &mut self.0 {
            Some(partial) if !partial.pending.is_empty() => {
                partial.pending.extend_from_slice(bytes);
                true
            }
            _ => false,
        };
        FrameReader { frames: self, fresh: bytes, at: 0, carried }
    }

    /// Number of bytes that are kept for later.
    pub fn kept(&self) -> usize {
        self.0.as_ref().map_or(0, |partial| partial.pending.len() + partial.fragments.len())
    }
}

impl FrameReader<'_> {
    /// The next message; `None` if the rest needs more bytes.
    ///
    /// Call it until it returns `None` or fails: only then are unused bytes kept.
    ///
    /// # Errors
    /// If the bytes are not what a server may send; the connection is unusable then.
    pub fn next_message(&mut self) -> Result<Option<SocketMessage<'_>>, FrameError> {
        loop {
            // A message that was borrowed by the last call can be dropped only now.
            self.drop_returned();
            let bytes = if self.carried { self.pending() } else { self.fresh };
            let header = parse_header(&bytes[self.at..])?;
            let Some(header) = header.filter(|h| bytes.len() - self.at >= h.size + h.length) else {
                self.keep();
                return Ok(None);
            };
            let from = self.at + header.size;
            self.at = from + header.length;
            // May stand between the fragments of a message, and must not end it (RFC 6455, 5.4).
            if header.opcode >= CLOSE {
                return Ok(Some(control(header.opcode, self.slice(from, header.length))));
            }
            if self.take_data(header, from)? {
                return Ok(Some(self.complete(header, from)));
            }
        }
    }

    fn pending(&self) -> &[u8] {
        self.frames.0.as_ref().map_or(&[], |partial| &partial.pending)
    }

    fn slice(&self, from: usize, length: usize) -> &[u8] {
        let bytes = if self.carried { self.pending() } else { self.fresh };
        &bytes[from..from + length]
    }

    /// Adds a data frame to its message and returns whether the message is complete.
    fn take_data(&mut self, header: FrameHead, from: usize) -> Result<bool, FrameError> {
        let open = self.frames.0.as_ref().map_or(0, |partial| partial.opcode);
        // A continuation without a beginning, or a beginning inside a message (RFC 6455, 5.4).
        if (header.opcode == CONTINUATION) != (open != 0) {
            return Err(FrameError::Order);
        }
        if header.last && open == 0 {
            return Ok(true);
        }
        let part = self.slice(from, header.length).to_vec();
        let partial = self.frames.0.get_or_insert_default();
        // Many small fragments would otherwise exceed the limit that one frame has.
        if partial.fragments.len() + part.len() > MESSAGE_MAX {
            return Err(FrameError::Long);
        }
        partial.fragments.extend_from_slice(&part);
        partial.opcode = if open == 0 { header.opcode } else { open };
        Ok(header.last)
    }

    fn complete(&mut self, header: FrameHead, from: usize) -> SocketMessage<'_> {
        let fragmented = self.frames.0.as_ref().is_some_and(|partial| partial.opcode != 0);
        if !fragmented {
            return data(header.opcode, self.slice(from, header.length));
        }
        match &mut self.frames.0 {
            Some(partial) => {
                partial.returned = true;
                data(partial.opcode, &partial.fragments)
            }
            None => SocketMessage::Pong,
        }
    }

    fn drop_returned(&mut self) {
        if let Some(partial) = self.frames.0.as_mut().filter(|partial| partial.returned) {
            partial.returned = false;
            partial.opcode = 0;
            // Freed, not cleared: thousands of connections must not keep their largest message.
            partial.fragments = Vec::new();
        }
    }

    /// Keeps the remaining bytes for the next read.
    fn keep(&mut self) {
        if self.carried {
            if let Some(partial) = &mut self.frames.0 {
                partial.pending.drain(..self.at);
            }
        } else if self.at < self.fresh.len() {
            let partial = self.frames.0.get_or_insert_default();
            partial.pending.extend_from_slice(&self.fresh[self.at..]);
        }
        (self.fresh, self.at, self.carried) = (&[], 0, true);
        // Back to one pointer: an idle connection costs no buffer.
        if self.frames.0.as_ref().is_some_and(|c| c.pending.is_empty() && c.opcode == 0) {
            self.frames.0 = None;
        }
    }
}

fn data(opcode: u8, payload: &[u8]) -> SocketMessage<'_> {
    if opcode == TEXT { SocketMessage::Text(payload) } else { SocketMessage::Binary(payload) }
}

fn control(opcode: u8, payload: &[u8]) -> SocketMessage<'_> {
    match (opcode, payload) {
        (PING, _) => SocketMessage::Ping(payload),
        (PONG, _) => SocketMessage::Pong,
        // A close without a code has an empty payload (RFC 6455, 5.5.1).
        (_, [high, low, ..]) => SocketMessage::Close(Some(u16::from_be_bytes([*high, *low]))),
        _ => SocketMessage::Close(None),
    }
}

/// The kinds of frames that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Text,
    /// The answer to a ping.
    Pong,
    /// The end of the connection.
    Close,
}

/// Appends a client's frame, masked as required (RFC 6455, 5.3).
pub fn write_frame(kind: FrameKind, payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    let opcode = match kind {
        FrameKind::Text => TEXT,
        FrameKind::Pong => PONG,
        FrameKind::Close => CLOSE,
    };
    write_head(opcode, payload.len(), 0x80, out);
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
}

/// Appends a server's text frame, as the null server sends it.
pub fn write_server_text(payload: &[u8], out: &mut Vec<u8>) {
    write_head(TEXT, payload.len(), 0, out);
    out.extend_from_slice(payload);
}

/// Parses a client's frame for the null server: its text, if it is text, and its length; `None` until it is complete.
pub fn read_client_frame(bytes: &[u8]) -> Option<(Option<Vec<u8>>, usize)> {
    let opcode = bytes.first()? & 0x0f;
    let (size, length) = match bytes.get(1)? & 0x7f {
        126 => (4, usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?)).ok()?),
        short => (2, usize::from(short)),
    };
    // Checked additions: the length is the peer's and may be near the largest number.
    let mask: [u8; 4] = *bytes.get(size..)?.first_chunk()?;
    let end = size.checked_add(4)?.checked_add(length)?;
    let payload = bytes.get(size + 4..end)?;
    let text = payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some(((opcode == TEXT).then_some(text), end))
}

fn write_head(opcode: u8, length: usize, mask: u8, out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => out.push(mask | short),
        (_, Ok(middle)) => {
            out.push(mask | 126);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            out.push(mask | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tungstenite::protocol::frame::FrameHeader;
    use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

    /// All messages read from some pieces, in a form that can be compared.
    fn read_all(pieces: &[&[u8]]) -> Result<Vec<(char, Vec<u8>)>, FrameError> {
        let mut frames = FrameBuffer::default();
        let mut all = Vec::new();
        for piece in pieces {
            let mut reader = frames.read(piece);
            while let Some(message) = reader.next_message()? {
                all.push(match message {
                    SocketMessage::Text(payload) => ('t', payload.to_vec()),
                    SocketMessage::Binary(payload) => ('b', payload.to_vec()),
                    SocketMessage::Ping(payload) => ('p', payload.to_vec()),
                    SocketMessage::Pong => ('o', Vec::new()),
                    SocketMessage::Close(code) => ('c', code.unwrap_or(0).to_be_bytes().to_vec()),
                });
            }
        }
        assert!(frames.kept() == 0 || !pieces.is_empty());
        Ok(all)
    }

    fn frame(payload: &[u8], opcode: OpCode, last: bool) -> Vec<u8> {
        let header = FrameHeader { is_final: last, opcode, ..FrameHeader::default() };
        let mut bytes = Vec::new();
        header.format(payload.len() as u64, &mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn conversation() -> (Vec<u8>, Vec<(char, Vec<u8>)>) {
        let long = vec![b'x'; 300];
        let mut bytes = frame(b"hello", OpCode::Data(Data::Text), true);
        bytes.extend(frame(b"one ", OpCode::Data(Data::Text), false));
        bytes.extend(frame(b"now", OpCode::Control(Control::Ping), true));
        bytes.extend(frame(b"two", OpCode::Data(Data::Continue), true));
        bytes.extend(frame(&long, OpCode::Data(Data::Binary), true));
        bytes.extend(frame(b"", OpCode::Data(Data::Text), true));
        bytes.extend(frame(&[3, 232], OpCode::Control(Control::Close), true));
        let messages = vec![
            ('t', b"hello".to_vec()),
            ('p', b"now".to_vec()),
            ('t', b"one two".to_vec()),
            ('b', long),
            ('t', Vec::new()),
            ('c', vec![3, 232]),
        ];
        (bytes, messages)
    }

    #[test]
    fn frames_are_complete_wherever_a_read_splits_them() {
        let (bytes, messages) = conversation();
        for at in 0..=bytes.len() {
            assert_eq!(read_all(&[&bytes[..at], &bytes[at..]]).unwrap(), messages, "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read_all(&single).unwrap(), messages, "byte by byte");
    }

    #[test]
    fn nothing_is_kept_once_all_messages_are_out() {
        let mut frames = FrameBuffer::default();
        for piece in conversation().0.chunks(7) {
            let mut reader = frames.read(piece);
            while reader.next_message().unwrap().is_some() {}
        }
        assert!(frames.0.is_none());
    }

    #[test]
    fn what_a_server_may_not_send_is_refused() {
        let huge = [&[0x82, 127][..], &u64::MAX.to_be_bytes()].concat();
        for (bytes, error) in [
            (&[0xc1, 0][..], FrameError::Reserved),
            (&[0x83, 0], FrameError::Reserved),
            (&[0x81, 0x81, 0, 0, 0, 0, 0], FrameError::Masked),
            (&[0x89, 126, 0, 126], FrameError::Control),
            (&[0x09, 0], FrameError::Control),
            (&[0x80, 0], FrameError::Order),
            (&[0x01, 1, b'a', 0x81, 0], FrameError::Order),
            (&huge, FrameError::Long),
        ] {
            assert_eq!(read_all(&[bytes]), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn fragments_never_add_up_to_more_than_the_limit() {
        let part = frame(&vec![0; MESSAGE_MAX / 2], OpCode::Data(Data::Binary), false);
        let more = frame(&vec![0; MESSAGE_MAX / 2 + 1], OpCode::Data(Data::Continue), false);
        assert_eq!(read_all(&[&part, &more]), Err(FrameError::Long));
    }

    #[test]
    fn tungstenite_reads_the_frames_that_we_write() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let payload = vec![b'z'; length];
            let mut bytes = Vec::new();
            write_frame(FrameKind::Text, &payload, [1, 2, 3, 4], &mut bytes);
            let stream = std::io::Cursor::new(bytes);
            let role = tungstenite::protocol::Role::Server;
            let mut socket = tungstenite::WebSocket::from_raw_socket(stream, role, None);
            let message = socket.read().unwrap();
            assert_eq!(message.into_text().unwrap().as_str().as_bytes(), payload, "{length}");
        }
    }

    #[test]
    fn the_null_server_reads_the_frames_that_we_write() {
        for length in [0, 125, 126, 65_536] {
            let payload = vec![b'q'; length];
            let mut bytes = Vec::new();
            write_frame(FrameKind::Text, &payload, [9, 8, 7, 6], &mut bytes);
            assert_eq!(read_client_frame(&bytes[..bytes.len() - 1]), None);
            assert_eq!(read_client_frame(&bytes), Some((Some(payload), bytes.len())));
        }
    }

    proptest! {
        #[test]
        fn we_read_the_frames_that_tungstenite_writes(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..6),
            cuts in prop::collection::vec(1usize..50, 0..60),
        ) {
            let bytes: Vec<u8> = payloads.iter()
                .flat_map(|payload| frame(payload, OpCode::Data(Data::Binary), true)).collect();
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, left) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = left;
            }
            pieces.push(rest);
            let messages: Vec<_> = payloads.into_iter().map(|payload| ('b', payload)).collect();
            prop_assert_eq!(read_all(&pieces).unwrap(), messages);
        }

        #[test]
        fn no_bytes_cause_a_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let _ = read_all(&pieces);
        }
    }
}
