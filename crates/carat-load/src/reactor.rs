//! The event loop of one thread, the same for every protocol.
//!
//! The loop dials, completes TLS handshakes, reads, enforces timeouts and measures the generator itself. A [`Protocol`] decides what is
//! sent and what the received bytes mean. It is a type parameter, so a message costs no dynamic call.

use crate::clock::MonotonicTime;
use crate::connections::{Connections, ProtocolSession, Stage};
use crate::error::GeneratorError;
use crate::fault::SocketFault;
use crate::health::RunFacts;
use crate::net::{Receipt, SocketEvent};
use crate::shard::Shard;
use crate::target::Target;
use carat_model::load::{ConnectionOptions, LoadReport, ProtocolOptions};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one read. A connection that fills it has a queue at the server.
pub(crate) const READ_BUFFER: usize = 64 * 1024;
/// Reads of one connection before the others have their turn: 1 MiB.
const READS_AT_ONCE: u32 = 16;
/// A TCP handshake this long, in nanoseconds, has lost its first packet: the kernel resends it after a second (RFC 6298).
const SLOW_CONNECT: u64 = 900_000_000;
/// The poller's token of [`Protocol::wake`].
const WAKE: u64 = u64::MAX;

/// A load protocol: what it sends, what it makes of the answers, and what it reports.
///
/// One value per thread; `Shared` is what all threads of a load have in common.
pub trait Protocol: Sized + Send {
    /// The flags and keys of the protocol.
    type Options: ProtocolOptions<Load = Self::Load>;
    /// The validated options.
    type Load: Sync;
    type Shared: Send + Sync;
    type Session: ProtocolSession;
    /// What one thread counts.
    type Counts: Send;

    /// Nanoseconds between two checks of deadlines, clocks and progress.
    const CHECK_INTERVAL: u64;

    fn profile(load: &Self::Load) -> LoadProfile<'_>;

    /// # Errors
    /// If the kernel refuses a descriptor, or the load needs something that is missing.
    fn share(
        load: &Self::Load,
        target: &Target,
        threads: u32,
    ) -> Result<Self::Shared, GeneratorError>;

    fn new(shared: Arc<Self::Shared>, shard: Shard) -> Self;

    /// A descriptor that becomes readable when another thread has news for this one.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does whatever is due and returns how long the loop may wait.
    fn advance(&mut self, io: &mut Connections<'_, Self::Session>, now: MonotonicTime) -> Turn;

    /// A connection is open, TLS included, and in its first phase.
    fn connected(&mut self, io: &mut Connections<'_, Self::Session>, place: u32);

    /// An open connection has room for what is still unsent.
    fn writable(&mut self, io: &mut Connections<'_, Self::Session>, place: u32);

    fn received(
        &mut self,
        io: &mut Connections<'_, Self::Session>,
        place: u32,
        bytes: &[u8],
        arrival: Arrival,
    );

    /// A connection cannot be used any more; the protocol closes it.
    fn lost(&mut self, io: &mut Connections<'_, Self::Session>, place: u32, loss: Loss);

    /// The periodic check of one connection that is within its deadline.
    fn check_slot(
        &mut self,
        _io: &mut Connections<'_, Self::Session>,
        _place: u32,
        _now: MonotonicTime,
    ) {
    }

    /// The end of a periodic check; publishes the progress.
    fn checked(&mut self, io: &mut Connections<'_, Self::Session>, now: MonotonicTime);

    fn finish(self, io: Connections<'_, Self::Session>) -> Self::Counts;

    /// The report of a load from what its threads counted.
    fn report(
        load: &Self::Load,
        shared: &Self::Shared,
        counts: Vec<Self::Counts>,
        run: &RunFacts,
    ) -> LoadReport;

    /// Writes the report as text.
    ///
    /// # Errors
    /// If `out` cannot be written.
    fn write_text(
        options: &Self::Options,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()>;

    /// Writes the files that the options request beside the report.
    ///
    /// # Errors
    /// If a file cannot be written; the message names it.
    fn write_files(_options: &Self::Options, _report: &LoadReport) -> io::Result<()> {
        Ok(())
    }
}

/// What the reactor needs to know of a load before it runs.
#[derive(Debug)]
pub struct LoadProfile<'a> {
    pub url: &'a str,
    pub options: &'a ConnectionOptions,
    pub connections: u64,
    pub threads: u32,
    /// Least microseconds between two wake-ups.
    pub quantum_us: u32,
    /// Responses or broadcasts planned; `None` for a load by time.
    pub planned: Option<u64>,
    /// Seconds planned; `None` for a closed load by count.
    pub planned_s: Option<f64>,
}

/// What a protocol asks of the loop after [`Protocol::advance`].
#[derive(Debug)]
pub enum Turn {
    Done,
    Wait {
        /// When the next thing is due.
        until: MonotonicTime,
        /// Until when the loop may sleep without polling, so that several arrivals cost one wake-up; `None` if it must
        /// not sleep.
        sleep_until: Option<MonotonicTime>,
    },
}

/// When bytes reached the socket, and when they were read.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub at: MonotonicTime,
    pub read: MonotonicTime,
}

/// Why a connection is lost.
#[derive(Debug)]
pub enum Loss {
    /// It could not be opened.
    Unopened(SocketFault),
    Tls(io::Error),
    TimedOut,
    /// The server closed it in an orderly way.
    Closed,
    /// It ended in any other way, so what was received may have been cut off.
    Broken(SocketFault),
}

/// One thread's loop.
#[derive(Debug)]
pub(crate) struct Reactor<'a, P: Protocol> {
    pub connections: Connections<'a, P::Session>,
    protocol: P,
    buffer: Vec<u8>,
    /// Least nanoseconds between two wake-ups.
    quantum: u64,
    next_check: MonotonicTime,
    woken: MonotonicTime,
    /// Connections that were not read to their end, because they received too much at once. No event shows them again.
    unread: Vec<UnreadConnection>,
}

/// A connection with bytes that are still to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnreadConnection {
    place: u32,
    generation: u32,
    hung_up: bool,
}

impl<'a, P: Protocol> Reactor<'a, P> {
    /// # Errors
    /// If the kernel cannot watch the protocol's descriptor.
    pub(crate) fn new(
        connections: Connections<'a, P::Session>,
        protocol: P,
        quantum_us: u32,
    ) -> io::Result<Self> {
        if let Some(wake) = protocol.wake() {
            connections.poller.add(wake, WAKE)?;
        }
        let now = MonotonicTime::now();
        Ok(Self {
            connections,
            protocol,
            buffer: vec![0; READ_BUFFER],
            quantum: u64::from(quantum_us) * 1_000,
            next_check: now,
            woken: now,
            unread: Vec::new(),
        })
    }

    /// Runs the load to its end, or until it is stopped.
    ///
    /// # Errors
    /// If the poller fails.
    pub(crate) fn run(mut self) -> io::Result<P::Counts> {
        loop {
            let now = MonotonicTime::now();
            // Before the protocol, so that what timed out is not given new work.
            if now >= self.next_check {
                self.check(now);
                if self.connections.counters.is_stopped() {
                    return Ok(self.protocol.finish(self.connections));
                }
            }
            let turn = self.protocol.advance(&mut self.connections, now);
            let Turn::Wait { until, sleep_until } = turn else {
                return Ok(self.protocol.finish(self.connections));
            };
            if let Some(latest) = sleep_until.filter(|_| self.quantum > 0) {
                // Counted from the last wake-up: a turn that took long does not sleep in addition.
                let until = self.woken.after(self.quantum).min(latest);
                std::thread::sleep(Duration::from_nanos(until.since(MonotonicTime::now())));
            }
            // Unread connections need no event, so the wait below must not last.
            let unread = std::mem::take(&mut self.unread);
            let patience = if unread.is_empty() {
                // At least the next check, because deadlines have no event.
                until.min(self.next_check).since(MonotonicTime::now())
            } else {
                0
            };
            let ready = self.connections.poller.wait(patience)?;
            self.woken = MonotonicTime::now();
            for at in 0..ready {
                self.on_ready(self.connections.poller.ready(at));
            }
            for connection in unread {
                self.read(connection);
            }
        }
    }

    fn check(&mut self, now: MonotonicTime) {
        let io = &mut self.connections;
        self.next_check = now.after(P::CHECK_INTERVAL);
        io.stamps.sample(now);
        io.meter.tick(now);
        for place in 0..io.count() {
            if io.is_overdue(place, now) {
                self.protocol.lost(io, place, Loss::TimedOut);
            } else {
                io.suspect(place, now);
                self.protocol.check_slot(io, place, now);
            }
        }
        self.protocol.checked(io, now);
    }

    fn on_ready(&mut self, ready: SocketEvent) {
        if ready.token == WAKE {
            // Waking up is the whole message; the watch is edge-triggered, so nothing has to be read.
            return;
        }
        let (place, generation) = (ready.token as u32, (ready.token >> 32) as u32);
        // A connection that was closed during this round may still have an event in the list.
        if !self.connections.is_current(place, generation) {
            return;
        }
        let stage = self.connections.slot(place).stage;
        match stage {
            // The new stage decides about reading and writing, so the connection comes first.
            Stage::Connecting if !self.finish_connect(place, ready) => return,
            Stage::Open(_) if ready.writable => {
                self.protocol.writable(&mut self.connections, place);
            }
            _ => {}
        }
        // Asked again: a TCP connection that was just made needs its TLS handshake now.
        let securing = matches!(self.connections.slot(place).stage, Stage::Securing);
        if securing && !self.secure(place) {
            return;
        }
        if ready.readable {
            self.read(UnreadConnection { place, generation, hung_up: ready.hung_up });
        }
    }

    /// Whether the TCP connection is established now.
    fn finish_connect(&mut self, place: u32, ready: SocketEvent) -> bool {
        let slot = self.connections.slot(place);
        let since = slot.since;
        let Some(stream) = slot.stream.as_ref().filter(|_| ready.writable || ready.hung_up) else {
            return false;
        };
        // An edge says that something happened; only the socket says whether it failed.
        if let Err(error) = stream.connected() {
            let fault = SocketFault::of(&error);
            self.protocol.lost(&mut self.connections, place, Loss::Unopened(fault));
            return false;
        }
        slot.stage = Stage::Securing;
        // Only the resent SYN takes this long, so the accept queue was full (tcp(7)).
        if MonotonicTime::now().since(since) > SLOW_CONNECT {
            self.connections.meter.cost.slow_connects += 1;
        }
        true
    }

    /// Whether the TLS handshake is finished now; a plain connection has none.
    fn secure(&mut self, place: u32) -> bool {
        let Some(stream) = &mut self.connections.slot(place).stream else { return false };
        match stream.handshake() {
            Ok(true) => {
                self.connections.enter(place, Default::default());
                self.protocol.connected(&mut self.connections, place);
                true
            }
            Ok(false) => false,
            Err(error) => {
                self.protocol.lost(&mut self.connections, place, Loss::Tls(error));
                false
            }
        }
    }

    /// Reads what a connection has received, at most [`READS_AT_ONCE`] times: a server that sends faster than it is read
    /// would otherwise stop the timeouts and all other connections.
    fn read(&mut self, connection: UnreadConnection) {
        let UnreadConnection { place, generation, hung_up } = connection;
        let io = &mut self.connections;
        let mut backlog = 0;
        for _ in 0..READS_AT_ONCE {
            // The protocol may close or reopen the connection while it handles what was read.
            if !io.is_current(place, generation) {
                return;
            }
            let Some(stream) = &mut io.slot(place).stream else { return };
            let receipt = match stream.read(&mut self.buffer) {
                Ok(Receipt { length: 0, .. }) => {
                    return self.protocol.lost(io, place, Loss::Closed);
                }
                Ok(receipt) => receipt,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    return self.protocol.lost(io, place, Loss::Broken(SocketFault::of(&error)));
                }
            };
            let read = MonotonicTime::now();
            // Without a stamp the moment of reading is an upper bound of the arrival.
            let stamped = receipt.stamp.and_then(|stamp| io.stamps.convert(stamp, read));
            if let Some(arrived) = stamped {
                io.meter.cost.lag.record(read.since(arrived));
            }
            // TLS returns one record at a time, so what was waiting is the sum of the reads.
            backlog += receipt.length;
            io.meter.record_backlog(backlog);
            let arrival = Arrival { at: stamped.unwrap_or(read), read };
            self.protocol.received(io, place, &self.buffer[..receipt.length], arrival);
            // After a hang-up the end itself must be read, and no further event will announce it.
            if receipt.drained && !hung_up {
                return;
            }
        }
        // The same connection can be added by an event and by the rest of the last round.
        if !self.unread.contains(&connection) {
            self.unread.push(connection);
        }
    }
}
