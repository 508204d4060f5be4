//! One thread's connections of a cable load, and what they receive.
//!
//! What is sent when, and when a step ends, is decided in `steps`. This part opens connections, keeps them alive and
//! classifies the messages they receive.

use crate::cable::codec::{CableCodec, ServerMessage};
use crate::cable::counts::{CableCounts, StageTimes, count};
use crate::cable::frame::{FrameError, FrameKind, FrameReader, SocketMessage};
use crate::cable::handshake::{UpgradeRequest, key_of, read_answer};
use crate::cable::pending::{DeliveryEffect, PendingBroadcasts};
use crate::cable::session::{CableConnections, CablePhase, CableSession};
use crate::cable::shared::{Awaited, BroadcastAnnouncement, SharedBroadcasts};
use crate::clock::MonotonicTime;
use crate::connections::Stage;
use crate::fault::SocketFault;
use crate::reactor::{Arrival, Loss};
use crate::shard::Shard;
use crate::tls::{explain, is_permanent};
use carat_model::load::CableLoad;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a lost connection waits before it is reopened, in nanoseconds like the next.
const BACKOFF: u64 = 500_000_000;
/// How long a subscription may stay unconfirmed before it is requested again, as Action Cable's own client does
/// (`subscription_guarantor.js` of Rails 7.0 and newer).
const SUBSCRIBE_AGAIN: u64 = 500_000_000;

/// What all threads of a cable load share.
#[derive(Debug)]
pub struct CableShared {
    pub load: CableLoad,
    pub upgrade: UpgradeRequest,
    pub broadcasts: SharedBroadcasts,
}

/// One thread's connections.
#[derive(Debug)]
pub(super) struct Subscribers {
    pub shared: Arc<CableShared>,
    pub shard: Shard,
    subscribe: String,
    codec: CableCodec,
    waiting: VecDeque<u32>,
    backing_off: VecDeque<(MonotonicTime, u32)>,
    /// Connections that the server told not to come back.
    gone: u32,
    pub pending: PendingBroadcasts,
    /// Results that this thread's senders have received in this step.
    pub acknowledged: u32,
    pub stages: StageTimes,
    random: ChaCha8Rng,
    /// When the connections were last checked.
    checked: MonotonicTime,
    pub counts: CableCounts,
}

fn is_subscribed(stage: Stage<CablePhase>) -> bool {
    matches!(stage, Stage::Open(CablePhase::Subscribed | CablePhase::Stale))
}

impl Subscribers {
    pub(super) fn new(shared: Arc<CableShared>, shard: Shard) -> Self {
        // The process id keeps broadcasts of two runs against one server apart.
        let codec = CableCodec::new(&shared.load, std::process::id());
        let seed = shared.load.options.seed.wrapping_add(shard.index.into());
        Self {
            shared,
            shard,
            subscribe: codec.subscribe(),
            codec,
            waiting: VecDeque::new(),
            backing_off: VecDeque::new(),
            gone: 0,
            pending: PendingBroadcasts::default(),
            acknowledged: 0,
            stages: StageTimes::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            checked: MonotonicTime::now(),
            counts: CableCounts::default(),
        }
    }

    /// This thread's part of a number of connections or broadcasts.
    pub(super) fn part(&self, whole: u32) -> u32 {
        self.shard.part(whole.into()) as u32
    }

    /// Adds a step's connections; they are opened by and by.
    pub(super) fn grow(&mut self, io: &mut CableConnections<'_>) {
        let load = &self.shared.load;
        if io.count() == 0 {
            // All steps at once: growing a vector of ten thousand slots copies it each time.
            io.reserve(load.steps * self.part(load.step_size));
        }
        let count = self.part(load.step_size);
        let first = io.add_slots(count);
        self.waiting.extend(first..first + count);
    }

    /// Opens connections as long as few enough handshakes are under way.
    pub(super) fn open_more(&mut self, io: &mut CableConnections<'_>, now: MonotonicTime) {
        while self.backing_off.front().is_some_and(|(until, _)| *until <= now) {
            self.waiting.extend(self.backing_off.pop_front().map(|(_, place)| place));
        }
        let ramp = self.part(self.shared.load.ramp).max(1);
        // Few handshakes at a time, so that the ramp does not overflow the accept queue.
        while io.opening() < ramp {
            let Some(place) = self.waiting.pop_front() else { return };
            if let Err(fault) = io.dial(place) {
                self.lost(io, place, Loss::Unopened(fault));
            }
        }
    }

    /// Whether the missing connections cannot be subscribed any more.
    pub(super) fn is_hopeless(&self, requested: u32) -> bool {
        // Otherwise the load would wait for `ready_within` although the answer is known.
        self.pending.ready() + self.gone == requested || self.counts.tls.is_some()
    }

    /// Checks one connection for a lost subscription request and for silence.
    pub(super) fn check_slot(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        now: MonotonicTime,
    ) {
        let slot = io.slot(place);
        match slot.stage {
            Stage::Open(CablePhase::Subscribing) => {
                // Once per interval, although the check comes several times in each.
                let requests = now.since(slot.since) / SUBSCRIBE_AGAIN;
                if requests > self.checked.since(slot.since) / SUBSCRIBE_AGAIN {
                    self.counts.asked_again += 1;
                    self.subscribe(io, place);
                }
            }
            Stage::Open(CablePhase::Subscribed) => {
                let stale_ms = (self.shared.load.stale_s * 1e3) as u32;
                // 32 bits of milliseconds wrap after 49 days; the wrapping difference stays right.
                if (now.millis() as u32).wrapping_sub(slot.session.heard_ms) > stale_ms {
                    io.enter(place, CablePhase::Stale);
                    self.counts.ping_gaps += 1;
                    if self.shared.load.reopen_stale {
                        self.lose(io, place, "stale", true);
                    }
                }
            }
            _ => {}
        }
    }

    /// All connections have been checked.
    pub(super) fn checked(&mut self, now: MonotonicTime) {
        self.checked = now;
    }

    /// Sends a broadcast through a connection chosen at random; false if there is none.
    pub(super) fn broadcast(
        &mut self,
        io: &mut CableConnections<'_>,
        intended: MonotonicTime,
    ) -> bool {
        let ready = self.pending.ready();
        if ready == 0 {
            return false;
        }
        let nth = self.random.random_range(0..ready);
        let Some(place) = self.pending.nth_ready(nth) else { return false };
        let (thread, sent) = (self.shard.index, MonotonicTime::now());
        let announcement = BroadcastAnnouncement { thread, place, intended, sent };
        // Announced before it is sent: a receiver may have it before `send` returns.
        let number = self.shared.broadcasts.announce(announcement);
        // Own broadcasts are registered before any delivery of them can be read.
        self.catch_up();
        let text = self.codec.broadcast(number);
        self.send(io, place, FrameKind::Text, text.as_bytes());
        // Counted as sent even if the connection broke: then its deliveries are missing.
        true
    }

    /// Registers what has been announced, by this thread and by others.
    pub(super) fn catch_up(&mut self) {
        // A clone of the pointer, because the loop changes `self`.
        let (shared, index) = (Arc::clone(&self.shared), self.shard.index);
        while let Some(next) = shared.broadcasts.announced(self.pending.next_number()) {
            let own = next.thread == index;
            let (sender, ack_due) =
                (own.then_some(next.place), own && shared.load.result.is_some());
            if self.pending.send(sender, next.intended, next.sent, ack_due) {
                shared.broadcasts.settle(index, self.pending.next_number() - 1, false);
            }
        }
    }

    /// Gives up what was sent before `before`.
    pub(super) fn give_up(&mut self, before: MonotonicTime) {
        for number in self.pending.give_up(before) {
            self.shared.broadcasts.settle(self.shard.index, number, true);
        }
    }

    fn settle(&self, number: u64) {
        self.shared.broadcasts.settle(self.shard.index, number, false);
    }

    /// The counts of the whole run.
    pub(super) fn take_counts(&mut self) -> CableCounts {
        let mut counts = std::mem::take(&mut self.counts);
        counts.lost = self.pending.lost;
        counts.parsed = self.codec.parsed();
        counts
    }

    pub(super) fn lost(&mut self, io: &mut CableConnections<'_>, place: u32, loss: Loss) {
        match loss {
            Loss::Unopened(fault) | Loss::Broken(fault) => self.broken(io, place, fault),
            Loss::TimedOut => self.lose(io, place, "handshake timed out", true),
            Loss::Closed => self.lose(io, place, "closed", true),
            Loss::Tls(error) => {
                let permanent = is_permanent(&error);
                let reason = permanent.then(|| explain(&error));
                // A certificate that is refused once is refused always; anything else may pass.
                self.counts.tls = self.counts.tls.take().or(reason);
                self.lose(io, place, "TLS handshake failed", !permanent);
            }
        }
    }

    /// Closes and counts a connection that has a fault.
    fn broken(&mut self, io: &mut CableConnections<'_>, place: u32, fault: SocketFault) {
        *self.counts.faults.entry(fault).or_default() += 1;
        // Ports that other connections have do not become free.
        self.lose(io, place, &fault.words(), fault != SocketFault::NoPort);
    }

    /// Sends a frame on a connection, which is lost if that fails.
    fn send(&mut self, io: &mut CableConnections<'_>, place: u32, kind: FrameKind, payload: &[u8]) {
        let mask = self.random.random();
        if let Err(fault) = io.slot(place).send_frame(kind, payload, mask) {
            self.broken(io, place, fault);
        }
    }

    /// Closes and counts a connection that is lost; it is reopened after a while, or never.
    fn lose(&mut self, io: &mut CableConnections<'_>, place: u32, reason: &str, comes_back: bool) {
        let stage = self.leave(io, place, comes_back);
        io.failed();
        if stage.is_opening() {
            count(&mut self.counts.refused, reason);
        } else if is_subscribed(stage) {
            count(&mut self.counts.disconnects, reason);
        }
    }

    /// Closes a connection and returns the stage that it had reached.
    fn leave(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        comes_back: bool,
    ) -> Stage<CablePhase> {
        let stage = io.close(place);
        // Nothing of an old connection may be read as part of the new one.
        io.slot(place).session = CableSession::default();
        if is_subscribed(stage) {
            for number in self.pending.leave(place) {
                self.settle(number);
            }
        }
        // Not at once: thousands that reconnect together would keep an overloaded server down.
        if comes_back {
            self.backing_off.push_back((MonotonicTime::now().after(BACKOFF), place));
        } else {
            self.gone += 1;
        }
        stage
    }

    fn key(&self, place: u32) -> String {
        key_of(self.shared.load.options.seed, self.shard.number(place))
    }

    /// Requests the upgrade on a connection that has just been opened.
    pub(super) fn connected(&mut self, io: &mut CableConnections<'_>, place: u32) {
        let request = self.shared.upgrade.request(&self.key(place));
        // The request is far smaller than a socket's buffer, so the kernel takes all of it.
        if let Err(fault) = io.slot(place).send(&request, request.len()) {
            self.broken(io, place, fault);
        }
    }

    pub(super) fn writable(&mut self, io: &mut CableConnections<'_>, place: u32) {
        if let Err(fault) = io.slot(place).flush() {
            self.broken(io, place, fault);
        }
    }

    pub(super) fn received(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        let slot = io.slot(place);
        slot.session.heard_ms = arrival.read.millis() as u32;
        match slot.stage {
            Stage::Open(CablePhase::Upgrading) => {
                return self.take_answer(io, place, bytes, arrival.at);
            }
            Stage::Open(CablePhase::Stale) => io.enter(place, CablePhase::Subscribed),
            _ => {}
        }
        self.take_frames(io, place, bytes, arrival.at);
    }

    fn take_answer(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        bytes: &[u8],
        arrived: MonotonicTime,
    ) {
        let slot = io.slot(place);
        let mut answer = std::mem::take(&mut slot.session.rest);
        // Kept in `rest`: the session has one buffer, and nothing is sent before the answer.
        answer.extend_from_slice(bytes);
        match read_answer(&answer, &self.key(place)) {
            Ok(None) => slot.session.rest = answer,
            Ok(Some(end)) => {
                self.stages.connect.record(arrived.since(slot.since));
                slot.since = arrived;
                io.enter(place, CablePhase::Welcoming);
                // The server's first frames may come in the same read as its answer.
                self.take_frames(io, place, &answer[end..], arrived);
            }
            Err(error) => self.lose(io, place, &error.to_string(), true),
        }
    }

    fn take_frames(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        bytes: &[u8],
        arrived: MonotonicTime,
    ) {
        let slot = io.slot(place);
        // Taken out, because the messages borrow from it while `self` sends.
        let mut frames = std::mem::take(&mut slot.session.frames);
        let generation = slot.generation();
        let read = self.read_frames(io, place, frames.read(bytes), arrived);
        // A message closed the connection, and the slot may already hold the next one.
        if !io.is_current(place, generation) {
            return;
        }
        io.slot(place).session.frames = frames;
        if read.is_err() {
            // Counted as malformed only, not as a lost connection too.
            self.counts.malformed += 1;
            self.leave(io, place, false);
        }
    }

    fn read_frames(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        mut frames: FrameReader<'_>,
        arrived: MonotonicTime,
    ) -> Result<(), FrameError> {
        let mut messages: u64 = 0;
        while let Some(message) = frames.next_message()? {
            messages += 1;
            match message {
                SocketMessage::Text(text) => self.on_text(io, place, text, arrived),
                SocketMessage::Ping(payload) => {
                    self.send(io, place, FrameKind::Pong, payload);
                }
                SocketMessage::Close(code) => {
                    let mask = self.random.random();
                    // The server may be gone already.
                    let _ = io.slot(place).send_frame(FrameKind::Close, &[], mask);
                    let code = code.map_or_else(String::new, |code| format!(" with {code}"));
                    self.lose(io, place, &format!("closed{code}"), true);
                }
                SocketMessage::Binary(_) => self.counts.other += 1,
                SocketMessage::Pong => {}
            }
            // The rest belongs to a connection that a message has just closed.
            if io.slot(place).stream.is_none() {
                break;
            }
        }
        io.meter.cost.messages += messages;
        // All but the last message of a read may have arrived earlier than its stamp.
        io.meter.cost.bounded += messages.saturating_sub(1);
        Ok(())
    }

    fn on_text(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        text: &[u8],
        arrived: MonotonicTime,
    ) {
        match self.codec.parse(text) {
            ServerMessage::Broadcast(number) => self.on_broadcast(io, place, number, arrived),
            ServerMessage::Result(number) => self.on_result(place, number, arrived),
            ServerMessage::Ping => self.counts.pings += 1,
            ServerMessage::Welcome => self.on_welcome(io, place, arrived),
            ServerMessage::Confirmed => self.on_confirmed(io, place, arrived),
            ServerMessage::Rejected => self.lose(io, place, "subscription rejected", false),
            ServerMessage::Disconnect { reason, reconnect } => {
                self.lose(io, place, &format!("disconnect: {reason}"), reconnect);
            }
            ServerMessage::Altered => self.counts.altered += 1,
            ServerMessage::Malformed => self.counts.malformed += 1,
            ServerMessage::Other => self.counts.other += 1,
        }
    }

    fn on_broadcast(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        number: u64,
        arrived: MonotonicTime,
    ) {
        // Another thread's broadcast can arrive before this thread has registered it.
        if number >= self.pending.next_number() {
            self.catch_up();
        }
        self.shared.broadcasts.came(Awaited::Delivery);
        let joined = u64::from(io.slot(place).session.joined);
        match self.pending.deliver(number, place, joined, arrived) {
            DeliveryEffect::Done => self.settle(number),
            DeliveryEffect::Surplus => self.counts.duplicate += 1,
            DeliveryEffect::Late => self.counts.late += 1,
            DeliveryEffect::Counted | DeliveryEffect::Early => {}
        }
    }

    fn on_result(&mut self, place: u32, number: u64, arrived: MonotonicTime) {
        self.shared.broadcasts.came(Awaited::Result);
        match self.pending.acknowledge(number, place, arrived) {
            DeliveryEffect::Done => {
                self.acknowledged += 1;
                self.settle(number);
            }
            DeliveryEffect::Counted => self.acknowledged += 1,
            DeliveryEffect::Late => self.counts.late += 1,
            DeliveryEffect::Surplus | DeliveryEffect::Early => self.counts.duplicate += 1,
        }
    }

    fn on_welcome(&mut self, io: &mut CableConnections<'_>, place: u32, arrived: MonotonicTime) {
        let slot = io.slot(place);
        // A second welcome must not restart a subscription.
        if slot.stage != Stage::Open(CablePhase::Welcoming) {
            return;
        }
        self.stages.welcome.record(arrived.since(slot.since));
        // From now on, not from the arrival: the request is sent now.
        slot.since = MonotonicTime::now();
        io.enter(place, CablePhase::Subscribing);
        self.subscribe(io, place);
    }

    fn subscribe(&mut self, io: &mut CableConnections<'_>, place: u32) {
        let command = self.subscribe.clone();
        self.send(io, place, FrameKind::Text, command.as_bytes());
    }

    fn on_confirmed(&mut self, io: &mut CableConnections<'_>, place: u32, arrived: MonotonicTime) {
        // What is announced by now was sent before this connection could receive it.
        self.catch_up();
        let slot = io.slot(place);
        // A confirmation that was requested twice comes twice.
        if slot.stage != Stage::Open(CablePhase::Subscribing) {
            return;
        }
        self.stages.confirm.record(arrived.since(slot.since));
        slot.since = arrived;
        slot.session.joined = self.pending.join(place) as u32;
        io.enter(place, CablePhase::Subscribed);
    }
}
