//! Builds the commands of a run and parses the server's messages, without parsing JSON where that is safe.
//!
//! Every payload carries a token of fixed width: a mark of this run and the number of the broadcast. The first message of
//! each form is parsed in full and kept as a template. A later message that equals it byte for byte, except for the sixteen
//! digits of the number, is known to be correct. Servers may order keys or escape characters in any way (AnyCable sorts
//! keys), as long as they are consistent.

use carat_model::load::{CableLoad, PayloadShape};
use memchr::memmem;
use serde_json::{Value, json};

/// Digits of a broadcast's number.
const DIGITS: usize = 16;
/// Templates that are kept; a server needs two, one per action.
const TEMPLATES_MAX: usize = 8;
/// The beginning of every ping of Rails and AnyCable.
const PING: &[u8] = br#"{"type":"ping""#;

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMessage {
    /// The connection may subscribe.
    Welcome,
    /// The connection is alive.
    Ping,
    /// The subscription is confirmed.
    Confirmed,
    /// The subscription is refused.
    Rejected,
    /// The server ends the connection.
    Disconnect {
        reason: String,
        /// Whether the client should reconnect.
        reconnect: bool,
    },
    /// Broadcast of that number.
    Broadcast(u64),
    /// The sender's own result of the broadcast of that number.
    Result(u64),
    /// A broadcast with another payload than the one sent.
    Altered,
    /// A message for another channel or run, or of an unknown kind.
    Other,
    /// Not a JSON object, or not UTF-8.
    Malformed,
}

/// The two kinds of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryKind {
    Broadcast,
    Result,
}

#[derive(Debug)]
struct MessageTemplate {
    bytes: Vec<u8>,
    digits: usize,
    kind: DeliveryKind,
}

/// Builds the commands of a run and parses the answers.
#[derive(Debug)]
pub struct CableCodec {
    identifier: String,
    action: String,
    result: Option<String>,
    shape: PayloadShape,
    mark: String,
    padding: String,
    templates: Vec<MessageTemplate>,
    parsed: u64,
}

impl CableCodec {
    /// `run` distinguishes this run's broadcasts from another's.
    pub fn new(load: &CableLoad, run: u32) -> Self {
        // The server may still send broadcasts of an earlier run; the mark tells them apart.
        let mark = format!("carat-{run:08x}-");
        let token = mark.len() + DIGITS;
        let padding = match load.shape {
            // The token is part of the size that the load asks for.
            PayloadShape::String => (load.payload as usize).saturating_sub(token),
            PayloadShape::Object => load.payload as usize,
        };
        Self {
            identifier: json!({ "channel": load.channel }).to_string(),
            action: load.action.clone(),
            result: load.result.clone(),
            shape: load.shape,
            mark,
            padding: "x".repeat(padding),
            templates: Vec::new(),
            parsed: 0,
        }
    }

    /// The command that subscribes.
    pub fn subscribe(&self) -> String {
        json!({ "command": "subscribe", "identifier": self.identifier }).to_string()
    }

    /// The command that broadcasts number `number`.
    pub fn broadcast(&self, number: u64) -> String {
        let data = json!({ "action": self.action, "payload": self.payload(number) }).to_string();
        json!({ "command": "message", "identifier": self.identifier, "data": data }).to_string()
    }

    /// Number of messages that were parsed in full.
    pub fn parsed(&self) -> u64 {
        self.parsed
    }

    fn payload(&self, number: u64) -> Value {
        let token = format!("{}{number:016x}", self.mark);
        match self.shape {
            PayloadShape::String => Value::String(token + &self.padding),
            PayloadShape::Object => json!({ "sendTime": token, "padding": self.padding }),
        }
    }

    /// What a message means.
    pub fn parse(&mut self, text: &[u8]) -> ServerMessage {
        // Most messages end here: parsing JSON would cost the generator several times as much.
        for template in &self.templates {
            if let Some(number) = template.number(text) {
                return template.kind.message(number);
            }
        }
        // The rest of a ping is a time, and so differs each time. Anything longer is parsed.
        if text.starts_with(PING) && text.len() < 64 && text.ends_with(b"}") && text.is_ascii() {
            return ServerMessage::Ping;
        }
        self.parsed += 1;
        match serde_json::from_slice::<Value>(text) {
            Ok(Value::Object(message)) => self.parse_object(text, &message),
            _ => ServerMessage::Malformed,
        }
    }

    fn parse_object(
        &mut self,
        text: &[u8],
        message: &serde_json::Map<String, Value>,
    ) -> ServerMessage {
        // One connection may have other subscriptions, whose messages must not count as ours.
        let ours = string(message, "identifier") == Some(&self.identifier);
        match string(message, "type") {
            Some("welcome") => ServerMessage::Welcome,
            Some("ping") => ServerMessage::Ping,
            Some("confirm_subscription") if ours => ServerMessage::Confirmed,
            Some("reject_subscription") if ours => ServerMessage::Rejected,
            Some("disconnect") => ServerMessage::Disconnect {
                reason: string(message, "reason").unwrap_or("none given").to_owned(),
                // Rails sends `reconnect` since 6.0; without it a client reconnects.
                reconnect: message.get("reconnect").and_then(Value::as_bool).unwrap_or(true),
            },
            Some(_) => ServerMessage::Other,
            None if ours => self.parse_delivery(text, message.get("message")),
            None => ServerMessage::Other,
        }
    }

    fn parse_delivery(&mut self, text: &[u8], message: Option<&Value>) -> ServerMessage {
        match self.read_delivery(message) {
            Ok((kind, number)) => {
                self.keep_template(text, kind, number);
                kind.message(number)
            }
            Err(message) => message,
        }
    }

    /// The kind and number of a delivery, or what the message means if it is not one.
    fn read_delivery(&self, message: Option<&Value>) -> Result<(DeliveryKind, u64), ServerMessage> {
        let message = message.unwrap_or(&Value::Null);
        let kind = match message["action"].as_str() {
            Some(action) if action == self.action => DeliveryKind::Broadcast,
            Some(action) if Some(action) == self.result.as_deref() => DeliveryKind::Result,
            _ => return Err(ServerMessage::Other),
        };
        let payload = message.get("payload");
        let token = match self.shape {
            PayloadShape::String => payload,
            PayloadShape::Object => payload.and_then(|payload| payload.get("sendTime")),
        };
        // Another run's broadcast may still be in the server's queue.
        let digits = token
            .and_then(Value::as_str)
            .and_then(|token| token.strip_prefix(&self.mark))
            .ok_or(ServerMessage::Other)?;
        let number = digits.as_bytes().first_chunk().and_then(parse_digits);
        let number = number.ok_or(ServerMessage::Altered)?;
        // The whole payload: a server that truncates or alters it must not count as correct.
        if payload == Some(&self.payload(number)) {
            Ok((kind, number))
        } else {
            Err(ServerMessage::Altered)
        }
    }

    /// Keeps a message as a template, if its visible digits are the ones that determine the number.
    fn keep_template(&mut self, text: &[u8], kind: DeliveryKind, number: u64) {
        // Two marks: it is not known which one the server counts, so the message is no template.
        let mut marks = memmem::find_iter(text, &self.mark);
        let (Some(at), None, true) =
            (marks.next(), marks.next(), self.templates.len() < TEMPLATES_MAX)
        else {
            return;
        };
        let digits = at + self.mark.len();
        let mut other = text.to_vec();
        let Some(place) = other.get_mut(digits..digits + DIGITS) else { return };
        // The complement differs in every digit, so no digit is accepted that is not the number's.
        place.copy_from_slice(format!("{:016x}", !number).as_bytes());
        let other = serde_json::from_slice::<Value>(&other).unwrap_or_default();
        if self.read_delivery(other.get("message")) == Ok((kind, !number)) {
            self.templates.push(MessageTemplate { bytes: text.to_vec(), digits, kind });
        }
    }
}

impl DeliveryKind {
    fn message(self, number: u64) -> ServerMessage {
        match self {
            Self::Broadcast => ServerMessage::Broadcast(number),
            Self::Result => ServerMessage::Result(number),
        }
    }
}

impl MessageTemplate {
    fn number(&self, text: &[u8]) -> Option<u64> {
        let after = self.digits + DIGITS;
        // The length first: slicing another length at the template's digits could panic.
        let same = text.len() == self.bytes.len()
            && is_same(&text[..self.digits], &self.bytes[..self.digits])
            && is_same(&text[after..], &self.bytes[after..]);
        same.then(|| text[self.digits..].first_chunk().and_then(parse_digits)).flatten()
    }
}

/// Whether two texts are the same, eight bytes at a time. The `bcmp` of the static program compares single bytes, and took two
/// fifths of its time for a message.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one == other)
        && one_rest.iter().eq(other_rest)
}

fn string<'a>(message: &'a serde_json::Map<String, Value>, name: &str) -> Option<&'a str> {
    message.get(name).and_then(Value::as_str)
}

fn parse_digits(digits: &[u8; DIGITS]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::CableOptions;

    fn codec(object: bool) -> CableCodec {
        let table = CableOptions { payload_object: object, ..CableOptions::default() };
        CableCodec::new(&table.load("ws://h").unwrap(), 7)
    }

    #[test]
    fn texts_are_the_same_only_if_every_byte_and_the_length_are() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).collect();
            assert!(is_same(&text, &text.clone()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!is_same(&text, &other), "byte {at} of {length}");
                assert!(!is_same(&text, &text[..at]), "{at} of {length} bytes");
            }
        }
    }

    /// The delivery that Rails makes of a command, with the keys in its order.
    fn delivery(codec: &CableCodec, number: u64, action: &str) -> String {
        let payload = codec.payload(number);
        format!(
            r#"{{"identifier":{},"message":{{"payload":{payload},"action":"{action}"}}}}"#,
            Value::String(codec.identifier.clone())
        )
    }

    #[test]
    fn the_commands_are_those_of_the_protocol() {
        let codec = codec(false);
        let subscribe =
            r#"{"command":"subscribe","identifier":"{\"channel\":\"BenchmarkChannel\"}"}"#;
        assert_eq!(codec.subscribe(), subscribe);
        let command: Value = serde_json::from_str(&codec.broadcast(255)).unwrap();
        let data: Value = serde_json::from_str(command["data"].as_str().unwrap()).unwrap();
        let payload = data["payload"].as_str().unwrap();
        assert_eq!((data["action"].as_str(), payload.len()), (Some("broadcast"), 200));
        assert!(payload.starts_with("carat-00000007-00000000000000ffx"), "{payload}");
    }

    #[test]
    fn a_message_of_each_form_is_parsed_once_and_then_known() {
        for object in [false, true] {
            let mut codec = codec(object);
            for number in 0..100 {
                let text = delivery(&codec, number, "broadcast");
                assert_eq!(codec.parse(text.as_bytes()), ServerMessage::Broadcast(number));
                let text = delivery(&codec, number, "broadcastResult");
                assert_eq!(codec.parse(text.as_bytes()), ServerMessage::Result(number));
            }
            assert_eq!(codec.parsed(), 2);
        }
    }

    #[test]
    fn a_changed_byte_is_found_anywhere_in_a_known_message() {
        let mut codec = codec(false);
        let text = delivery(&codec, 1, "broadcast");
        assert_eq!(codec.parse(text.as_bytes()), ServerMessage::Broadcast(1));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'!' { b'?' } else { b'!' };
            let message = codec.parse(&bytes);
            assert!(
                matches!(
                    message,
                    ServerMessage::Altered | ServerMessage::Other | ServerMessage::Malformed
                ),
                "byte {at}: {message:?}"
            );
        }
    }

    #[test]
    fn every_message_of_the_protocol_is_understood() {
        let mut codec = codec(false);
        let identifier = Value::String(codec.identifier.clone());
        for (text, heard) in [
            (r#"{"type":"welcome","sid":"x"}"#.to_owned(), ServerMessage::Welcome),
            (r#"{"type":"ping","message":1700000000}"#.to_owned(), ServerMessage::Ping),
            (r#"{"message":1,"type":"ping"}"#.to_owned(), ServerMessage::Ping),
            (
                format!(r#"{{"identifier":{identifier},"type":"confirm_subscription"}}"#),
                ServerMessage::Confirmed,
            ),
            (
                format!(r#"{{"identifier":{identifier},"type":"reject_subscription"}}"#),
                ServerMessage::Rejected,
            ),
            (
                r#"{"type":"disconnect","reason":"server_restart","reconnect":true}"#.to_owned(),
                ServerMessage::Disconnect { reason: "server_restart".into(), reconnect: true },
            ),
            (r#"{"identifier":"other","message":{}}"#.to_owned(), ServerMessage::Other),
            (r#"{"type":"presence"}"#.to_owned(), ServerMessage::Other),
            ("[]".to_owned(), ServerMessage::Malformed),
            (r#"{"type":"ping"#.to_owned(), ServerMessage::Malformed),
        ] {
            assert_eq!(codec.parse(text.as_bytes()), heard, "{text}");
        }
        assert_eq!(codec.parse(b"{\"type\":\"welcome\xff\"}"), ServerMessage::Malformed);
        assert_eq!(codec.parse(b"{\"type\":\"ping\",\"message\":\xff}"), ServerMessage::Malformed);
    }

    #[test]
    fn digits_that_do_not_determine_the_number_make_no_template() {
        let text = |written: &str, elsewhere: &str| {
            let codec = codec(false);
            let escaped = codec.payload(1).to_string().replace('-', r"\u002d");
            let delivery = delivery(&codec, 1, "broadcast");
            let delivery = delivery.replace(&codec.payload(1).to_string(), &escaped);
            delivery.replace("}}", &format!(r#"}},"{written}":"carat-00000007-{elsewhere}"}}"#))
        };
        // The payload's own mark is escaped, so the only visible one belongs to another field.
        let mut warm = codec(false);
        for elsewhere in ["", "0000000000000001", "0000000000000002"] {
            for written in ["a", "b", "b"] {
                let text = text(written, elsewhere);
                assert_eq!(warm.parse(text.as_bytes()), ServerMessage::Broadcast(1), "{text}");
            }
        }
    }

    #[test]
    fn another_runs_broadcast_is_not_ours() {
        let other = CableCodec::new(&CableOptions::default().load("ws://h").unwrap(), 8);
        let text = delivery(&other, 1, "broadcast");
        assert_eq!(codec(false).parse(text.as_bytes()), ServerMessage::Other);
    }
}
