//! The connections of one thread.
//!
//! A connection lives in a slot and is reopened in the same slot. Everything that all protocols share is here: dialing,
//! TLS, the poller, the kernel's time stamps and the measurement of the generator's own cost.

use crate::clock::{MonotonicTime, StampClock, nanos_of};
use crate::fault::SocketFault;
use crate::meter::{GeneratorCost, Meter};
use crate::net::Poller;
use crate::progress::ProgressCounters;
use crate::shard::Shard;
use crate::stream::{Dialer, Stream};
use carat_model::load::ConnectionOptions;
use std::fmt::Debug;
use std::io;

/// Sockets that one wait reports at most.
const EVENTS: usize = 1024;

/// Nanoseconds after which a wait makes the server suspicious.
const SUSPICIOUS: u64 = 1_000_000_000;

/// A protocol's state of one connection.
pub trait ProtocolSession: Default {
    /// What an open connection is doing; the default is what it does first.
    type Phase: OpenPhase;
}

/// What an open connection is doing.
pub trait OpenPhase: Copy + Default + Debug {
    /// Whether the protocol's own handshake is still under way.
    fn is_opening(self) -> bool;

    /// Whether the connection is lost when this phase exceeds the timeout.
    fn has_deadline(self) -> bool;
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage<P> {
    #[default]
    Closed,
    /// The TCP handshake is under way.
    Connecting,
    /// The TLS handshake is under way; a plain connection passes through.
    Securing,
    Open(P),
}

impl<P: OpenPhase> Stage<P> {
    pub fn is_opening(self) -> bool {
        match self {
            Self::Closed => false,
            Self::Connecting | Self::Securing => true,
            Self::Open(phase) => phase.is_opening(),
        }
    }

    fn has_deadline(self) -> bool {
        match self {
            Self::Closed => false,
            Self::Connecting | Self::Securing => true,
            Self::Open(phase) => phase.has_deadline(),
        }
    }
}

/// A place for a connection.
#[derive(Debug)]
pub struct Slot<S: ProtocolSession> {
    pub stream: Option<Stream>,
    pub stage: Stage<S::Phase>,
    /// When the connection was dialed, or when the protocol entered its current wait.
    pub since: MonotonicTime,
    /// Distinguishes events of an earlier connection in this slot from events of the current one.
    generation: u32,
    pub session: S,
}

impl<S: ProtocolSession> Default for Slot<S> {
    fn default() -> Self {
        let (stage, since) = (Stage::Closed, MonotonicTime::default());
        Self { stream: None, stage, since, generation: 0, session: S::default() }
    }
}

impl<S: ProtocolSession> Slot<S> {
    pub fn generation(&self) -> u32 {
        self.generation
    }
}

/// All slots of a thread, and what they share.
#[derive(Debug)]
pub struct Connections<'a, S: ProtocolSession> {
    dialer: &'a Dialer,
    shard: Shard,
    pub counters: &'a ProgressCounters,
    slots: Vec<Slot<S>>,
    opening: u32,
    pub poller: Poller,
    pub stamps: StampClock,
    pub meter: Meter,
    /// Nanoseconds after which an unanswered request or handshake is given up.
    pub timeout: u64,
}

impl<'a, S: ProtocolSession> Connections<'a, S> {
    /// # Errors
    /// If the kernel has no descriptor for the poller.
    pub fn new(
        dialer: &'a Dialer,
        options: &ConnectionOptions,
        counters: &'a ProgressCounters,
        shard: Shard,
    ) -> io::Result<Self> {
        Ok(Self {
            dialer,
            shard,
            counters,
            slots: Vec::new(),
            opening: 0,
            poller: Poller::new(EVENTS)?,
            stamps: StampClock::default(),
            meter: Meter::begin(MonotonicTime::now()),
            timeout: nanos_of(options.timeout_s),
        })
    }

    /// Makes room for so many slots, so that adding them copies nothing.
    pub fn reserve(&mut self, count: u32) {
        self.slots.reserve_exact(count as usize);
    }

    /// Adds closed slots and returns the number of the first.
    pub fn add_slots(&mut self, count: u32) -> u32 {
        let first = self.count();
        self.slots.extend((0..count).map(|_| Slot::default()));
        first
    }

    pub fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Connections whose handshakes, the protocol's included, are under way.
    pub fn opening(&self) -> u32 {
        self.opening
    }

    pub fn slot(&mut self, place: u32) -> &mut Slot<S> {
        &mut self.slots[place as usize]
    }

    pub fn slots(&self) -> &[Slot<S>] {
        &self.slots
    }

    /// Whether a connection has waited longer than the timeout.
    pub fn is_overdue(&self, place: u32, now: MonotonicTime) -> bool {
        let slot = &self.slots[place as usize];
        slot.stage.has_deadline() && now.since(slot.since) > self.timeout
    }

    /// Looks for the cause at the server if a connection has waited for longer than a second.
    pub fn suspect(&self, place: u32, now: MonotonicTime) {
        let slot = &self.slots[place as usize];
        if slot.stage.has_deadline() && now.since(slot.since) > SUSPICIOUS {
            self.dialer.server_files.look(now);
        }
    }

    /// Looks for the cause at the server, because a connection has failed.
    pub fn failed(&self) {
        self.dialer.server_files.look(MonotonicTime::now());
    }

    /// Whether the server has been seen to have run out of files.
    pub fn is_server_full(&self) -> bool {
        self.dialer.server_files.full().is_some()
    }

    /// Whether the slot still holds the connection of that generation.
    pub fn is_current(&self, place: u32, generation: u32) -> bool {
        self.slots[place as usize].generation == generation
    }

    /// Begins a new connection in a slot.
    ///
    /// # Errors
    /// If the connection fails at once; the slot stays in the stage `Connecting` until it is closed.
    pub fn dial(&mut self, place: u32) -> Result<(), SocketFault> {
        self.close(place);
        self.opening += 1;
        // Before anything can fail: `close` undoes both for a stage that is opening.
        let slot = &mut self.slots[place as usize];
        slot.stage = Stage::Connecting;
        slot.since = MonotonicTime::now();
        // An event of an earlier connection in this slot may still be in the poller's list.
        let token = u64::from(place) | u64::from(slot.generation) << 32;
        let stream = self.dialer.dial(self.shard.number(place))?;
        self.poller.add(stream.socket(), token).map_err(|error| SocketFault::of(&error))?;
        slot.stream = Some(stream);
        Ok(())
    }

    /// Moves an open connection to its next phase.
    pub fn enter(&mut self, place: u32, phase: S::Phase) {
        let slot = &mut self.slots[place as usize];
        let was_opening = slot.stage.is_opening();
        slot.stage = Stage::Open(phase);
        // Handshakes are counted by stage, so that each leaves the count exactly once.
        self.opening -= u32::from(was_opening && !phase.is_opening());
    }

    /// Closes a connection and returns the stage that it had reached; its session is the protocol's to reset.
    pub fn close(&mut self, place: u32) -> Stage<S::Phase> {
        let slot = &mut self.slots[place as usize];
        let stage = std::mem::take(&mut slot.stage);
        // Dropping the stream closes its descriptor, which removes it from epoll (epoll(7)).
        slot.stream = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.opening -= u32::from(stage.is_opening());
        stage
    }

    /// Begins the measured load, or its next step: from here on the generator's cost counts.
    pub fn begin_measurement(&mut self, now: MonotonicTime) {
        let slow_connects = self.meter.cost.slow_connects;
        self.meter = Meter::begin(now);
        // Handshakes that were slow before the measured load still say something about the server.
        self.meter.cost.slow_connects = slow_connects;
        // The first step begins the load; later ones must not move its beginning.
        if ProgressCounters::read(&self.counters.begun_ms) == 0 {
            ProgressCounters::put(&self.counters.begun_ms, now.millis());
        }
    }

    /// Ends the measurement and returns the generator's cost since it began.
    pub fn end_measurement(&mut self, now: MonotonicTime) -> GeneratorCost {
        let mut cost = std::mem::replace(&mut self.meter, Meter::begin(now)).end(now);
        cost.clock_steps = self.stamps.steps();
        cost
    }
}
