//! Messages are the same however the kernel cuts their frames, memory stays bounded, and nothing panics.
//!
//! The first byte of an input is the size of the pieces, the rest what the server sends.

use carat::load::cable::frame::{
    FrameBuffer, FrameError, MESSAGE_MAX, SocketMessage, read_client_frame, write_server_text,
};

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
}

/// Every message of the pieces until the first fault, and the fault.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Heard>, Option<FrameError>) {
    let mut frames = FrameBuffer::default();
    let mut heard = Vec::new();
    let mut sent = 0;
    for piece in pieces {
        sent += piece.len();
        let mut reader = frames.read(piece);
        loop {
            heard.push(match reader.next_message() {
                Ok(Some(SocketMessage::Text(payload))) => Heard::Text(payload.to_vec()),
                Ok(Some(SocketMessage::Binary(payload))) => Heard::Binary(payload.to_vec()),
                Ok(Some(SocketMessage::Ping(payload))) => Heard::Ping(payload.to_vec()),
                Ok(Some(SocketMessage::Pong)) => Heard::Pong,
                Ok(Some(SocketMessage::Close(code))) => Heard::Close(code),
                Ok(None) => break,
                Err(error) => return (heard, Some(error)),
            });
        }
        assert!(frames.kept() <= sent.min(2 * MESSAGE_MAX));
    }
    (heard, None)
}

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let once = read(std::iter::once(bytes));
    assert_eq!(once, read(bytes.chunks(usize::from(*size).max(1))));

    if let Some((_, used)) = read_client_frame(bytes) {
        assert!(used <= bytes.len());
    }
    let mut frame = Vec::new();
    write_server_text(bytes, &mut frame);
    assert_eq!(read(frame.chunks(usize::from(*size).max(1))).0, [Heard::Text(bytes.to_vec())]);
}
