//! The Action Cable side of one connection: small, because there are ten thousand.

use crate::cable::frame::{FrameBuffer, FrameKind, MESSAGE_MAX, write_frame};
use crate::connections::{Connections, OpenPhase, ProtocolSession, Slot, Stage};
use crate::fault::SocketFault;
use std::io;

/// Bytes of answers to the server that may wait on a connection. The kernel has taken far more by then, so the server does
/// not read.
const ANSWERS_MAX: usize = 16 * 1024;
/// Bytes of broadcasts that may wait on a connection.
const BROADCASTS_MAX: usize = MESSAGE_MAX;

/// What an open connection is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CablePhase {
    /// Waiting for the answer to the upgrade.
    #[default]
    Upgrading,
    /// Waiting for the welcome.
    Welcoming,
    /// Waiting for the confirmation of its subscription.
    Subscribing,
    Subscribed,
    /// Subscribed, but silent for longer than a browser would wait.
    Stale,
}

impl OpenPhase for CablePhase {
    fn is_opening(self) -> bool {
        matches!(self, Self::Upgrading | Self::Welcoming | Self::Subscribing)
    }

    fn has_deadline(self) -> bool {
        self.is_opening()
    }
}

/// The state of one connection beside its phase.
#[derive(Debug, Default)]
pub struct CableSession {
    pub frames: FrameBuffer,
    /// Bytes that the kernel has not taken yet, or, during the upgrade, the received part of its answer.
    pub rest: Vec<u8>,
    /// When the last bytes were read, in milliseconds. This field and the next are 32 bits wide to keep the session small.
    pub heard_ms: u32,
    /// The first broadcast that the connection will receive.
    pub joined: u32,
}

impl ProtocolSession for CableSession {
    type Phase = CablePhase;
}

pub(super) type CableConnections<'a> = Connections<'a, CableSession>;

const _: () = assert!(size_of::<Slot<CableSession>>() <= 72, "there are thousands of connections");

impl Slot<CableSession> {
    /// Sends bytes, and keeps what the kernel does not take.
    ///
    /// # Errors
    /// If the connection is broken, or if more than `most` bytes would wait behind others: a server that sends and never
    /// reads would otherwise decide how much memory the generator takes.
    pub fn send(&mut self, bytes: &[u8], most: usize) -> Result<(), SocketFault> {
        let rest = &mut self.session.rest;
        // In order: bytes must not overtake those that still wait.
        if !rest.is_empty() {
            if rest.len() + bytes.len() > most {
                return Err(SocketFault::Unread);
            }
            rest.extend_from_slice(bytes);
            return self.flush();
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let sent = match stream.write(bytes) {
            Ok(sent) => sent,
            // The kernel's buffer is full; the reactor calls `flush` when there is room.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(SocketFault::of(&error)),
        };
        rest.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    pub fn send_frame(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        mask: u32,
    ) -> Result<(), SocketFault> {
        // 14 bytes are the longest head of a client's frame (RFC 6455, 5.2).
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        write_frame(kind, payload, mask.to_ne_bytes(), &mut bytes);
        let most = match kind {
            FrameKind::Text => BROADCASTS_MAX,
            FrameKind::Pong | FrameKind::Close => ANSWERS_MAX,
        };
        self.send(&bytes, most)
    }

    /// Sends what was kept.
    pub fn flush(&mut self) -> Result<(), SocketFault> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.flush().map_err(|error| SocketFault::of(&error))?;
        let rest = &mut self.session.rest;
        // During the upgrade the rest is what was received, not what has to be sent.
        if rest.is_empty() || self.stage == Stage::Open(CablePhase::Upgrading) {
            return Ok(());
        }
        match stream.write(rest) {
            Ok(sent) if sent == rest.len() => *rest = Vec::new(),
            Ok(sent) => drop(rest.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(SocketFault::of(&error)),
        }
        Ok(())
    }
}
