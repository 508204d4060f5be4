//! What the threads of a cable load share: the broadcasts on their way, and how far every thread is.
//!
//! Every thread has connections of its own and sends its part of the broadcasts. A broadcast is announced before its
//! first byte is sent, so that whoever receives it can look it up, and it is over when every thread has settled it for its
//! own connections. That is a few short locks per broadcast and none per delivery.

use crate::load::budget::part;
use crate::load::clock::MonotonicTime;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A broadcast as its sender announces it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BroadcastAnnouncement {
    /// The sender's thread.
    pub(crate) thread: u32,
    /// The sender's place in that thread.
    pub(crate) place: u32,
    /// When it was meant to be sent.
    pub(crate) intended: MonotonicTime,
    /// When it was sent.
    pub(crate) sent: MonotonicTime,
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
    /// By thread, how many stretches of the run it has behind it.
    reached: Vec<u32>,
    abandoned: bool,
}

/// The common knowledge of all threads.
#[derive(Debug)]
pub(crate) struct Shards {
    common: Mutex<SharedState>,
    announced: AtomicU64,
    wakes: Vec<OwnedFd>,
}

/// One of the threads that share a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shard<'a> {
    /// What all of them share.
    pub(crate) shards: &'a Shards,
    /// Which one it is.
    pub(crate) index: u32,
}

impl Shard<'_> {
    /// This thread's part of a whole.
    pub(crate) fn part(&self, whole: u32) -> u32 {
        part(u64::from(whole), self.index, self.shards.threads()) as u32
    }

    /// The number that a place of this thread has among all.
    pub(crate) fn number(&self, place: u32) -> u32 {
        place * self.shards.threads() + self.index
    }
}

impl Shards {
    /// Nothing sent yet, by so many threads.
    ///
    /// # Errors
    /// Where the kernel has no descriptors.
    pub(crate) fn new(threads: u32) -> io::Result<Self> {
        let wake = || Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let none = vec![0; threads as usize];
        let common = SharedState {
            broadcasts: Vec::new(),
            open: 0,
            given_up: 0,
            over: none.clone(),
            reached: none,
            abandoned: false,
        };
        Ok(Self {
            common: Mutex::new(common),
            announced: AtomicU64::new(0),
            wakes: (0..threads).map(|_| wake()).collect::<io::Result<_>>()?,
        })
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> u32 {
        self.wakes.len() as u32
    }

    /// What becomes readable when another thread has news for this one.
    pub(crate) fn wake(&self, thread: u32) -> BorrowedFd<'_> {
        self.wakes[thread as usize].as_fd()
    }

    /// Announces a broadcast, before it is sent, and says its number.
    pub(crate) fn announce(&self, announced: BroadcastAnnouncement) -> u64 {
        let mut common = self.lock();
        let number = common.broadcasts.len() as u64;
        common.broadcasts.push(SharedBroadcast {
            announced,
            left: self.threads(),
            given_up: false,
        });
        common.open += 1;
        self.announced.store(number + 1, Ordering::Release);
        number
    }

    /// The broadcast of that number; `None` where it has not been announced.
    pub(crate) fn announced(&self, number: u64) -> Option<BroadcastAnnouncement> {
        if number >= self.announced.load(Ordering::Acquire) {
            return None;
        }
        self.lock().broadcasts.get(number as usize).map(|broadcast| broadcast.announced)
    }

    /// One of the threads no longer waits for a broadcast, because it has it or gave it up.
    pub(crate) fn settle(&self, by: u32, number: u64, given_up: bool) {
        let mut common = self.lock();
        let Some(broadcast) = common.broadcasts.get_mut(number as usize) else { return };
        broadcast.left -= 1;
        let first_to_give_up = given_up && !std::mem::replace(&mut broadcast.given_up, given_up);
        let (owner, over) = (broadcast.announced.thread, broadcast.left == 0);
        common.given_up += u64::from(first_to_give_up);
        if over {
            common.open -= 1;
            common.over[owner as usize] += 1;
            drop(common);
            self.rouse(by, owner);
        }
    }

    /// How many of a thread's own broadcasts are over.
    pub(crate) fn over(&self, thread: u32) -> u32 {
        self.lock().over[thread as usize]
    }

    /// Broadcasts that somebody gave up.
    pub(crate) fn given_up(&self) -> u64 {
        self.lock().given_up
    }

    /// A thread has another stretch of the run behind it; `stretch` counts from 1.
    pub(crate) fn reach(&self, thread: u32, stretch: u32) {
        self.lock().reached[thread as usize] = stretch;
        (0..self.threads()).for_each(|other| self.rouse(thread, other));
    }

    /// Whether every thread has that stretch behind it.
    pub(crate) fn have_reached(&self, stretch: u32) -> bool {
        self.lock().reached.iter().all(|reached| *reached >= stretch)
    }

    /// Broadcasts that are not over.
    pub(crate) fn open(&self) -> u32 {
        self.lock().open
    }

    /// Nobody is to wait for this thread any more.
    pub(crate) fn abandon(&self, thread: u32) {
        self.lock().abandoned = true;
        (0..self.threads()).for_each(|other| self.rouse(thread, other));
    }

    /// Whether some thread has ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn rouse(&self, by: u32, thread: u32) {
        if by != thread {
            // A counter that is full is readable all the same.
            let _ = rustix::io::write(self.wake(thread), &1_u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
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
        let shards = Shards::new(2).unwrap();
        assert_eq!((shards.announce(announced(0)), shards.announce(announced(1))), (0, 1));
        assert_eq!(shards.announced(1).map(|one| one.thread), Some(1));
        assert!(shards.announced(2).is_none());
        shards.settle(0, 1, false);
        assert_eq!(shards.over(1), 0);
        shards.settle(1, 1, true);
        assert_eq!((shards.over(0), shards.over(1), shards.given_up()), (0, 1, 1));
    }

    #[test]
    fn a_broadcast_that_two_threads_give_up_is_given_up_once() {
        let shards = Shards::new(2).unwrap();
        shards.announce(announced(0));
        shards.settle(0, 0, true);
        shards.settle(1, 0, true);
        assert_eq!(shards.given_up(), 1);
    }

    #[test]
    fn a_stretch_is_over_when_the_last_thread_is_there() {
        let shards = Shards::new(2).unwrap();
        shards.reach(0, 1);
        assert!(!shards.have_reached(1));
        shards.reach(1, 1);
        assert!(shards.have_reached(1) && !shards.have_reached(2));
        shards.abandon(0);
        assert!(shards.is_abandoned());
    }

    #[test]
    fn news_for_another_thread_makes_its_descriptor_readable() {
        let shards = Shards::new(2).unwrap();
        let readable = |thread| {
            let mut count = [0; 8];
            rustix::io::read(shards.wake(thread), &mut count).is_ok()
        };
        shards.announce(announced(1));
        shards.settle(1, 0, false);
        assert!(!readable(1), "nothing is over yet");
        shards.settle(0, 0, false);
        assert!(readable(1) && !readable(0));
    }
}
