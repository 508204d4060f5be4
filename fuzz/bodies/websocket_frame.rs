//! Messages are the same however their frames are split, memory stays bounded, and no input causes a panic.
//!
//! The first byte of an input is the size of the pieces; the rest is what the server sends.

use carat_load::cable::frame::{
    FrameBuffer, FrameError, MESSAGE_MAX, SocketMessage, read_client_frame, write_server_text,
};

#[derive(Debug, PartialEq, Eq)]
enum OwnedMessage {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
}

/// Every message of the pieces until the first error, and the error.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<OwnedMessage>, Option<FrameError>) {
    let mut frames = FrameBuffer::default();
    let mut messages = Vec::new();
    let mut sent = 0;
    for piece in pieces {
        sent += piece.len();
        let mut reader = frames.read(piece);
        loop {
            messages.push(match reader.next_message() {
                Ok(Some(SocketMessage::Text(payload))) => OwnedMessage::Text(payload.to_vec()),
                Ok(Some(SocketMessage::Binary(payload))) => OwnedMessage::Binary(payload.to_vec()),
                Ok(Some(SocketMessage::Ping(payload))) => OwnedMessage::Ping(payload.to_vec()),
                Ok(Some(SocketMessage::Pong)) => OwnedMessage::Pong,
                Ok(Some(SocketMessage::Close(code))) => OwnedMessage::Close(code),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            });
        }
        assert!(frames.kept() <= sent.min(2 * MESSAGE_MAX));
    }
    (messages, None)
}

/// Panics if that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let once = read(std::iter::once(bytes));
    assert_eq!(once, read(bytes.chunks(usize::from(*size).max(1))));

    if let Some((_, used)) = read_client_frame(bytes) {
        assert!(used <= bytes.len());
    }
    let mut frame = Vec::new();
    write_server_text(bytes, &mut frame);
    assert_eq!(
        read(frame.chunks(usize::from(*size).max(1))).0,
        [OwnedMessage::Text(bytes.to_vec())]
    );
}
