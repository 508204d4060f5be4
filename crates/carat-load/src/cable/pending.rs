//! Pending broadcasts: which connections still have to receive which.
//!
//! Every broadcast has one bit per connection that was subscribed when it was sent. A delivery clears its bit, so a missing
//! delivery and a duplicate cannot cancel out, as they do if only totals are counted.

use crate::clock::MonotonicTime;
use crate::histogram::DurationHistogram;
use carat_model::load::BroadcastRow;
use std::collections::VecDeque;

/// Broadcasts of a step that are kept in full; of older ones that are done only the row remains.
const KEPT: usize = 4096;

/// One broadcast with respect to this thread's connections.
#[derive(Debug)]
struct PendingBroadcast {
    number: u64,
    /// `None` if another thread's connection sent it.
    sender: Option<u32>,
    intended: MonotonicTime,
    sent: MonotonicTime,
    /// Connections that still have to receive it; empty once it is done.
    due: Vec<u64>,
    left: u32,
    row: BroadcastRow,
    ack_due: bool,
    last: MonotonicTime,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryEffect {
    Counted,
    /// Counted, and the broadcast is done.
    Done,
    /// A duplicate.
    Surplus,
    /// The step of the broadcast is over.
    Late,
    /// Not due: the connection subscribed after the broadcast was sent.
    Early,
}

/// The broadcasts of a step.
#[derive(Debug, Default)]
pub(super) struct PendingBroadcasts {
    ready: Vec<u64>,
    ready_count: u32,
    pending: VecDeque<PendingBroadcast>,
    first: u64,
    next: u64,
    open: u32,
    rows: Vec<BroadcastRow>,
    pub times: BroadcastTimes,
    /// Deliveries that a lost connection can no longer receive.
    pub lost: u64,
}

/// The distributions of a step.
#[derive(Debug, Default, Clone)]
pub struct BroadcastTimes {
    pub complete: DurationHistogram,
    pub delivery: DurationHistogram,
    pub own: DurationHistogram,
    pub ack: DurationHistogram,
}

impl PendingBroadcasts {
    /// Registers a subscribed connection and returns the number of the first broadcast that it will receive.
    pub(super) fn join(&mut self, place: u32) -> u64 {
        let (word, bit) = bit_of(place);
        if self.ready.len() <= word {
            self.ready.resize(word + 1, 0);
        }
        if self.ready[word] & bit == 0 {
            self.ready[word] |= bit;
            self.ready_count += 1;
        }
        // Only later broadcasts are due: an earlier one may have passed before it subscribed.
        self.next
    }

    /// Removes a lost connection and returns the broadcasts that are done without it.
    pub(super) fn leave(&mut self, place: u32) -> Vec<u64> {
        let (word, bit) = bit_of(place);
        match self.ready.get_mut(word) {
            Some(ready) if *ready & bit != 0 => *ready &= !bit,
            _ => return Vec::new(),
        }
        self.ready_count -= 1;
        let mut done = Vec::new();
        for broadcast in self.pending.iter_mut().filter(|broadcast| !broadcast.done) {
            // A broadcast that waits for a lost connection would never be done.
            if broadcast.due.get(word).is_some_and(|due| due & bit != 0) {
                broadcast.due[word] &= !bit;
                broadcast.left -= 1;
                self.lost += 1;
            }
            // The same for the sender's result, which only the lost connection could have received.
            broadcast.ack_due &= broadcast.sender != Some(place);
            done.extend(broadcast.settle(&mut self.times).then_some(broadcast.number));
        }
        self.open -= done.len() as u32;
        done
    }

    /// Subscribed connections.
    pub(super) fn ready(&self) -> u32 {
        self.ready_count
    }

    /// The `nth` subscribed connection in order of their slots.
    pub(super) fn nth_ready(&self, mut nth: u32) -> Option<u32> {
        for (index, word) in self.ready.iter().enumerate() {
            let ones = word.count_ones();
            if nth < ones {
                let mut word = *word;
                for _ in 0..nth {
                    word &= word - 1;
                }
                return Some(index as u32 * 64 + word.trailing_zeros());
            }
            nth -= ones;
        }
        None
    }

    /// Broadcasts under way.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// The number of the next broadcast.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Registers the next broadcast, sent by a slot of this thread or by another thread, and returns whether it is done
    /// already because no connection here waits for it.
    pub(super) fn send(
        &mut self,
        sender: Option<u32>,
        intended: MonotonicTime,
        sent: MonotonicTime,
        ack_due: bool,
    ) -> bool {
        // A step may have more broadcasts than can be kept; done ones need only their row.
        // More than that where the first one was not done for a while.
        while self.pending.len() >= KEPT
            && self.pending.front().is_some_and(|broadcast| broadcast.done)
        {
            self.rows.extend(self.pending.pop_front().map(|broadcast| broadcast.row));
            self.first += 1;
        }
        let row = BroadcastRow {
            number: self.next,
            sender: sender.unwrap_or(u32::MAX),
            intended_us: intended.0 / 1_000,
            sent_us: sent.since(intended) / 1_000,
            expected: self.ready_count,
            ..BroadcastRow::default()
        };
        self.pending.push_back(PendingBroadcast {
            number: self.next,
            sender,
            intended,
            sent,
            // A copy, because connections that join later must not be expected to have it.
            due: self.ready.clone(),
            left: self.ready_count,
            row,
            ack_due,
            last: MonotonicTime(0),
            done: false,
        });
        self.next += 1;
        self.open += 1;
        matches!(self.settle(self.next - 1), DeliveryEffect::Done)
    }

    /// Registers a delivery to a connection that subscribed before broadcast `joined`.
    pub(super) fn deliver(
        &mut self,
        number: u64,
        place: u32,
        joined: u64,
        arrived: MonotonicTime,
    ) -> DeliveryEffect {
        if number < joined {
            return DeliveryEffect::Early;
        }
        // Only broadcasts of this step are kept, so any other number belongs to an earlier one.
        let Some(broadcast) = find(&mut self.pending, self.first, number) else {
            return DeliveryEffect::Late;
        };
        let (word, bit) = bit_of(place);
        // Counted by connection: a total could balance a duplicate against a missing delivery.
        if broadcast.due.get(word).is_none_or(|due| due & bit == 0) {
            broadcast.row.duplicate += 1;
            return DeliveryEffect::Surplus;
        }
        broadcast.due[word] &= !bit;
        broadcast.left -= 1;
        broadcast.row.received += 1;
        let after = arrived.since(broadcast.intended);
        self.times.delivery.record(after);
        // Threads and reads do not arrive in order, so the last one is the maximum.
        broadcast.last = broadcast.last.max(arrived);
        let first = broadcast.row.first_us.get_or_insert(u64::MAX);
        *first = (*first).min(after / 1_000);
        if broadcast.sender == Some(place) {
            broadcast.row.own_us = Some(after / 1_000);
            self.times.own.record(after);
        }
        self.settle(number)
    }

    /// Registers the sender's own result.
    pub(super) fn acknowledge(
        &mut self,
        number: u64,
        place: u32,
        arrived: MonotonicTime,
    ) -> DeliveryEffect {
        let Some(broadcast) = find(&mut self.pending, self.first, number) else {
            return DeliveryEffect::Late;
        };
        if broadcast.sender != Some(place) || broadcast.row.ack_us.is_some() {
            return DeliveryEffect::Surplus;
        }
        let after = arrived.since(broadcast.intended);
        broadcast.row.ack_us = Some(after / 1_000);
        broadcast.ack_due = false;
        self.times.ack.record(after);
        self.settle(number)
    }

    fn settle(&mut self, number: u64) -> DeliveryEffect {
        let Some(broadcast) = find(&mut self.pending, self.first, number) else {
            return DeliveryEffect::Late;
        };
        if broadcast.settle(&mut self.times) {
            self.open -= 1;
            return DeliveryEffect::Done;
        }
        DeliveryEffect::Counted
    }

    /// Gives up the broadcasts that were sent before `before` and returns their numbers.
    pub(super) fn give_up(&mut self, before: MonotonicTime) -> Vec<u64> {
        let late =
            self.pending.iter_mut().filter(|broadcast| !broadcast.done && broadcast.sent < before);
        let given_up = late.map(|broadcast| {
            broadcast.done = true;
            broadcast.number
        });
        let given_up: Vec<u64> = given_up.collect();
        self.open -= given_up.len() as u32;
        given_up
    }

    /// Ends the step and returns its rows and distributions.
    pub(super) fn finish(&mut self) -> (Vec<BroadcastRow>, BroadcastTimes) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(self.pending.drain(..).map(|broadcast| broadcast.row));
        self.first = self.next;
        self.open = 0;
        (rows, std::mem::take(&mut self.times))
    }
}

impl PendingBroadcast {
    /// Returns whether the broadcast has just become done.
    fn settle(&mut self, times: &mut BroadcastTimes) -> bool {
        if self.done {
            return false;
        }
        // Without this guard a late result of the sender would record the end a second time.
        if self.left == 0 && self.row.complete_us.is_none() && self.row.received > 0 {
            let after = self.last.since(self.intended);
            // After a lost connection fewer subscribers have received the broadcast than were expected.
            if self.row.received == self.row.expected {
                self.row.complete_us = Some(after / 1_000);
                times.complete.record(after);
            }
        }
        self.done = self.left == 0 && !self.ack_due;
        if self.done {
            // Ten thousand bits per broadcast: the largest part of a pending broadcast's memory.
            self.due = Vec::new();
        }
        self.done
    }
}

fn find(
    pending: &mut VecDeque<PendingBroadcast>,
    first: u64,
    number: u64,
) -> Option<&mut PendingBroadcast> {
    let broadcast = pending.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)?;
    debug_assert_eq!(broadcast.number, number);
    Some(broadcast)
}

fn bit_of(place: u32) -> (usize, u64) {
    (place as usize / 64, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(clients: u32, ack: bool) -> PendingBroadcasts {
        let mut pending = PendingBroadcasts::default();
        for place in 0..clients {
            pending.join(place);
        }
        pending.send(Some(1), MonotonicTime(1_000_000), MonotonicTime(2_000_000), ack);
        pending
    }

    fn at(millis: u64) -> MonotonicTime {
        MonotonicTime(millis * 1_000_000)
    }

    #[test]
    fn a_broadcast_is_done_when_all_have_it_and_its_sender_has_the_result() {
        let mut pending = pending(3, true);
        assert_eq!(pending.deliver(0, 0, 0, at(5)), DeliveryEffect::Counted);
        assert_eq!(pending.deliver(0, 1, 0, at(7)), DeliveryEffect::Counted);
        assert_eq!(pending.deliver(0, 2, 0, at(6)), DeliveryEffect::Counted);
        assert_eq!(pending.acknowledge(0, 1, at(8)), DeliveryEffect::Done);
        assert_eq!(pending.open(), 0);
        let (rows, times) = pending.finish();
        let row = rows[0];
        assert_eq!((row.sent_us, row.first_us, row.own_us), (1_000, Some(4_000), Some(6_000)));
        assert_eq!((row.ack_us, row.complete_us), (Some(7_000), Some(6_000)));
        assert_eq!((times.delivery.count(), times.complete.count()), (3, 1));
    }

    #[test]
    fn a_duplicate_never_hides_a_missing_delivery() {
        let mut pending = pending(3, false);
        pending.deliver(0, 0, 0, at(5));
        assert_eq!(pending.deliver(0, 0, 0, at(6)), DeliveryEffect::Surplus);
        pending.deliver(0, 1, 0, at(6));
        assert_eq!(pending.open(), 1);
        assert_eq!(pending.give_up(at(100)), [0]);
        let row = pending.finish().0[0];
        assert_eq!((row.expected, row.received, row.duplicate), (3, 2, 1));
        assert_eq!(row.complete_us, None);
    }

    #[test]
    fn no_broadcast_waits_for_a_lost_connection() {
        let mut pending = pending(3, true);
        pending.deliver(0, 0, 0, at(5));
        pending.deliver(0, 2, 0, at(5));
        assert_eq!(pending.leave(1), [0]);
        assert_eq!((pending.open(), pending.lost, pending.ready()), (0, 1, 2));
        assert_eq!(pending.finish().0[0].complete_us, None);
    }

    #[test]
    fn another_threads_broadcast_is_done_when_this_threads_connections_have_it() {
        let mut pending = PendingBroadcasts::default();
        assert!(pending.send(None, at(1), at(1), false), "no connection here waits for it");
        pending.join(0);
        assert!(!pending.send(None, at(1), at(1), false));
        assert_eq!(pending.acknowledge(1, 0, at(2)), DeliveryEffect::Surplus);
        assert_eq!(pending.deliver(1, 0, 1, at(3)), DeliveryEffect::Done);
        assert_eq!((pending.finish().1.own.count(), pending.open()), (0, 0));
    }

    #[test]
    fn a_connection_that_joined_later_is_not_expected_to_receive_a_broadcast() {
        let mut pending = pending(2, false);
        let joined = pending.join(2);
        assert_eq!((joined, pending.deliver(0, 2, joined, at(5))), (1, DeliveryEffect::Early));
        assert_eq!(pending.finish().0[0].duplicate, 0);
    }

    #[test]
    fn the_nth_subscribed_connection_is_found_across_gaps() {
        let mut pending = PendingBroadcasts::default();
        for place in [3, 64, 70, 200] {
            pending.join(place);
        }
        let found: Vec<_> = (0..5).map(|nth| pending.nth_ready(nth)).collect();
        assert_eq!(found, [Some(3), Some(64), Some(70), Some(200), None]);
    }

    #[test]
    fn a_long_step_keeps_a_bounded_number_of_broadcasts() {
        let mut pending = pending(1, false);
        for number in 0..10_000 {
            assert_eq!(pending.deliver(number, 0, 0, at(5)), DeliveryEffect::Done);
            pending.send(Some(0), at(5), at(5), false);
        }
        assert!(pending.pending.len() <= KEPT);
        assert_eq!(pending.finish().0.len(), 10_001);
    }
}
