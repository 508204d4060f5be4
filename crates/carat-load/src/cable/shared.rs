//! What the threads of a cable load share: the broadcasts under way, and the barriers that each thread has reached.
//!
//! Every thread has its own connections and sends its part of the broadcasts. A broadcast is announced before its first
//! byte is sent, so that every receiver can look it up. It is over when every thread has settled it for its own
//! connections. That takes a few short locks per broadcast and none per delivery.

use crate::clock::MonotonicTime;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nanoseconds from a barrier until several threads send, so that each has woken up by then.
const LEAD: u64 = 5_000_000;

/// A broadcast as its sender announces it.
#[derive(Debug, Clone, Copy)]
pub struct BroadcastAnnouncement {
    /// The sender's thread.
    pub thread: u32,
    /// The sender's slot in that thread.
    pub place: u32,
    /// When it was meant to be sent.
    pub intended: MonotonicTime,
    /// When it was sent.
    pub sent: MonotonicTime,
}

/// What the sender of a broadcast waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// A delivery to anybody.
    Delivery,
    /// Its own result.
    Result,
}

#[derive(Debug)]
struct SharedBroadcast {
    announced: BroadcastAnnouncement,
    /// Threads that have not settled it.
    left: u32,
    given_up: bool,
}

#[derive(Debug)]
struct SharedState {
    broadcasts: Vec<SharedBroadcast>,
    open: u32,
    given_up: u64,
    /// By thread, how many of its own broadcasts are over.
    over: Vec<u32>,
    /// By thread, how many barriers it has reached.
    reached: Vec<u32>,
    /// When sends after the last barrier that all threads have reached begin.
    epoch: MonotonicTime,
    abandoned: bool,
}

/// The broadcasts of all threads.
#[derive(Debug)]
pub struct SharedBroadcasts {
    state: Mutex<SharedState>,
    announced: AtomicU64,
    /// What ever came, by [`Awaited`].
    came: [AtomicBool; 2],
    wakes: Vec<OwnedFd>,
}

impl SharedBroadcasts {
    /// No broadcasts yet, for so many threads.
    ///
    /// # Errors
    /// If the kernel has no descriptors.
    pub fn new(threads: u32) -> io::Result<Self> {
        let wake = || Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let none = vec![0; threads as usize];
        let state = SharedState {
            broadcasts: Vec::new(),
            open: 0,
            given_up: 0,
            over: none.clone(),
            reached: none,
            epoch: MonotonicTime::default(),
            abandoned: false,
        };
        Ok(Self {
            state: Mutex::new(state),
            announced: AtomicU64::new(0),
            came: Default::default(),
            wakes: (0..threads).map(|_| wake()).collect::<io::Result<_>>()?,
        })
    }

    /// How many threads there are.
    pub fn threads(&self) -> u32 {
        self.wakes.len() as u32
    }

    /// The descriptor that becomes readable when another thread has news for this one.
    pub fn wake(&self, thread: u32) -> BorrowedFd<'_> {
        self.wakes[thread as usize].as_fd()
    }

    /// Announces a broadcast before it is sent and returns its number.
    pub fn announce(&self, announced: BroadcastAnnouncement) -> u64 {
        let mut state = self.lock();
        let number = state.broadcasts.len() as u64;
        state.broadcasts.push(SharedBroadcast { announced, left: self.threads(), given_up: false });
        state.open += 1;
        // Release: who sees the number also finds the broadcast behind the lock.
        self.announced.store(number + 1, Ordering::Release);
        number
    }

    /// The broadcast of that number; `None` if it has not been announced.
    pub fn announced(&self, number: u64) -> Option<BroadcastAnnouncement> {
        // Without the lock, because it is asked at every delivery of an unknown number.
        if number >= self.announced.load(Ordering::Acquire) {
            return None;
        }
        self.lock().broadcasts.get(number as usize).map(|broadcast| broadcast.announced)
    }

    /// A thread no longer waits for a broadcast, because its connections have it or it was given up.
    pub fn settle(&self, by: u32, number: u64, given_up: bool) {
        let mut state = self.lock();
        let Some(broadcast) = state.broadcasts.get_mut(number as usize) else { return };
        broadcast.left -= 1;
        // Several threads may give it up; it counts once.
        let first_to_give_up = given_up && !std::mem::replace(&mut broadcast.given_up, given_up);
        let (owner, over) = (broadcast.announced.thread, broadcast.left == 0);
        state.given_up += u64::from(first_to_give_up);
        if over {
            state.open -= 1;
            state.over[owner as usize] += 1;
            // Unlocked before the wake-up, or the other thread would only wait for the lock.
            drop(state);
            self.wake_up(by, owner);
        }
    }

    /// How many of a thread's own broadcasts are over.
    pub fn over(&self, thread: u32) -> u32 {
        self.lock().over[thread as usize]
    }

    /// Broadcasts that at least one thread gave up.
    pub fn given_up(&self) -> u64 {
        self.lock().given_up
    }

    /// A delivery or a result came.
    pub(super) fn came(&self, awaited: Awaited) {
        let came = &self.came[awaited as usize];
        // Written once: all threads ask for it at each delivery.
        if !came.load(Ordering::Relaxed) {
            came.store(true, Ordering::Relaxed);
        }
    }

    /// Whether broadcasts were given up although nothing of what one waits for has come in the whole load: then no other will be
    /// better, and each would take as long.
    pub(super) fn are_in_vain(&self, awaits_result: bool) -> bool {
        let missed = |awaited| !self.came[awaited as usize].load(Ordering::Relaxed);
        (missed(Awaited::Delivery) || (awaits_result && missed(Awaited::Result)))
            && self.given_up() > 0
    }

    /// A thread has reached a barrier; barriers count from 1.
    pub fn reach(&self, thread: u32, barrier: u32) {
        let mut state = self.lock();
        state.reached[thread as usize] = barrier;
        // The last thread that arrives fixes the moment at which all begin.
        if state.reached.iter().all(|reached| *reached >= barrier) {
            let lead = if self.threads() > 1 { LEAD } else { 0 };
            state.epoch = MonotonicTime::now().after(lead);
        }
        drop(state);
        (0..self.threads()).for_each(|other| self.wake_up(thread, other));
    }

    /// Whether every thread has reached that barrier.
    pub fn have_reached(&self, barrier: u32) -> bool {
        self.lock().reached.iter().all(|reached| *reached >= barrier)
    }

    /// When the sends of all threads begin after the last barrier that all have reached.
    pub fn epoch(&self) -> MonotonicTime {
        self.lock().epoch
    }

    /// Broadcasts that are not over.
    pub fn open(&self) -> u32 {
        self.lock().open
    }

    /// No thread may wait for this one any more.
    pub fn abandon(&self, thread: u32) {
        self.lock().abandoned = true;
        (0..self.threads()).for_each(|other| self.wake_up(thread, other));
    }

    /// Whether a thread has ended.
    pub fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn wake_up(&self, by: u32, thread: u32) {
        if by != thread {
            // A full counter is readable too.
            let _ = rustix::io::write(self.wake(thread), &1_u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        // A panicked thread's counts are still right, and its load fails by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(thread: u32) -> BroadcastAnnouncement {
        BroadcastAnnouncement {
            thread,
            place: 7,
            intended: MonotonicTime(1),
            sent: MonotonicTime(2),
        }
    }

    #[test]
    fn a_broadcast_is_over_when_every_thread_has_settled_it() {
        let shared = SharedBroadcasts::new(2).unwrap();
        assert_eq!((shared.announce(announced(0)), shared.announce(announced(1))), (0, 1));
        assert_eq!(shared.announced(1).map(|one| one.thread), Some(1));
        assert!(shared.announced(2).is_none());
        shared.settle(0, 1, false);
        assert_eq!(shared.over(1), 0);
        shared.settle(1, 1, true);
        assert_eq!((shared.over(0), shared.over(1), shared.given_up()), (0, 1, 1));
    }

    #[test]
    fn a_broadcast_that_two_threads_give_up_is_given_up_once() {
        let shared = SharedBroadcasts::new(2).unwrap();
        shared.announce(announced(0));
        shared.settle(0, 0, true);
        shared.settle(1, 0, true);
        assert_eq!(shared.given_up(), 1);
    }

    #[test]
    fn a_load_is_in_vain_once_a_broadcast_was_given_up_and_nothing_ever_came() {
        let shared = SharedBroadcasts::new(1).unwrap();
        let in_vain = || [true, false].map(|awaits_result| shared.are_in_vain(awaits_result));
        shared.announce(announced(0));
        assert_eq!(in_vain(), [false; 2], "it may still come");
        shared.settle(0, 0, true);
        assert_eq!(in_vain(), [true; 2]);
        shared.came(Awaited::Delivery);
        assert_eq!(in_vain(), [true, false], "no result came");
        shared.came(Awaited::Result);
        assert_eq!(in_vain(), [false; 2]);
    }

    #[test]
    fn a_barrier_is_passed_when_the_last_thread_reaches_it() {
        let shared = SharedBroadcasts::new(2).unwrap();
        shared.reach(0, 1);
        assert!(!shared.have_reached(1));
        shared.reach(1, 1);
        assert!(shared.have_reached(1) && !shared.have_reached(2));
        shared.abandon(0);
        assert!(shared.is_abandoned());
    }

    #[test]
    fn news_for_another_thread_makes_its_descriptor_readable() {
        let shared = SharedBroadcasts::new(2).unwrap();
        let readable = |thread| {
            let mut count = [0; 8];
            rustix::io::read(shared.wake(thread), &mut count).is_ok()
        };
        shared.announce(announced(1));
        shared.settle(1, 0, false);
        assert!(!readable(1), "nothing is over yet");
        shared.settle(0, 0, false);
        assert!(readable(1) && !readable(0));
    }
}
