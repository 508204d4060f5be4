//! One Action Cable connection: small, because there are ten thousand.

use crate::load::cable::frame::{FrameBuffer, FrameKind, write_frame};
use crate::load::clock::MonotonicTime;
use crate::load::stream::Stream;
use std::io;

/// How far a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not open; opened when its turn comes.
    #[default]
    Closed,
    /// Waiting for the connection.
    Connecting,
    /// Waiting until the TLS handshake is done.
    Securing,
    /// Waiting for the answer to the upgrade.
    Upgrading,
    /// Waiting for the welcome.
    Welcoming,
    /// Waiting for the confirmation of its subscription.
    Subscribing,
    /// Subscribed.
    Ready,
    /// Told not to come back.
    Gone,
}

impl State {
    /// Whether it is on its way to being subscribed.
    pub(crate) fn is_opening(self) -> bool {
        !matches!(self, Self::Closed | Self::Ready | Self::Gone)
    }
}

/// A place for a connection; it is reopened in the same place.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) stream: Option<Stream>,
    pub(crate) state: State,
    /// Whether its silence has been counted.
    pub(crate) stale: bool,
    /// Tells an event of an earlier connection in this place from one of this.
    pub(crate) generation: u32,
    /// When its state began.
    pub(crate) since: MonotonicTime,
    /// When it last said anything, in milliseconds; these two are as short as they may be, for there are many of them.
    pub(crate) heard_ms: u32,
    /// The first broadcast that it will receive.
    pub(crate) joined: u32,
    pub(crate) frames: FrameBuffer,
    /// What the kernel did not take yet, or the beginning of the answer to the upgrade.
    pub(crate) rest: Vec<u8>,
}

impl Client {
    /// Closes it and forgets everything but its generation.
    pub(crate) fn close(&mut self, state: State) {
        let generation = self.generation.wrapping_add(1);
        *self = Self { generation, state, ..Self::default() };
    }

    /// Sends bytes, and keeps what the kernel does not take.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(bytes);
            return self.flush();
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        match stream.write(bytes) {
            Ok(sent) => {
                self.rest.extend_from_slice(&bytes[sent..]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.rest.extend_from_slice(bytes);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a frame.
    pub(crate) fn send_frame(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        mask: u32,
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        write_frame(kind, payload, mask.to_ne_bytes(), &mut bytes);
        self.send(&bytes)
    }

    /// Sends what was kept.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.flush()?;
        // During the upgrade the rest is what was received, not what is to be sent.
        if self.rest.is_empty() || self.state == State::Upgrading {
            return Ok(());
        }
        match stream.write(&self.rest) {
            Ok(sent) if sent == self.rest.len() => self.rest = Vec::new(),
            Ok(sent) => drop(self.rest.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

const _: () = assert!(size_of::<Client>() <= 72, "a connection costs as little as it can");
