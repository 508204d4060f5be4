//! What a follower knows from one round to the next.

use crate::follow::Senses;
use crate::follow::allowance::Allowance;
use crate::follow::due::DueSigns;
use crate::follow::finder::Finder;
use crate::follow::hour::HourOfSizes;
use crate::store::{Batch, SetBack};
use carat_model::Bytes;
use carat_model::watch::{GroupSample, WatchCensus, WatchEvent, WatchSample, WatchedProcess};
use carat_proc::process::{Identity, ProcRoot, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// What to follow, and how gently.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Only trees of which the name or a command line has one of these texts; all where there is none.
    pub matching: Vec<String>,
    /// Time from one round to the next.
    pub every: Duration,
    /// The share of one core that watching may take, as a fraction.
    pub share: f64,
    /// The name of the boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
}

/// Now, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since any fixed moment, which no one sets.
    pub since: Duration,
    /// Unix time in milliseconds: a label.
    pub wall_ms: u64,
}

/// What one round found.
#[derive(Debug, Clone, Default)]
pub struct Round {
    pub batch: Batch,
    /// What the user should know, a sentence each.
    pub says: Vec<String>,
    /// The clock was set back since the round before.
    pub(crate) set_back: Option<SetBack>,
    /// Ends that are to be said.
    pub(super) ends: Vec<String>,
    /// Time until the next one, and the least where a process ends before.
    pub next: Duration,
    pub soonest: Duration,
}

/// One process that is followed.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    pub(super) process: WatchedProcess,
    pub(super) identity: Identity,
    pub(super) folder: Option<PathBuf>,
    /// The count of kills in its group at the last sample.
    pub(super) kills: Option<u64>,
    pub(super) sample: Option<WatchSample>,
    pub(super) pss_at: Option<Duration>,
    /// The state at its last reading.
    pub(super) read: Option<DueSigns>,
    /// Rounds in which it was a zombie without a status.
    pub(super) dead_rounds: u32,
    /// The latest reading.
    pub(super) census: Option<WatchCensus>,
    /// The latest proportional and private memory.
    pub(super) proportional: Option<(Bytes, Bytes)>,
    pub(super) hour: HourOfSizes,
    pub(super) stat: Option<Stat>,
}

impl Followed {
    pub(super) fn new(
        process: WatchedProcess,
        identity: Identity,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            process,
            identity,
            folder,
            kills: None,
            sample: None,
            pss_at: None,
            read: None,
            dead_rounds: 0,
            census: None,
            proportional: None,
            hour: HourOfSizes::default(),
            stat: None,
        }
    }
}

/// Follows the Rubies of a host.
#[derive(Debug)]
pub struct Follower<S> {
    pub(super) root: ProcRoot,
    pub(super) options: FollowOptions,
    pub(super) senses: S,
    pub(super) followed: BTreeMap<Identity, Followed>,
    pub(super) finder: Finder,
    pub(super) next_number: i64,
    pub(super) machine_kills: Option<u64>,
    /// The latest figures of each group.
    pub(super) groups: BTreeMap<String, GroupSample>,
    /// Ends since the beginning, by server and cause.
    pub(super) ends: BTreeMap<(String, &'static str), u64>,
    pub(super) rounds: u64,
    pub(super) allowance: Allowance,
    /// Processor time that is charged to the allowance.
    pub(super) charged: Duration,
    pub(super) last: Option<Moment>,
    /// The first moment by the clock as it is set now, in Unix milliseconds.
    pub(super) epoch_ms: u64,
    /// What was said and still holds, so that it is said once.
    pub(super) said: BTreeSet<&'static str>,
}

impl<S: Senses> Follower<S> {
    /// A follower whose first new process gets this number.
    pub fn new(root: ProcRoot, options: FollowOptions, senses: S, next_number: i64) -> Self {
        Self {
            allowance: Allowance::new(options.share),
            charged: Duration::ZERO,
            root,
            options,
            senses,
            followed: BTreeMap::new(),
            finder: Finder::default(),
            next_number,
            machine_kills: None,
            groups: BTreeMap::new(),
            ends: BTreeMap::new(),
            rounds: 0,
            last: None,
            epoch_ms: 0,
            said: BTreeSet::new(),
        }
    }

    /// The senses, to wait with.
    pub fn senses(&self) -> &S {
        &self.senses
    }

    /// Processes that are followed, with the last sample of each.
    pub fn current(&self) -> impl Iterator<Item = (&WatchedProcess, Option<&WatchSample>)> {
        self.followed.values().map(|one| (&one.process, one.sample.as_ref()))
    }
}

/// Adds an event.
pub(super) fn event(round: &mut Round, now: Moment, process: Option<i64>, text: String) {
    round.batch.events.push(WatchEvent { at_ms: now.wall_ms, process, text });
}
