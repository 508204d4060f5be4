//! Redis' protocol RESP2: commands as arrays of strings, and a reader of replies.
//!
//! Replies are foreign bytes: their length, number of parts and depth are limited. The crates for Redis limit none of these,
//! and read a blocking stream or need an asynchronous runtime, so neither fits the generator's event loop.
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use crate::text::printable;

/// Longest reply in bytes.
pub const REPLY_MAX: usize = 8 * 1024 * 1024;
/// Longest line in bytes: the length of a part, a number, a status or an error.
const LINE_MAX: usize = 64 * 1024;
/// Most parts of a reply, those of its lists included.
const PARTS_MAX: usize = 10_000;
/// Lists inside each other.
const DEPTH_MAX: u32 = 4;

/// A reply, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisReply {
    /// A status or a string.
    Text(Vec<u8>),
    /// An error, printable.
    Error(String),
    /// A number.
    Integer(i64),
    /// Nothing: a key that does not exist.
    Nil,
    List(Vec<RedisReply>),
}

impl RedisReply {
    /// The number that it is or that its text contains.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// Its text; empty if it has none.
    pub fn text(&self) -> &[u8] {
        if let Self::Text(text) = self { text } else { &[] }
    }
}

/// Collects bytes and takes whole replies from them.
#[derive(Debug, Default)]
pub struct ReplyReader {
    bytes: Vec<u8>,
    /// Where the next reply begins.
    from: usize,
}

impl ReplyReader {
    /// Adds what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was taken is removed only here, so that a read with many replies moves bytes once.
        self.bytes.drain(..self.from);
        self.from = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next reply; `None` if it is not complete.
    ///
    /// # Errors
    /// If the bytes are not a reply, or exceed a limit. The reader is of no use then.
    pub fn take(&mut self) -> Result<Option<RedisReply>, String> {
        let bytes = &self.bytes[self.from..];
        // An incomplete reply is parsed again from its start; it is short, or about to be refused.
        let mut parser = ReplyParser { bytes, at: 0, parts: 0 };
        let Some(reply) = parser.value(0)? else {
            if bytes.len() > REPLY_MAX {
                return Err(format!("a reply has more than {REPLY_MAX} bytes"));
            }
            return Ok(None);
        };
        self.from += parser.at;
        Ok(Some(reply))
    }
}

struct ReplyParser<'a> {
    bytes: &'a [u8],
    at: usize,
    parts: usize,
}

impl<'a> ReplyParser<'a> {
    fn value(&mut self, depth: u32) -> Result<Option<RedisReply>, String> {
        self.parts += 1;
        // Before the recursion: nested lists would otherwise use up the stack.
        if self.parts > PARTS_MAX || depth > DEPTH_MAX {
            return Err(format!(
                "a reply has more than {PARTS_MAX} parts or {DEPTH_MAX} lists inside each other"
            ));
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let Some((kind, rest)) = line.split_first() else {
            return Err("a reply begins with an empty line".to_owned());
        };
        match kind {
            b'+' => Ok(Some(RedisReply::Text(rest.to_vec()))),
            b'-' => Ok(Some(RedisReply::Error(printable(rest)))),
            b':' => number(rest).map(|number| Some(RedisReply::Integer(number))),
            b'$' => self.string(number(rest)?),
            b'*' => self.list(number(rest)?, depth),
            _ => Err(format!("a reply begins with `{}`", printable(&line[..1]))),
        }
    }

    /// The bytes up to the end of the line, which is `\r\n`.
    fn line(&mut self) -> Result<Option<&'a [u8]>, String> {
        let rest = &self.bytes[self.at..];
        // An endless line must not be collected until memory is full.
        let Some(end) = memchr::memchr(b'\n', rest).filter(|end| *end <= LINE_MAX) else {
            let is_long = rest.len() > LINE_MAX;
            return if is_long { Err("a line of a reply has no end".to_owned()) } else { Ok(None) };
        };
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r");
        line.map(Some).ok_or_else(|| "a line of a reply ends without \\r".to_owned())
    }

    fn string(&mut self, length: i64) -> Result<Option<RedisReply>, String> {
        if length == -1 {
            return Ok(Some(RedisReply::Nil));
        }
        // The announced length is checked before it is waited for.
        let length = usize::try_from(length).ok().filter(|length| *length <= REPLY_MAX);
        let length = length.ok_or_else(|| format!("a string is longer than {REPLY_MAX} bytes"))?;
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.get(length..length + 2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err("a string is longer than announced".to_owned());
        }
        self.at += length + 2;
        Ok(Some(RedisReply::Text(rest[..length].to_vec())))
    }

    fn list(&mut self, length: i64, depth: u32) -> Result<Option<RedisReply>, String> {
        if length == -1 {
            return Ok(Some(RedisReply::Nil));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= PARTS_MAX);
        let length = length.ok_or_else(|| format!("a list has more than {PARTS_MAX} parts"))?;
        // Grows with what arrives, not with what was announced.
        let mut parts = Vec::new();
        for _ in 0..length {
            let Some(part) = self.value(depth + 1)? else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(RedisReply::List(parts)))
    }
}

fn number(text: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("a reply has `{}` instead of a number", printable(text)))
}

/// Adds a command to what is sent.
pub(super) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<RedisReply>, String> {
        let mut reader = ReplyReader::default();
        reader.push(bytes);
        reader.take()
    }

    #[test]
    fn a_reply_is_read_however_it_is_split() {
        let bytes = b"*5\r\n:12\r\n$-1\r\n$4\r\na\r\nb\r\n-ERR no\r\n*1\r\n+OK\r\n:7\r\n";
        let list = RedisReply::List(vec![
            RedisReply::Integer(12),
            RedisReply::Nil,
            RedisReply::Text(b"a\r\nb".to_vec()),
            RedisReply::Error("ERR no".to_owned()),
            RedisReply::List(vec![RedisReply::Text(b"OK".to_vec())]),
        ]);
        for split in 0..bytes.len() {
            let mut reader = ReplyReader::default();
            let mut found = Vec::new();
            for part in [&bytes[..split], &bytes[split..]] {
                reader.push(part);
                while let Some(reply) = reader.take().unwrap() {
                    found.push(reply);
                }
            }
            assert_eq!(found, [list.clone(), RedisReply::Integer(7)], "split at {split}");
        }
    }

    #[test]
    fn bytes_that_are_no_reply_or_too_long_are_refused() {
        let deep = b"*1\r\n".repeat(6);
        let long = vec![b'+'; LINE_MAX + 2];
        let cases: [(&[u8], &str); 10] = [
            (b"\r\n", "an empty line"),
            (b"HTTP/1.1 400\r\n", "begins with `H`"),
            (b"+OK\n", "without \\r"),
            (b":x\r\n", "`x` instead of a number"),
            (b"$-2\r\n", "a string is longer than"),
            (b"$99999999999\r\n", "a string is longer than"),
            (b"$1\r\nabc", "longer than announced"),
            (b"*10001\r\n", "a list has more than"),
            (&deep, "inside each other"),
            (&long, "has no end"),
        ];
        for (bytes, expected) in cases {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(expected), "{}: {error}", bytes.escape_ascii());
        }
        assert_eq!(read(b"$5\r\nab"), Ok(None));
    }

    #[test]
    fn an_error_cannot_control_a_terminal() {
        let reply = read(b"-ERR \x1b[31m\xffred\r\n").unwrap().unwrap();
        assert_eq!(reply, RedisReply::Error("ERR \u{fffd}red".to_owned()));
    }

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"GET", b"stat:processed"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$14\r\nstat:processed\r\n");
    }
}
