//! The epoll loop of a cable load: connections, and what they parse.
//!
//! What is sent when, and when a step ends, is decided in `steps`; this part keeps connections alive, reads, and tells
//! messages apart.

use crate::core::load::CableLoad;
use crate::load::cable::client::{Client, State};
use crate::load::cable::codec::{CableCodec, ServerMessage};
use crate::load::cable::frame::{FrameBuffer, FrameKind, SocketMessage};
use crate::load::cable::handshake::{Upgrade, key_of, read_answer};
use crate::load::cable::pending::{DeliveryEffect, PendingBroadcasts};
use crate::load::cable::shards::{BroadcastAnnouncement, Shard};
use crate::load::cable::tally::{Tally, count};
use crate::load::clock::{MonotonicTime, StampClock};
use crate::load::histogram::DurationHistogram;
use crate::load::meter::Meter;
use crate::load::net::{Poller, Readiness, Receipt};
use crate::load::progress::ProgressCounters;
use crate::load::stream::Dialer;
use crate::load::tls::{explain, is_hopeless};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;

/// Bytes of one read; a connection that fills it has a queue at the server.
pub(crate) const BUFFER: usize = 64 * 1024;
/// Connections from one source address, well below the 28,232 ports of the default range.
const PER_SOURCE: u32 = 20_000;
/// How long a lost connection waits before it comes back, in nanoseconds like all that follow.
const BACKOFF: u64 = 500_000_000;
/// How long a subscription may stay unconfirmed before it is asked for again, as Action Cable's own client does
/// (`subscription_guarantor.js` of Rails 7.0 and newer).
const ASK_AGAIN: u64 = 500_000_000;
/// A handshake this long has lost its first packet: the kernel sends it again after a second (RFC 6298).
const SLOW_CONNECT: u64 = 900_000_000;

/// The poller's token of other threads' news.
const NEWS: u64 = u64::MAX;

/// DurationHistogram of the stages of a connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct StageTimes {
    pub(crate) connect: DurationHistogram,
    pub(crate) welcome: DurationHistogram,
    pub(crate) confirm: DurationHistogram,
}

/// The loop and all it holds.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub(crate) load: &'a CableLoad,
    pub(crate) counters: &'a ProgressCounters,
    pub(crate) shard: Shard<'a>,
    dialer: &'a Dialer,
    upgrade: Upgrade,
    subscribe: String,
    codec: CableCodec,
    clients: Vec<Client>,
    pub(crate) waiting: VecDeque<u32>,
    backing_off: VecDeque<(MonotonicTime, u32)>,
    pub(crate) opening: u32,
    pub(crate) gone: u32,
    pub(crate) pending: PendingBroadcasts,
    pub(crate) acked: u32,
    pub(crate) stages: StageTimes,
    pub(crate) poller: Poller,
    /// When silent and hanging connections were last looked after.
    looked: MonotonicTime,
    pub(crate) stamps: StampClock,
    buffer: Vec<u8>,
    pub(crate) random: ChaCha8Rng,
    pub(crate) meter: Meter,
    pub(crate) tally: Tally,
}

impl<'a> Engine<'a> {
    /// A loop without connections.
    ///
    /// # Errors
    /// Where the kernel has no descriptor for the poller.
    pub(crate) fn new(
        load: &'a CableLoad,
        dialer: &'a Dialer,
        counters: &'a ProgressCounters,
        shard: Shard<'a>,
    ) -> io::Result<Self> {
        let codec = CableCodec::new(load, std::process::id());
        let poller = Poller::new(1024)?;
        poller.add(shard.shards.wake(shard.index), NEWS)?;
        Ok(Self {
            load,
            counters,
            shard,
            dialer,
            upgrade: Upgrade::new(load, dialer.target()),
            subscribe: codec.subscribe(),
            codec,
            clients: Vec::with_capacity((load.steps * shard.part(load.step_size)) as usize),
            waiting: VecDeque::new(),
            backing_off: VecDeque::new(),
            opening: 0,
            gone: 0,
            pending: PendingBroadcasts::default(),
            acked: 0,
            stages: StageTimes::default(),
            poller,
            looked: MonotonicTime::now(),
            stamps: StampClock::default(),
            buffer: vec![0; BUFFER],
            random: ChaCha8Rng::seed_from_u64(load.options.seed.wrapping_add(shard.index.into())),
            meter: Meter::begin(MonotonicTime::now()),
            tally: Tally::default(),
        })
    }

    /// Adds places that are to be connected.
    pub(crate) fn grow(&mut self, count: u32) {
        let from = self.clients.len() as u32;
        self.clients.extend((0..count).map(|_| Client::default()));
        self.waiting.extend(from..from + count);
    }

    /// Connections asked for so far.
    pub(crate) fn asked(&self) -> u32 {
        self.clients.len() as u32
    }

    /// Opens connections as long as few enough are on their way.
    pub(crate) fn open_more(&mut self, now: MonotonicTime) {
        while self.backing_off.front().is_some_and(|(until, _)| *until <= now) {
            self.waiting.extend(self.backing_off.pop_front().map(|(_, place)| place));
        }
        while self.opening < self.shard.part(self.load.ramp).max(1) {
            let Some(place) = self.waiting.pop_front() else { return };
            self.dial(place);
        }
    }

    /// Looks after silent and hanging connections; call it a few times a second.
    pub(crate) fn look_after(&mut self, now: MonotonicTime) {
        self.stamps.sample(now);
        self.meter.tick(now);
        let timeout = crate::load::clock::nanos_of(self.load.options.timeout_s);
        let looked = std::mem::replace(&mut self.looked, now);
        let stale_ms = (self.load.stale_s * 1e3) as u32;
        for place in 0..self.clients.len() as u32 {
            let client = &mut self.clients[place as usize];
            if client.state.is_opening() && now.since(client.since) > timeout {
                self.lose(place, "handshake timed out", true);
            } else if client.state == State::Subscribing
                && now.since(client.since) / ASK_AGAIN > looked.since(client.since) / ASK_AGAIN
            {
                self.tally.asked_again += 1;
                self.subscribe(place);
            } else if client.state == State::Ready
                && !client.stale
                && (now.millis() as u32).wrapping_sub(client.heard_ms) > stale_ms
            {
                client.stale = true;
                self.tally.ping_gaps += 1;
                if self.load.reopen_stale {
                    self.lose(place, "stale", true);
                }
            }
        }
    }

    /// Sends a broadcast through a connection chosen at random; false where there is none.
    pub(crate) fn broadcast(&mut self, intended: MonotonicTime) -> bool {
        let ready = self.pending.ready();
        if ready == 0 {
            return false;
        }
        let nth = self.random.random_range(0..ready);
        let Some(place) = self.pending.nth_ready(nth) else { return false };
        let mask = self.random.random();
        let (thread, sent) = (self.shard.index, MonotonicTime::now());
        let number =
            self.shard.shards.announce(BroadcastAnnouncement { thread, place, intended, sent });
        self.catch_up();
        let text = self.codec.broadcast(number);
        let client = &mut self.clients[place as usize];
        if client.send_frame(FrameKind::Text, text.as_bytes(), mask).is_err() {
            self.lose(place, "reset", true);
        }
        true
    }

    /// Takes note of what has been announced, by this thread and by others.
    pub(crate) fn catch_up(&mut self) {
        let Shard { shards, index } = self.shard;
        while let Some(next) = shards.announced(self.pending.next_number()) {
            let own = next.thread == index;
            let (sender, ack_due) = (own.then_some(next.place), own && self.load.result.is_some());
            if self.pending.send(sender, next.intended, next.sent, ack_due) {
                shards.settle(index, self.pending.next_number() - 1, false);
            }
        }
    }

    /// Gives up what was sent before `before`.
    pub(crate) fn give_up(&mut self, before: MonotonicTime) {
        for number in self.pending.give_up(before) {
            self.shard.shards.settle(self.shard.index, number, true);
        }
    }

    fn settle(&self, number: u64) {
        self.shard.shards.settle(self.shard.index, number, false);
    }

    /// Messages that had to be parsed in full.
    pub(crate) fn parsed(&self) -> u64 {
        self.codec.parsed()
    }

    /// Handles whatever the poller found.
    pub(crate) fn handle(&mut self, ready: usize) {
        for at in 0..ready {
            let ready = self.poller.ready(at);
            self.on_ready(ready);
        }
    }

    fn source(&self, place: u32) -> Option<Ipv4Addr> {
        let number = self.shard.number(place);
        let last = (2 + number / PER_SOURCE).min(254) as u8;
        let rotate = number >= PER_SOURCE && self.dialer.target().address.is_loopback_v4();
        rotate.then_some(Ipv4Addr::new(127, 0, 0, last))
    }

    fn dial(&mut self, place: u32) {
        let source = self.source(place);
        let client = &mut self.clients[place as usize];
        client.close(State::Connecting);
        client.since = MonotonicTime::now();
        self.opening += 1;
        let token = u64::from(place) | u64::from(client.generation) << 32;
        let stream = self.dialer.dial(source).and_then(|stream| {
            self.poller.add(stream.socket(), token)?;
            Ok(stream)
        });
        match stream {
            Ok(stream) => client.stream = Some(stream),
            Err(_) => self.lose(place, "connection refused", true),
        }
    }

    /// A connection is lost: it comes back after a while, or never.
    pub(crate) fn lose(&mut self, place: u32, reason: &str, comes_back: bool) {
        match self.leave(place, comes_back) {
            state if state.is_opening() => count(&mut self.tally.refused, reason),
            State::Ready => count(&mut self.tally.disconnects, reason),
            _ => {}
        }
    }

    /// Closes a connection, reopens it later where it comes back, and says how far it had been.
    fn leave(&mut self, place: u32, comes_back: bool) -> State {
        let client = &mut self.clients[place as usize];
        let state = client.state;
        client.close(if comes_back { State::Closed } else { State::Gone });
        if state.is_opening() {
            self.opening -= 1;
        } else if state == State::Ready {
            for number in self.pending.leave(place) {
                self.settle(number);
            }
        }
        if comes_back {
            self.backing_off.push_back((MonotonicTime::now().after(BACKOFF), place));
        } else {
            self.gone += 1;
        }
        state
    }

    fn on_ready(&mut self, ready: Readiness) {
        if ready.token == NEWS {
            // Seen by having woken up; edge-triggered, so it need not be read.
            return;
        }
        let place = ready.token as u32;
        let client = &mut self.clients[place as usize];
        if client.generation != (ready.token >> 32) as u32 {
            return;
        }
        if client.state == State::Connecting {
            if !self.finish_connect(place, ready) {
                return;
            }
        } else if ready.writable && client.flush().is_err() {
            return self.lose(place, "reset", true);
        }
        if self.clients[place as usize].state == State::Securing && !self.secure(place) {
            return;
        }
        if ready.readable {
            self.read(place, ready.hung_up);
        }
    }

    fn finish_connect(&mut self, place: u32, ready: Readiness) -> bool {
        let client = &mut self.clients[place as usize];
        let Some(stream) = client.stream.as_ref().filter(|_| ready.writable || ready.hung_up)
        else {
            return false;
        };
        if stream.connected().is_err() {
            self.lose(place, "connection refused", true);
            return false;
        }
        if MonotonicTime::now().since(client.since) > SLOW_CONNECT {
            self.meter.own.slow_connects += 1;
        }
        client.state = State::Securing;
        true
    }

    /// Whether the TLS handshake is done now and the upgrade asked for; a plain connection has no handshake to do.
    fn secure(&mut self, place: u32) -> bool {
        let Some(stream) = &mut self.clients[place as usize].stream else { return false };
        match stream.shake() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                let hopeless = is_hopeless(&error);
                self.tally.tls = self.tally.tls.take().or(hopeless.then(|| explain(&error)));
                self.lose(place, "TLS handshake failed", !hopeless);
                return false;
            }
        }
        let request = self.upgrade.request(&self.key(place));
        let client = &mut self.clients[place as usize];
        client.state = State::Upgrading;
        // The request is far smaller than a socket's buffer, so it is taken whole.
        if client.send(&request).is_err() {
            self.lose(place, "reset", true);
            return false;
        }
        true
    }

    fn read(&mut self, place: u32, hung_up: bool) {
        let mut backlog = 0;
        loop {
            let client = &mut self.clients[place as usize];
            let Some(stream) = &mut client.stream else { return };
            let receipt = match stream.read(&mut self.buffer) {
                Ok(Receipt { length: 0, .. }) => return self.lose(place, "closed", true),
                Ok(receipt) => receipt,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.lose(place, "reset", true),
            };
            let read = MonotonicTime::now();
            let stamped = receipt.stamp.and_then(|stamp| self.stamps.moment(stamp, read));
            let arrived = stamped.unwrap_or(read);
            if stamped.is_some() {
                self.meter.own.lag.record(read.since(arrived));
            }
            // TLS hands out a record at a time, so what was waiting is the sum of the reads.
            backlog += receipt.length;
            self.meter.note_backlog(backlog);
            client.heard_ms = read.millis() as u32;
            client.stale = false;
            let buffer = std::mem::take(&mut self.buffer);
            self.take(place, &buffer[..receipt.length], arrived);
            self.buffer = buffer;
            if receipt.drained && !hung_up {
                return;
            }
        }
    }

    fn take(&mut self, place: u32, bytes: &[u8], arrived: MonotonicTime) {
        if self.clients[place as usize].state == State::Upgrading {
            self.take_answer(place, bytes, arrived);
        } else {
            self.take_frames(place, bytes, arrived);
        }
    }

    fn key(&self, place: u32) -> String {
        key_of(self.load.options.seed, self.shard.number(place))
    }

    fn take_answer(&mut self, place: u32, bytes: &[u8], arrived: MonotonicTime) {
        let key = self.key(place);
        let client = &mut self.clients[place as usize];
        let mut whole = std::mem::take(&mut client.rest);
        whole.extend_from_slice(bytes);
        match read_answer(&whole, &key) {
            Ok(None) => client.rest = whole,
            Ok(Some(end)) => {
                self.stages.connect.record(arrived.since(client.since));
                client.state = State::Welcoming;
                client.since = arrived;
                self.take_frames(place, &whole[end..], arrived);
            }
            Err(error) => self.lose(place, &error.to_string(), true),
        }
    }

    fn take_frames(&mut self, place: u32, bytes: &[u8], arrived: MonotonicTime) {
        let mut frames = std::mem::take(&mut self.clients[place as usize].frames);
        let generation = self.clients[place as usize].generation;
        let held = self.cut_frames(place, &mut frames, bytes, arrived);
        let client = &mut self.clients[place as usize];
        if client.generation != generation {
            return;
        }
        client.frames = frames;
        if held.is_err() {
            // Counted as what it is, so that it is not counted as a lost connection too.
            self.tally.malformed += 1;
            self.leave(place, false);
        }
    }

    fn cut_frames(
        &mut self,
        place: u32,
        frames: &mut FrameBuffer,
        bytes: &[u8],
        arrived: MonotonicTime,
    ) -> Result<(), crate::load::cable::frame::FrameError> {
        let mut cut = frames.cut(bytes);
        let mut messages: u64 = 0;
        while let Some(message) = cut.next_message()? {
            messages += 1;
            match message {
                SocketMessage::Text(text) => self.on_text(place, text, arrived),
                SocketMessage::Ping(payload) => {
                    let mask = self.random.random();
                    // A broken connection is found by the next read.
                    let _ = self.clients[place as usize].send_frame(FrameKind::Pong, payload, mask);
                }
                SocketMessage::Close(code) => {
                    let mask = self.random.random();
                    // The other side may be gone already.
                    let _ = self.clients[place as usize].send_frame(FrameKind::Close, &[], mask);
                    let code = code.map_or_else(String::new, |code| format!(" with {code}"));
                    self.lose(place, &format!("closed{code}"), true);
                }
                SocketMessage::Binary(_) => self.tally.other += 1,
                SocketMessage::Pong => {}
            }
            if self.clients[place as usize].stream.is_none() {
                break;
            }
        }
        self.meter.own.messages += messages;
        self.meter.own.bounded += messages.saturating_sub(1);
        Ok(())
    }

    fn on_text(&mut self, place: u32, text: &[u8], arrived: MonotonicTime) {
        match self.codec.parse(text) {
            ServerMessage::Broadcast(number) => {
                if number >= self.pending.next_number() {
                    self.catch_up();
                }
                let joined = u64::from(self.clients[place as usize].joined);
                match self.pending.deliver(number, place, joined, arrived) {
                    DeliveryEffect::Done => self.settle(number),
                    DeliveryEffect::Surplus => self.tally.duplicate += 1,
                    DeliveryEffect::Late => self.tally.late += 1,
                    DeliveryEffect::Counted | DeliveryEffect::Early => {}
                }
            }
            ServerMessage::Result(number) => match self.pending.acknowledge(number, place, arrived)
            {
                DeliveryEffect::Done => {
                    self.acked += 1;
                    self.settle(number);
                }
                DeliveryEffect::Counted => self.acked += 1,
                DeliveryEffect::Late => self.tally.late += 1,
                DeliveryEffect::Surplus | DeliveryEffect::Early => self.tally.duplicate += 1,
            },
            ServerMessage::Ping => self.tally.pings += 1,
            ServerMessage::Welcome => self.on_welcome(place, arrived),
            ServerMessage::Confirmed => self.on_confirmed(place, arrived),
            ServerMessage::Rejected => self.lose(place, "subscription rejected", false),
            ServerMessage::Disconnect { reason, reconnect } => {
                self.lose(place, &format!("disconnect: {reason}"), reconnect);
            }
            ServerMessage::Altered => self.tally.altered += 1,
            ServerMessage::Malformed => self.tally.malformed += 1,
            ServerMessage::Other => self.tally.other += 1,
        }
    }

    fn on_welcome(&mut self, place: u32, arrived: MonotonicTime) {
        let client = &mut self.clients[place as usize];
        if client.state != State::Welcoming {
            return;
        }
        self.stages.welcome.record(arrived.since(client.since));
        client.state = State::Subscribing;
        client.since = MonotonicTime::now();
        self.subscribe(place);
    }

    fn subscribe(&mut self, place: u32) {
        let mask = self.random.random();
        let client = &mut self.clients[place as usize];
        if client.send_frame(FrameKind::Text, self.subscribe.as_bytes(), mask).is_err() {
            self.lose(place, "reset", true);
        }
    }

    fn on_confirmed(&mut self, place: u32, arrived: MonotonicTime) {
        // What is announced by now was sent before this connection could have it.
        self.catch_up();
        let client = &mut self.clients[place as usize];
        if client.state != State::Subscribing {
            return;
        }
        self.stages.confirm.record(arrived.since(client.since));
        client.state = State::Ready;
        client.since = arrived;
        client.joined = self.pending.join(place) as u32;
        self.opening -= 1;
    }
}
