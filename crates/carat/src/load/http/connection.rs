//! One connection of an HTTP load.

use crate::load::clock::MonotonicTime;
use crate::load::http::response::ResponseParser;
use crate::load::stream::Stream;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing; it is opened when it has a job.
    #[default]
    Closed,
    /// Waiting until the connection is made.
    Connecting,
    /// Waiting until the TLS handshake is done.
    Securing,
    /// Open, without a job.
    Idle,
    /// Waiting for a response.
    Busy,
}

impl State {
    /// Whether it is on its way to being open.
    pub(crate) fn is_opening(self) -> bool {
        matches!(self, Self::Connecting | Self::Securing)
    }
}

/// One request that has to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) route: u16,
    /// When it was meant to be sent.
    pub(crate) intended: MonotonicTime,
    /// Whether it fell due while every connection was busy.
    pub(crate) waited: bool,
    /// Whether it has already been moved to a new connection.
    pub(crate) retried: bool,
}

/// A place for a connection; it is reopened in the same place.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) stream: Option<Stream>,
    pub(crate) state: State,
    pub(crate) job: Option<Job>,
    pub(crate) response: ResponseParser,
    /// When the request was sent or the connection was begun.
    pub(crate) since: MonotonicTime,
    /// Bytes of the request that the kernel has taken.
    pub(crate) written: usize,
    /// Responses since it was opened.
    pub(crate) served: u64,
    /// Tells an event of an earlier connection in this place from one of this.
    pub(crate) generation: u32,
}

impl Connection {
    /// Closes it and forgets what was read.
    pub(crate) fn close(&mut self) {
        self.stream = None;
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.written = 0;
        self.served = 0;
    }
}
