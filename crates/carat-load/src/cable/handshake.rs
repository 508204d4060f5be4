//! The upgrade from HTTP to Action Cable (RFC 6455, 4.1; subprotocol `actioncable-v1-json`).

use crate::http::response::{ResponseError, head_end, parse_head};
use crate::target::Target;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carat_model::load::CableLoad;
use sha1::{Digest, Sha1};
use std::fmt::Write as _;
use thiserror::Error;

/// The subprotocol that the generator speaks.
const PROTOCOL: &str = "actioncable-v1-json";
/// The suffix that the server appends to the key before it hashes it (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Longest accepted answer to an upgrade in bytes.
const ANSWER_MAX: usize = 16 * 1024;

/// Why an upgrade to Action Cable failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Not an HTTP response.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// Another status than 101.
    #[error("the upgrade was answered with status {0}")]
    Status(u16),
    /// An answer that does not belong to the request.
    #[error("the Sec-WebSocket-Accept of the answer is wrong")]
    Accept,
    /// A subprotocol that the generator does not speak.
    #[error("the server speaks `{0}` instead of actioncable-v1-json")]
    Protocol(String),
}

/// The upgrade request, except for the key of each connection.
#[derive(Debug)]
pub struct UpgradeRequest {
    before: String,
    after: String,
}

impl UpgradeRequest {
    /// The request of every client of a load; only the key differs.
    pub fn new(load: &CableLoad, target: &Target) -> Self {
        let scheme = if target.tls_name.is_some() { "https" } else { "http" };
        // Rails refuses an Origin that is not its own host (`allowed_request_origins`).
        let origin = load.origin.clone().unwrap_or_else(|| format!("{scheme}://{}", target.host));
        let before = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nOrigin: {origin}\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {PROTOCOL}, actioncable-unsupported\r\nSec-WebSocket-Key: ",
            target.path, target.host
        );
        let mut after = "\r\n".to_owned();
        for (name, value) in &load.headers {
            // Writing to a string cannot fail.
            let _ = write!(after, "{name}: {value}\r\n");
        }
        after.push_str("\r\n");
        Self { before, after }
    }

    /// The request of one connection.
    pub fn request(&self, key: &str) -> Vec<u8> {
        [&self.before, key, &self.after].concat().into_bytes()
    }
}

/// The key of a connection, derived from its number so that it need not be kept.
pub fn key_of(seed: u64, place: u32) -> String {
    // A key is 16 bytes in base64 (RFC 6455, 4.1). It need not be secret, only differ.
    let bytes = (u128::from(seed) << 64 | u128::from(place)).to_be_bytes();
    STANDARD.encode(&Sha1::digest(bytes)[..16])
}

/// Parses the answer; `Some` with its length once it is complete.
///
/// # Errors
/// If the server does not accept the upgrade.
pub fn read_answer(bytes: &[u8], key: &str) -> Result<Option<usize>, HandshakeError> {
    let Some(end) = head_end(bytes) else {
        let long = bytes.len() > ANSWER_MAX;
        return if long { Err(ResponseError::LongHead.into()) } else { Ok(None) };
    };
    let head = &bytes[..end.lines];
    let status = parse_head(head)?.status;
    if status != 101 {
        return Err(HandshakeError::Status(status));
    }
    let accept = STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
    // Proves that a WebSocket server answered, not a cache or another protocol (RFC 6455, 4.1).
    if header(head, "sec-websocket-accept") != Some(accept.as_str()) {
        return Err(HandshakeError::Accept);
    }
    // Without a subprotocol in the answer the server speaks the only one that was asked for.
    match header(head, "sec-websocket-protocol") {
        None | Some(PROTOCOL) => Ok(Some(end.body)),
        Some(other) => Err(HandshakeError::Protocol(other.to_owned())),
    }
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub fn accept_of(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}{GUID}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(lines: &str) -> String {
        format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n{lines}\r\n")
    }

    #[test]
    fn the_key_of_the_rfc_has_the_answer_of_the_rfc() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accept_of(key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let text = answer("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
        for end in 0..text.len() {
            assert_eq!(read_answer(&text.as_bytes()[..end], key), Ok(None), "cut at {end}");
        }
        assert_eq!(read_answer(text.as_bytes(), key), Ok(Some(text.len())));
    }

    #[test]
    fn lines_of_the_answer_may_end_with_a_bare_line_feed() {
        let key = key_of(1, 2);
        let text = answer(&format!("Sec-WebSocket-Accept: {}\r\n", accept_of(&key)));
        let bare = text.replace('\r', "");
        for end in 0..bare.len() {
            assert_eq!(read_answer(&bare.as_bytes()[..end], &key), Ok(None), "cut at {end}");
        }
        assert_eq!(read_answer(bare.as_bytes(), &key), Ok(Some(bare.len())));
    }

    #[test]
    fn a_server_that_does_not_speak_action_cable_is_refused() {
        let key = key_of(1, 2);
        let accept = accept_of(&key);
        let other = format!(
            "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: actioncable-unsupported\r\n"
        );
        for (text, error) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), HandshakeError::Status(404)),
            (answer("Sec-WebSocket-Accept: x\r\n"), HandshakeError::Accept),
            (answer(&other), HandshakeError::Protocol("actioncable-unsupported".into())),
            ("x".repeat(20_000), ResponseError::LongHead.into()),
        ] {
            assert_eq!(read_answer(text.as_bytes(), &key), Err(error), "{text}");
        }
    }

    #[test]
    fn every_connection_has_its_own_key() {
        assert_ne!(key_of(1, 1), key_of(1, 2));
        assert_eq!(STANDARD.decode(key_of(1, 1)).unwrap().len(), 16);
    }
}
