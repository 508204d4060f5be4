//! Rounds into the store: what cannot be written is kept until it can, and the store stays within its bounds.

use crate::census::census;
use crate::ending::ExitStatus;
use crate::follow::{CensusOrder, FollowOptions, Follower, Moment, Round, Senses};
use crate::kernel::EndReader;
use crate::metrics::metrics_text;
use crate::store::{Batch, StoreBounds, WatchStore, WatchStoreError};
use carat_model::watch::{WatchCensus, WatchEvent};
use carat_proc::process::{Identity, ProcRoot};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// Time between two looks at the bounds of the store.
const THIN_EVERY: Duration = Duration::from_secs(600);
/// Samples that are kept in memory while they cannot be written: some megabytes.
const PENDING: usize = 20_000;

/// How to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    pub follow: FollowOptions,
    pub bounds: StoreBounds,
    /// Find out how much of malloc the objects of each class hold, which takes more time and memory.
    pub owners: bool,
}

/// The kernel of this machine.
#[derive(Debug)]
pub struct Kernel {
    root: ProcRoot,
    ends: EndReader,
    owners: bool,
}

impl Kernel {
    /// Waits until a process ends, at most so long.
    pub fn wait(&self, time: Duration) {
        self.ends.wait(time);
    }
}

impl Senses for Kernel {
    fn cpu(&self) -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
    }

    fn census(&mut self, process: Identity, order: &CensusOrder<'_>) -> WatchCensus {
        let found = census(&self.root, process, self.owners, order);
        give_back();
        found
    }

    fn attend(&mut self, process: Identity) {
        self.ends.attend(&self.root, process);
    }

    fn status(&mut self, process: Identity) -> Option<ExitStatus> {
        self.ends.status(process)
    }

    fn in_log(&mut self, process: Identity) -> Option<bool> {
        self.ends.in_log(process)
    }
}

/// Returns to the kernel what a reading took and freed, which malloc would keep for the next one in an hour.
fn give_back() {
    // SAFETY: it has no preconditions (malloc_trim(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A watch with its store.
#[derive(Debug)]
pub struct Recorder<S> {
    follower: Follower<S>,
    store: WatchStore,
    bounds: StoreBounds,
    pending: Batch,
    thin_at: Duration,
    began: Moment,
    is_blocked: bool,
}

impl Recorder<Kernel> {
    /// Begins to watch, or goes on with what an earlier watch began. The sentences are for the user.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn begin(
        root: &ProcRoot,
        path: &Path,
        options: WatchOptions,
        now: Moment,
    ) -> Result<(Self, Vec<String>), WatchStoreError> {
        // Once for the whole watch: a handle from before the end is the only way to a status afterwards.
        let ends = EndReader::new(root);
        let senses = Kernel { root: root.clone(), ends, owners: options.owners };
        Self::with(root, path, options, senses, now)
    }
}

impl<S: Senses> Recorder<S> {
    fn with(
        root: &ProcRoot,
        path: &Path,
        options: WatchOptions,
        senses: S,
        now: Moment,
    ) -> Result<(Self, Vec<String>), WatchStoreError> {
        let store = WatchStore::open(path, now.wall_ms)?;
        let boot = options.follow.boot.clone();
        let mut follower =
            Follower::new(root.clone(), options.follow, senses, store.next_number()?);
        let (unfinished, alive) = (store.unfinished(boot.as_deref())?, store.alive_ms()?);
        // Before the first round, so that a process that is still there keeps its number and its history.
        let resumed = follower.resume(unfinished, alive, now);
        let mut says = Vec::new();
        if let Some(moved) = store.moved() {
            says.push(format!(
                "{} was damaged and is now {}; another store was begun",
                path.display(),
                moved.display()
            ));
        }
        let mut recorder = Self {
            follower,
            store,
            bounds: options.bounds,
            pending: resumed.batch,
            thin_at: Duration::ZERO,
            began: now,
            is_blocked: false,
        };
        // At once: whoever reads the store meanwhile must not see ended processes as running.
        recorder.write(now, &mut says);
        Ok((recorder, says))
    }

    pub fn follower(&self) -> &Follower<S> {
        &self.follower
    }

    pub fn store(&self) -> &WatchStore {
        &self.store
    }

    /// The last round as OpenMetrics, with so many classes of each process.
    pub fn metrics(&self, classes: usize) -> String {
        let mut state = self.follower.metrics(classes);
        // Without the size rather than with a wrong one.
        state.store_bytes = self.store.size().ok();
        metrics_text(&state)
    }

    /// Looks once and writes what was found; what is left in the result is what the user should know, and the time until the next
    /// round.
    pub fn round(&mut self, now: Moment) -> Round {
        let mut round = self.follower.round(now);
        if let Some(back) = round.set_back {
            self.pending.set_back(back);
            if let Err(error) = self.store.set_back(back) {
                round.says.push(format!("times before could not be moved: {error}"));
            }
        }
        self.pending.append(std::mem::take(&mut round.batch));
        self.write(now, &mut round.says);
        round
    }

    /// Writes an event at once; returns what the user should know.
    pub fn log(&mut self, now: Moment, process: Option<i64>, text: String) -> Vec<String> {
        let mut says =
            vec![match self.follower.current().find(|(one, _)| Some(one.number) == process) {
                Some((one, _)) => format!("process {}: {text}", one.pid),
                None => text.clone(),
            }];
        self.pending.events.push(WatchEvent { at_ms: now.wall_ms, process, text });
        self.write(now, &mut says);
        says
    }

    /// Writes what is still in memory.
    pub fn finish(&mut self, now: Moment) -> Vec<String> {
        let mut says = Vec::new();
        // Due now: until the next watch nobody thins, and the file may be full.
        self.thin_at = Duration::ZERO;
        self.write(now, &mut says);
        if self.is_blocked {
            says.push("the last samples could not be written and are lost".into());
        }
        says
    }

    fn write(&mut self, now: Moment, says: &mut Vec<String>) {
        let mut written = self.store.write(&self.pending);
        if let Err(error) = &written
            && error.is_lost()
        {
            let why = error.to_string();
            written = self.renew(&why, now, says).and_then(|()| self.store.write(&self.pending));
        }
        match written {
            Ok(()) => {
                if std::mem::take(&mut self.is_blocked) {
                    says.push(
                        "the store can be written again; nothing that was kept is lost".into(),
                    );
                }
                // The moment and the boot stay, because an event may be written before the next round.
                let (at_ms, boot) = (self.pending.at_ms, self.pending.boot.take());
                self.pending = Batch { at_ms, boot, ..Batch::default() };
                self.thin(now, says);
            }
            Err(error) => {
                // The disk may be full, and the pages that the store itself has free are the only ones it can give.
                self.store.make_room();
                let dropped = self.pending.shorten(PENDING);
                // Only when it begins: a full disk would fill the log with one line a round.
                if !std::mem::replace(&mut self.is_blocked, true) {
                    says.push(format!("{error}; samples are kept in memory meanwhile"));
                }
                if dropped > 0 {
                    says.push(format!(
                        "{dropped} of the oldest samples that could not be written are lost"
                    ));
                }
            }
        }
    }

    fn thin(&mut self, now: Moment, says: &mut Vec<String>) {
        if now.since < self.thin_at {
            return;
        }
        self.thin_at = now.since + THIN_EVERY;
        for removed in self.store.forget_damaged(self.bounds) {
            says.push(format!(
                "{} was removed, because the store and what was damaged take more than --max",
                removed.display()
            ));
        }
        // A clock that is set forward, perhaps by mistake, makes nothing old.
        let passed = u64::try_from(now.since.saturating_sub(self.began.since).as_millis());
        let elapsed_ms = self.began.wall_ms.saturating_add(passed.unwrap_or(u64::MAX));
        let now_ms = now.wall_ms.min(elapsed_ms);
        let Err(error) = self.store.thin(self.bounds, now_ms) else { return };
        let renewed = match error.is_lost() {
            // The next round writes everybody who is followed into it.
            true => self.renew(&error.to_string(), now, says),
            false => Err(error),
        };
        if let Err(error) = renewed {
            says.push(error.to_string());
        }
    }

    /// Begins another store in the place of one that is lost.
    fn renew(
        &mut self,
        why: &str,
        now: Moment,
        says: &mut Vec<String>,
    ) -> Result<(), WatchStoreError> {
        self.store.begin_anew(now.wall_ms)?;
        let text = match self.store.moved() {
            Some(moved) => {
                format!("{why}; it is now {}, and another store was begun", moved.display())
            }
            None => format!("{why}; another store was begun"),
        };
        says.push(text.clone());
        self.pending.events.push(WatchEvent { at_ms: now.wall_ms, process: None, text });
        // Everybody who is followed belongs into the new store too.
        let known = self.follower.current().map(|(process, _)| process.clone());
        self.pending.processes.extend(known.collect::<Vec<_>>());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::tests::{Machine, Made, RUBY, at, options};
    use crate::store::Period;
    use carat_model::watch::WatchSample;

    fn recorder(machine: &Machine, path: &Path) -> Recorder<Made> {
        let root = ProcRoot::new(machine.path().join("proc"));
        let bounds = StoreBounds::default();
        let options = WatchOptions { follow: options(&[]), bounds, owners: false };
        Recorder::with(&root, path, options, Made::default(), at(0)).unwrap().0
    }

    fn stored(path: &Path) -> (usize, usize) {
        let store = WatchStore::open_to_read(path).unwrap();
        let processes = store.processes(Period::ALWAYS).unwrap();
        let samples = store.samples(1, Period::ALWAYS).unwrap();
        (processes.len(), samples.len())
    }

    #[test]
    fn a_store_that_is_removed_is_begun_anew_with_everybody_who_is_followed_and_that_is_said_once()
    {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", RUBY);
        let path = machine.path().join("store/watch.db");
        let mut recorder = recorder(&machine, &path);
        recorder.round(at(10));
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let says = recorder.round(at(20)).says;
        assert_eq!(says.len(), 1, "{says:?}");
        assert!(says[0].contains("was removed or moved") && says[0].contains("another store"));
        assert!(recorder.round(at(30)).says.is_empty());
        assert_eq!(stored(&path), (1, 2));
    }

    #[test]
    fn samples_are_kept_while_another_file_is_in_the_place_of_the_store() {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", RUBY);
        let path = machine.path().join("watch.db");
        let mut recorder = recorder(&machine, &path);
        recorder.round(at(10));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "something else").unwrap();
        let says = recorder.round(at(20)).says;
        assert!(says[0].contains("another file is there now"), "{says:?}");
        assert!(recorder.round(at(30)).says.is_empty(), "said once");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else");
        std::fs::remove_file(&path).unwrap();
        let says = recorder.round(at(40)).says;
        assert!(says.iter().any(|line| line.contains("nothing that was kept is lost")), "{says:?}");
        assert_eq!(stored(&path), (1, 3));
    }

    /// A moment by a clock that is off by so many seconds.
    fn off(seconds: u64, by: i64) -> Moment {
        let moment = at(seconds);
        Moment { wall_ms: moment.wall_ms.saturating_add_signed(by * 1000), ..moment }
    }

    #[test]
    fn what_was_written_before_the_clock_was_set_back_stays_before_what_follows() {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", RUBY);
        let path = machine.path().join("watch.db");
        let mut recorder = recorder(&machine, &path);
        for second in (0..=600).step_by(10) {
            machine.grow(10, 100_000 + second);
            recorder.round(off(second, 500));
        }
        for second in (610..=700).step_by(10) {
            machine.grow(10, 100_000 + second);
            recorder.round(at(second));
        }
        machine.end(10);
        recorder.round(at(710));
        let store = WatchStore::open_to_read(&path).unwrap();
        let words = store.last_words(1).unwrap().remove(0);
        let times: Vec<u64> = words.samples.iter().map(|one| one.at_ms).collect();
        let expected: Vec<u64> = (0..=700).step_by(10).map(|second| at(second).wall_ms).collect();
        assert_eq!(times, expected);
        assert!(words.samples.is_sorted_by_key(|one| one.rss));
        let first = store.censuses(1).unwrap().remove(0);
        assert_eq!((words.process.first_ms, first.at_ms), (at(0).wall_ms, at(0).wall_ms));
        assert_eq!(words.process.end.unwrap().at_ms, at(710).wall_ms);
    }

    #[test]
    fn a_clock_that_is_set_forward_by_mistake_and_back_again_forgets_and_moves_nothing() {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", RUBY);
        let path = machine.path().join("watch.db");
        let mut recorder = recorder(&machine, &path);
        let year = 365 * 24 * 3600;
        for second in (0..2_000).step_by(10) {
            let wrong = (700..1_400).contains(&second);
            recorder.round(off(second, if wrong { year } else { 0 }));
        }
        let samples = WatchStore::open_to_read(&path).unwrap().samples(1, Period::ALWAYS).unwrap();
        let times: Vec<u64> = samples.iter().map(|one| one.at_ms).collect();
        let expected: Vec<u64> = (0..2_000).step_by(10).map(|second| at(second).wall_ms).collect();
        assert_eq!(times, expected);
    }

    #[test]
    fn a_store_that_is_damaged_where_only_thinning_looks_is_begun_anew() {
        let machine = Machine::new();
        machine.process(10, "ruby job.rb", RUBY);
        let path = machine.path().join("watch.db");
        let mut recorder = recorder(&machine, &path);
        // More than SQLite keeps in its cache.
        let sample = |n: u64| (1, WatchSample { at_ms: n, ..WatchSample::default() });
        recorder.pending.samples.extend((1..60_000).map(sample));
        recorder.round(at(10));
        recorder.store.make_room();
        let length = std::fs::metadata(&path).unwrap().len() as usize;
        std::fs::write(&path, vec![0x5a; length]).unwrap();
        let mut says = Vec::new();
        for second in [700, 710, 1_400] {
            says.extend(recorder.round(at(second)).says);
        }
        assert_eq!(says.len(), 1, "{says:?}");
        assert!(says[0].contains("watch.db.damaged-") && says[0].contains("another store"));
        assert_eq!(stored(&path).0, 1);
    }
}
