//! A reply of Redis is read or refused without a panic, the same however it is split, and never grows.
//!
//! The first byte of an input says where the rest is split.

use carat_load::sidekiq::resp::{RedisReply, ReplyReader};

/// Panics if that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((split, bytes)) = input.split_first() else { return };
    let split = usize::from(*split).min(bytes.len());
    let whole = replies(&[bytes]);
    let parts = replies(&[&bytes[..split], &bytes[split..]]);
    assert_eq!(whole, parts, "split at {split}");
    let size: usize = whole.0.iter().map(size_of_reply).sum();
    // A byte that is not a character becomes three, in an error that is shown.
    assert!(size <= 3 * bytes.len(), "{size} of {}", bytes.len());
}

/// Every reply, and whether the bytes end with one that is refused.
fn replies(parts: &[&[u8]]) -> (Vec<RedisReply>, bool) {
    let mut reader = ReplyReader::default();
    let mut found = Vec::new();
    for part in parts {
        reader.push(part);
        loop {
            match reader.take() {
                Ok(Some(reply)) => found.push(reply),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

/// Bytes that a reply had at least.
fn size_of_reply(reply: &RedisReply) -> usize {
    match reply {
        RedisReply::Text(text) => text.len(),
        RedisReply::Error(text) => text.len(),
        RedisReply::Integer(_) | RedisReply::Nil => 1,
        RedisReply::List(parts) => 1 + parts.iter().map(size_of_reply).sum::<usize>(),
    }
}
