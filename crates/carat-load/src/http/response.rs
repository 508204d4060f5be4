//! Parses HTTP/1.1 responses from pieces of any size.
//!
//! Only what is needed to find the end and to check the body is kept; only a head that is split over reads is copied.
//! Sizes come from the server, so each has a limit here.

use carat_model::load::report::BODY_SHOWN;
use memchr::{memchr, memmem};
use std::sync::LazyLock;
use thiserror::Error;

/// Longest accepted head in bytes.
pub const HEAD_MAX: usize = 64 * 1024;
/// Longest line with the size of a chunk in bytes, extensions included.
const CHUNK_LINE_MAX: u32 = 4096;
/// The two ends of a head. A line may end with a bare line feed (RFC 9112, 2.2). Made once, because that costs as much as
/// the search in a usual head.
static HEAD_ENDS: LazyLock<[memmem::Finder<'static>; 2]> =
    LazyLock::new(|| [memmem::Finder::new(b"\n\r\n"), memmem::Finder::new(b"\n\n")]);
/// Bytes kept of the start of a body that may be wrong: one more than a report shows, so that it says that more came.
const BODY_KEPT: usize = BODY_SHOWN + 1;

/// Why bytes are not an HTTP response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// No status line.
    #[error("the response does not begin with an HTTP/1 status line")]
    StatusLine,
    /// A head without end.
    #[error("the head of the response is longer than 64 KiB")]
    LongHead,
    /// A length that is not a number, or two different ones.
    #[error("the Content-Length of the response is not a number, or there are two different ones")]
    Length,
    /// A malformed chunk.
    #[error("a chunk of the response is malformed")]
    Chunk,
    /// Bytes after the end of the response.
    #[error("the server sent more than the response")]
    Surplus,
    /// The connection ended first.
    #[error("the connection ended before the response did")]
    Early,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum BodyPhase {
    #[default]
    Head,
    Length(u64),
    ChunkSize {
        size: u64,
        digits: u32,
        line: u32,
        extension: bool,
    },
    Chunk(u64),
    ChunkEnd,
    Trailer {
        line: u32,
        total: u32,
    },
    UntilClose,
}

/// Where a head ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadEnd {
    /// Length of the lines before the blank one.
    pub lines: usize,
    /// Where the body begins.
    pub body: usize,
}

/// Finds the first blank line; `None` if there is none yet.
pub fn head_end(bytes: &[u8]) -> Option<HeadEnd> {
    let [usual, bare] = &*HEAD_ENDS;
    let usual = usual.find(bytes).map(|at| HeadEnd { lines: at + 1, body: at + 3 });
    // A bare line feed counts only before the usual end: in a body it means nothing.
    let before = usual.map_or(bytes, |end| &bytes[..end.lines]);
    bare.find(before).map(|at| HeadEnd { lines: at + 1, body: at + 2 }).or(usual)
}

/// The state of one connection's response; reused for the next one.
#[derive(Debug, Default)]
pub struct ResponseParser {
    phase: BodyPhase,
    head: Vec<u8>,
    begun: bool,
    status: u16,
    keep_alive: bool,
    no_body: bool,
    seen: usize,
    differs: bool,
    expected_status: Option<u16>,
    body_start: Vec<u8>,
    kept: KeptResponse,
    keeps: bool,
}

/// Head and body of a response, for those who need more than its end.
#[derive(Debug, Default)]
pub struct KeptResponse {
    /// Status line and headers.
    pub head: Vec<u8>,
    /// The body up to a limit.
    pub body: Vec<u8>,
    /// Whether the body is longer.
    pub is_cut: bool,
    limit: usize,
}

impl KeptResponse {
    fn push_body(&mut self, bytes: &[u8]) {
        // The limit bounds memory; `is_cut` says that a search of the body is not conclusive.
        let room = self.limit - self.body.len();
        self.is_cut |= bytes.len() > room;
        self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedResponse {
    /// Status code.
    pub status: u16,
    /// Whether the connection can be used again.
    pub keep_alive: bool,
    /// Whether the body is the expected one; true if none is expected.
    pub body_right: bool,
}

/// The contents of a head that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// Whether the connection stays open.
    pub keep_alive: bool,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// Length of the body, if it is given.
    pub length: Option<u64>,
}

impl ResponseParser {
    /// Begins the next response.
    pub fn reset(&mut self, no_body: bool) {
        self.phase = BodyPhase::Head;
        self.head.clear();
        self.begun = false;
        self.no_body = no_body;
        self.seen = 0;
        self.differs = false;
        self.keeps = false;
        self.body_start.clear();
    }

    /// The only correct status; every 2xx and 3xx if `None`. With another one the start of the body is kept.
    pub fn expect_status(&mut self, expected: Option<u16>) {
        self.expected_status = expected;
    }

    /// The start of the body, if the status is unexpected or a body was expected.
    pub fn body_start(&self) -> &[u8] {
        &self.body_start
    }

    /// Keeps the head of the response that begins now, and so many bytes of its body.
    pub fn keep(&mut self, limit: usize) {
        self.keeps = true;
        self.kept.head.clear();
        self.kept.body.clear();
        self.kept.is_cut = false;
        self.kept.limit = limit;
    }

    pub fn kept(&self) -> &KeptResponse {
        &self.kept
    }

    /// Whether any byte has been received.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Parses the next bytes; `Some` when the response is complete.
    ///
    /// # Errors
    /// If the bytes are not a response, or more than one.
    pub fn take(
        &mut self,
        bytes: &[u8],
        expected: Option<&[u8]>,
    ) -> Result<Option<ParsedResponse>, ResponseError> {
        // Even one byte: the server has read the request, so it must not be sent again.
        self.begun |= !bytes.is_empty();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, ended) = match self.phase {
                BodyPhase::Head => self.take_head(rest)?,
                _ => self.take_body(rest, expected)?,
            };
            rest = &rest[used..];
            if ended {
                return if rest.is_empty() {
                    Ok(Some(self.whole(expected)))
                } else {
                    // Without pipelining a second response is one that nobody requested.
                    Err(ResponseError::Surplus)
                };
            }
        }
        Ok(None)
    }

    /// The connection has ended: a response that is delimited by that is complete now.
    ///
    /// # Errors
    /// If a part is missing.
    pub fn end(&mut self, expected: Option<&[u8]>) -> Result<ParsedResponse, ResponseError> {
        match self.phase {
            BodyPhase::UntilClose => Ok(self.whole(expected)),
            _ => Err(ResponseError::Early),
        }
    }

    fn whole(&self, expected: Option<&[u8]>) -> ParsedResponse {
        let short = expected.is_some_and(|body| body.len() != self.seen);
        ParsedResponse {
            status: self.status,
            keep_alive: self.keep_alive,
            body_right: !self.differs && !short,
        }
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<(usize, bool), ResponseError> {
        // Usually a head comes in one read and is parsed where it is.
        if self.head.is_empty()
            && let Some(end) = head_end(bytes)
        {
            let ended = self.begin_body(&bytes[..end.lines])?;
            return Ok((end.body, ended));
        }
        // The blank line may span two reads, so the search begins two bytes before this one.
        let from = self.head.len().saturating_sub(2);
        let kept = self.head.len();
        // Four bytes more, so that a head of exactly the limit still has room for its end.
        let room = (HEAD_MAX + 4).saturating_sub(kept).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        if let Some(end) = head_end(&self.head[from..]) {
            let head = std::mem::take(&mut self.head);
            let ended = self.begin_body(&head[..from + end.lines])?;
            return Ok((from + end.body - kept, ended));
        }
        if self.head.len() > HEAD_MAX { Err(ResponseError::LongHead) } else { Ok((room, false)) }
    }

    /// Continues with the body and returns whether there is none (RFC 9112, 6.3).
    fn begin_body(&mut self, bytes: &[u8]) -> Result<bool, ResponseError> {
        let head = parse_head(bytes)?;
        // An interim response (RFC 9110, 15.2): the final one follows. 101 is final here.
        if (100..200).contains(&head.status) && head.status != 101 {
            return Ok(false);
        }
        if self.keeps {
            self.kept.head.extend_from_slice(bytes);
        }
        self.status = head.status;
        // After a switch of protocols nothing on the connection is a response.
        self.keep_alive = head.keep_alive && head.status != 101;
        let none = self.no_body || matches!(head.status, 101 | 204 | 304);
        self.phase = match head {
            _ if none => return Ok(true),
            // Chunked before a length (RFC 9112, 6.3): a proxy in between may disagree about it.
            ResponseHead { chunked: true, .. } => chunk_size(),
            ResponseHead { length: Some(0), .. } => return Ok(true),
            ResponseHead { length: Some(length), .. } => BodyPhase::Length(length),
            _ => {
                // Only the end of the connection delimits it (RFC 9112, 6.3, rule 8).
                self.keep_alive = false;
                BodyPhase::UntilClose
            }
        };
        Ok(false)
    }

    fn take_body(
        &mut self,
        bytes: &[u8],
        expected: Option<&[u8]>,
    ) -> Result<(usize, bool), ResponseError> {
        let byte = bytes[0];
        match self.phase {
            BodyPhase::Length(left) => {
                let used = self.take_data(bytes, left, expected);
                self.phase = BodyPhase::Length(left - used as u64);
                return Ok((used, left == used as u64));
            }
            BodyPhase::Chunk(left) => {
                let used = self.take_data(bytes, left, expected);
                let left = left - used as u64;
                self.phase = if left == 0 { BodyPhase::ChunkEnd } else { BodyPhase::Chunk(left) };
                return Ok((used, false));
            }
            BodyPhase::UntilClose => return Ok((self.take_data(bytes, u64::MAX, expected), false)),
            BodyPhase::ChunkSize { .. } => self.phase = self.phase.after_size_byte(byte)?,
            BodyPhase::ChunkEnd if byte == b'\r' => {}
            BodyPhase::ChunkEnd if byte == b'\n' => self.phase = chunk_size(),
            BodyPhase::Trailer { line: 0, .. } if byte == b'\n' => return Ok((1, true)),
            BodyPhase::Trailer { line, total } if total < CHUNK_LINE_MAX => {
                // Only an empty line ends a trailer; its carriage return is not content.
                let line = match byte {
                    b'\n' => 0,
                    b'\r' => line,
                    _ => line + 1,
                };
                self.phase = BodyPhase::Trailer { line, total: total + 1 };
            }
            _ => return Err(ResponseError::Chunk),
        }
        Ok((1, false))
    }

    fn take_data(&mut self, bytes: &[u8], left: u64, expected: Option<&[u8]>) -> usize {
        let used = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        // Compared as it arrives, so that a body need not be kept.
        if let Some(expected) = expected {
            let due = expected.get(self.seen..self.seen.saturating_add(used));
            self.differs |= due != Some(&bytes[..used]);
            self.seen = self.seen.saturating_add(used);
        }
        if self.keeps {
            self.kept.push_body(&bytes[..used]);
        }
        // Only for a body that may be wrong, so that a right one is not copied.
        let room = BODY_KEPT.saturating_sub(self.body_start.len()).min(used);
        if room > 0 && (expected.is_some() || !is_correct_status(self.expected_status, self.status))
        {
            self.body_start.extend_from_slice(&bytes[..room]);
        }
        used
    }
}

/// Whether a status is the expected one, or any 2xx or 3xx where none is expected.
pub fn is_correct_status(expected: Option<u16>, status: u16) -> bool {
    expected.map_or((200..400).contains(&status), |expected| expected == status)
}

fn chunk_size() -> BodyPhase {
    BodyPhase::ChunkSize { size: 0, digits: 0, line: 0, extension: false }
}

impl BodyPhase {
    fn after_size_byte(self, byte: u8) -> Result<Self, ResponseError> {
        let Self::ChunkSize { size, digits, line, extension } = self else {
            return Err(ResponseError::Chunk);
        };
        let line = line + 1;
        match char::from(byte).to_digit(16) {
            _ if line > CHUNK_LINE_MAX => Err(ResponseError::Chunk),
            // Fifteen digits are far beyond any body, and cannot overflow 64 bits.
            Some(digit) if !extension && digits < 15 => {
                let size = size * 16 + u64::from(digit);
                Ok(Self::ChunkSize { size, digits: digits + 1, line, extension })
            }
            // A line without a digit is no size; an extension alone is not one either.
            _ if digits == 0 => Err(ResponseError::Chunk),
            _ if byte == b'\n' && size == 0 => Ok(Self::Trailer { line: 0, total: 0 }),
            _ if byte == b'\n' => Ok(Self::Chunk(size)),
            _ if extension || matches!(byte, b';' | b' ' | b'\t' | b'\r') => {
                Ok(Self::ChunkSize { size, digits, line, extension: true })
            }
            _ => Err(ResponseError::Chunk),
        }
    }
}

/// Parses a head: status line and headers, up to and including the line break before the blank line.
///
/// # Errors
/// If the first line is not a status line or the length is invalid.
pub fn parse_head(bytes: &[u8]) -> Result<ResponseHead, ResponseError> {
    // Matched by hand: this runs for every response, and nothing else may begin one.
    let digits = match bytes {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor,
            b' ',
            a,
            b,
            c,
            b' ' | b'\r' | b'\n',
            ..,
        ] if matches!(minor, b'0' | b'1') && [a, b, c].iter().all(|d| d.is_ascii_digit()) => {
            [a, b, c]
        }
        _ => return Err(ResponseError::StatusLine),
    };
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(**digit - b'0'));
    let mut head =
        // HTTP/1.1 stays open by default, HTTP/1.0 does not (RFC 9112, 9.3).
        ResponseHead { status, keep_alive: bytes[7] == b'1', chunked: false, length: None };
    parse_fields(&mut head, bytes)?;
    Ok(head)
}

/// Reads the headers that matter here from lines, each with its line break.
pub fn parse_fields(head: &mut ResponseHead, lines: &[u8]) -> Result<(), ResponseError> {
    let mut rest = lines;
    while let Some(end) = memchr(b'\n', rest) {
        let line = rest[..end].trim_ascii_end();
        rest = &rest[end + 1..];
        // Only three headers matter, and their names begin with one of these letters.
        if matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            parse_header_line(head, line)?;
        }
    }
    Ok(())
}

fn parse_header_line(head: &mut ResponseHead, line: &[u8]) -> Result<(), ResponseError> {
    let Some(colon) = memchr(b':', line) else { return Ok(()) };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        // The same length may be repeated, in one line too (RFC 9110, 8.6).
        for part in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let length = content_length(part).ok_or(ResponseError::Length)?;
            if head.length.is_some_and(|earlier| earlier != length) {
                return Err(ResponseError::Length);
            }
            head.length = Some(length);
        }
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        // Only the last coding says how the body ends (RFC 9112, 6.3).
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        head.chunked = last.eq_ignore_ascii_case(b"chunked");
    } else if name.eq_ignore_ascii_case(b"connection") {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if token.eq_ignore_ascii_case(b"close") {
                head.keep_alive = false;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                head.keep_alive = true;
            }
        }
    }
    Ok(())
}

/// Digits only: Rust's own parser accepts a sign.
fn content_length(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BODY: &[u8] = b"hello, world";

    fn whole(keep_alive: bool) -> ParsedResponse {
        ParsedResponse { status: 200, keep_alive, body_right: true }
    }

    fn responses() -> Vec<(&'static str, &'static [u8], bool)> {
        vec![
            ("length", b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world", true),
            ("close", b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 12\r\n\r\nhello, world", false),
            ("chunked", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n", true),
            ("trailer", b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\nC \r\nhello, world\r\n00\r\nA: b\r\n\r\n", true),
            ("continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nContent-Length:12\r\n\r\nhello, world", true),
            ("lines without a carriage return", b"HTTP/1.1 200\nContent-Length: 12\n\nhello, world", true),
            ("both kinds of lines", b"HTTP/1.1 200 OK\r\nConnection: close\nTransfer-Encoding: chunked\n\r\n5\nhello\n7\r\n, world\n0\n\n", false),
            ("continue without a carriage return", b"HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 12, 12\n\nhello, world", true),
            ("old", b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 12\r\n\r\nhello, world", true),
        ]
    }

    #[test]
    fn a_response_is_complete_however_it_is_split() {
        for (name, bytes, keep_alive) in responses() {
            for split in 0..bytes.len() {
                let mut response = ResponseParser::default();
                response.reset(false);
                assert_eq!(
                    response.take(&bytes[..split], Some(BODY)),
                    Ok(None),
                    "{name} at {split}"
                );
                let ended = response.take(&bytes[split..], Some(BODY));
                assert_eq!(ended, Ok(Some(whole(keep_alive))), "{name} at {split}");
            }
            let mut response = ResponseParser::default();
            response.reset(false);
            let (last, others) = bytes.split_last().unwrap();
            for byte in others {
                assert_eq!(response.take(&[*byte], Some(BODY)), Ok(None), "{name} byte by byte");
            }
            let ended = response.take(&[*last], Some(BODY));
            assert_eq!(ended, Ok(Some(whole(keep_alive))), "{name} byte by byte");
        }
    }

    #[test]
    fn a_blank_line_in_the_body_does_not_end_the_head() {
        let mut response = ResponseParser::default();
        response.reset(false);
        let body = b"a\r\n\r\nb\n\nc";
        let bytes = [&b"HTTP/1.1 200 OK\nContent-Length: 9\n\n"[..], body].concat();
        let right = ParsedResponse { status: 200, keep_alive: true, body_right: true };
        assert_eq!(response.take(&bytes, Some(body)), Ok(Some(right)));
    }

    #[test]
    fn the_last_coding_decides_whether_a_body_is_chunked() {
        for (value, chunked) in [
            ("chunked", true),
            ("gzip,chunked", true),
            ("chunked, gzip", false),
            ("notchunked", false),
            ("", false),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {value}\r\n");
            assert_eq!(parse_head(head.as_bytes()).unwrap().chunked, chunked, "{value}");
        }
    }

    #[test]
    fn a_connection_that_switches_protocols_is_not_used_again() {
        let mut response = ResponseParser::default();
        response.reset(false);
        let ended = response.take(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", None);
        assert_eq!(ended.map(|ended| ended.map(|whole| whole.keep_alive)), Ok(Some(false)));
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_ends_the_body() {
        let mut response = ResponseParser::default();
        response.reset(false);
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nhello, world";
        assert_eq!(response.take(bytes, Some(BODY)), Ok(None));
        assert_eq!(response.end(Some(BODY)), Ok(whole(false)));
    }

    #[test]
    fn the_start_of_a_body_is_kept_if_the_status_is_unexpected() {
        let body = "x".repeat(1000);
        for (status, expected, kept) in [
            (200, None, 0),
            (500, None, BODY_KEPT),
            (404, Some(404), 0),
            (200, Some(404), BODY_KEPT),
        ] {
            let text = format!("HTTP/1.1 {status} Z\r\nContent-Length: 1000\r\n\r\n{body}");
            let mut response = ResponseParser::default();
            for _ in 0..2 {
                response.reset(false);
                response.expect_status(expected);
                for piece in text.as_bytes().chunks(7) {
                    response.take(piece, None).unwrap();
                }
                assert_eq!(response.body_start(), &body.as_bytes()[..kept], "{status}");
            }
        }
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let mut response = ResponseParser::default();
        response.reset(true);
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(response.take(bytes, None), Ok(Some(whole(true))));
    }

    #[test]
    fn an_unexpected_body_is_not_correct() {
        for body in ["hello, World", "hello, worl", "hello, world!"] {
            let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let mut response = ResponseParser::default();
            response.reset(false);
            let ended = response.take(bytes.as_bytes(), Some(BODY)).unwrap().unwrap();
            assert!(!ended.body_right, "{body}");
        }
    }

    #[test]
    fn bytes_that_are_not_a_response_are_refused() {
        for (bytes, error) in [
            ("HTTP/2 200 OK\r\n\r\n", ResponseError::StatusLine),
            ("HTTP/1.1 20x OK\r\n\r\n", ResponseError::StatusLine),
            ("SSH-2.0-OpenSSH\r\n\r\n", ResponseError::StatusLine),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ResponseError::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", ResponseError::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", ResponseError::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", ResponseError::Length),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                ResponseError::Length,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                ResponseError::Length,
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ResponseError::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", ResponseError::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab", ResponseError::Chunk),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1111111111111111",
                ResponseError::Chunk,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP", ResponseError::Surplus),
        ] {
            let mut response = ResponseParser::default();
            response.reset(false);
            assert_eq!(response.take(bytes.as_bytes(), None), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn the_body_is_kept_up_to_a_limit() {
        for (limit, body, is_cut) in [(512, BODY, false), (12, BODY, false), (5, &BODY[..5], true)]
        {
            for (name, bytes, _) in responses() {
                let mut response = ResponseParser::default();
                response.reset(false);
                response.keep(limit);
                for piece in bytes.chunks(3) {
                    response.take(piece, None).unwrap();
                }
                let kept = response.kept();
                assert_eq!((kept.body.as_slice(), kept.is_cut), (body, is_cut), "{name}");
                assert!(kept.head.starts_with(b"HTTP/1.") && kept.head.ends_with(b"\n"));
                assert!(!kept.head.starts_with(b"HTTP/1.1 100"), "{name}");
            }
        }
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let mut response = ResponseParser::default();
        response.reset(false);
        let error = (0..100).find_map(|_| response.take(&[b'a'; 1000], None).err());
        assert_eq!(error, Some(ResponseError::LongHead));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut response = ResponseParser::default();
            response.reset(false);
            let head: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = response.take(head, Some(BODY));
            for piece in &pieces {
                if response.take(piece, Some(BODY)).is_err() { break }
            }
        }
    }
}
