//! Opens, creates and writes a results file.

use crate::store::attempt::{BlockAttempt, read_attempts, write_attempt};
use crate::store::foreign::{StepBudget, check_bytes, check_rows, check_tables, restrain};
use crate::store::{Runner, StoreError, format, rows};
use carat_files::{create_new, without_links};
use carat_model::{ExperimentInfo, Results, Trial};
use carat_proc::process::Identity;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};

/// An open results file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    steps: StepBudget,
}

impl Store {
    /// Creates a file for an experiment; an existing file is left unchanged.
    pub fn create(path: &Path, info: &ExperimentInfo) -> Result<Self, StoreError> {
        // Also an empty file must not be overwritten; `create_new` decides without a race.
        match create_new(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let is_ours = format::is_results_file(path);
                let refused = if is_ours { StoreError::Exists } else { StoreError::NotResults };
                return Err(refused(path.to_owned()));
            }
            Err(error) => {
                return Err(StoreError::io(path, error));
            }
        }
        let created = Self::connect(path).and_then(|store| {
            store.initialise(info)?;
            Ok(store)
        });
        // The file is new and empty, so nothing of the user is removed.
        if created.is_err() {
            let _ = std::fs::remove_file(path);
        }
        created
    }

    /// Opens an existing file and checks it before anything is written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.is_file() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let store = Self::connect(path)?;
        // Checked before anything of it is used: it may come from anybody.
        store.check()?;
        Ok(store)
    }

    /// Opens a file to continue it; a file that a killed run left empty is initialised.
    pub fn resume(path: &Path, info: &ExperimentInfo) -> Result<Self, StoreError> {
        let store = Self::connect(path)?;
        if store.is_empty() {
            store.initialise(info)?;
        } else {
            store.check()?;
        }
        Ok(store)
    }

    /// Opens a file as it would be continued; `None` if a killed run left it empty. Nothing is written.
    pub(crate) fn begun(path: &Path) -> Result<Option<Self>, StoreError> {
        let store = Self::connect(path)?;
        if store.is_empty() {
            return Ok(None);
        }
        store.check()?;
        Ok(Some(store))
    }

    /// Whether it has no pages: opening rolled back a partial initialisation.
    fn is_empty(&self) -> bool {
        let pages = self.with(|connection| {
            connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
        });
        matches!(pages, Ok(0))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was fixed when the experiment began.
    pub fn info(&self) -> Result<ExperimentInfo, StoreError> {
        self.with(rows::read_info)
    }

    /// Adds finished trials in one transaction.
    pub fn add(&mut self, trials: &[Trial]) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.steps.refill();
        // All trials or none: a file never has a trial without its metrics and samples.
        let transaction = self.connection.transaction();
        transaction
            .and_then(|transaction| {
                trials.iter().try_for_each(|trial| rows::write_trial(&transaction, trial))?;
                transaction.commit()
            })
            .map_err(|source| StoreError::from_sqlite(&path, source))
    }

    /// Adds attempts at blocks in one transaction: the trials of those that `counts` selects, the others beside them.
    pub(crate) fn add_attempts<'a>(
        &mut self,
        attempts: impl Iterator<Item = (&'a BlockAttempt, bool)>,
    ) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.steps.refill();
        let transaction = self.connection.transaction();
        transaction
            .and_then(|transaction| {
                for (attempt, counts) in attempts {
                    let mut trials = attempt.trials.iter().filter(|_| counts);
                    trials.try_for_each(|trial| rows::write_trial(&transaction, trial))?;
                    write_attempt(&transaction, attempt, counts)?;
                }
                transaction.commit()
            })
            .map_err(|source| StoreError::from_sqlite(&path, source))
    }

    /// Every attempt at a block, in the order of blocks and attempts; none where one machine ran the experiment.
    pub fn attempts(&self) -> Result<Vec<BlockAttempt>, StoreError> {
        // Only a fleet's file has the table.
        if self.info()?.fleet.is_none() {
            return Ok(Vec::new());
        }
        let trials = self.trials()?;
        self.with(|connection| read_attempts(connection, &trials))
    }

    /// Every trial, in the order of blocks and positions.
    pub fn trials(&self) -> Result<Vec<Trial>, StoreError> {
        self.with(rows::read_trials)
    }

    /// The content of the file, without conclusions and warnings.
    pub fn results(&self) -> Result<Results, StoreError> {
        Ok(Results::unconcluded(self.info()?, self.trials()?))
    }

    /// The process that runs the experiment, or was killed while it did.
    pub fn runner(&self) -> Result<Option<Runner>, StoreError> {
        self.with(|connection| {
            connection
                .query_row("SELECT pid, start_ticks, token, directory FROM runner", [], |row| {
                    let identity =
                        Identity { pid: row.get(0)?, start_ticks: rows::unsigned(row, 1)? };
                    let directory: String = row.get(3)?;
                    Ok(Runner { identity, token: row.get(2)?, directory: directory.into() })
                })
                .optional()
        })
    }

    /// Allows another number of blocks than the experiment was begun with.
    pub fn allow_blocks(&mut self, blocks: u32) -> Result<(), StoreError> {
        self.with(|connection| {
            connection.execute("UPDATE experiment SET max_blocks = ?1", [blocks])
        })
        .map(|_| ())
    }

    /// Records the process that runs the experiment; `None` when it has ended.
    pub fn set_runner(&mut self, runner: Option<&Runner>) -> Result<(), StoreError> {
        self.with(|connection| {
            let Some(runner) = runner else { return connection.execute("DELETE FROM runner", []) };
            connection.execute(
                // Row 1 always, so that there is at most one runner.
                "INSERT OR REPLACE INTO runner VALUES (1, ?1, ?2, ?3, ?4)",
                params![
                    runner.identity.pid,
                    runner.identity.start_ticks as i64,
                    runner.token,
                    runner.directory.to_string_lossy(),
                ],
            )
        })
        .map(|_| ())
    }

    /// Opens the file at `path`. It may be reached by a link, but not be replaced by one in the meantime.
    fn connect(path: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::io(path, error);
        let real = match std::fs::symlink_metadata(path).map_err(failed)?.is_symlink() {
            // A link that the user named is followed here, and none is from here on.
            true => std::fs::canonicalize(path).map_err(failed)?,
            false => without_links(path).map_err(failed)?,
        };
        // The bytes first: opening a file lets SQLite read its header and its journal.
        check_bytes(&real, path)?;
        let size = std::fs::metadata(&real).map_err(failed)?.len();
        // One thread uses the connection, so SQLite needs no mutex.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        // SQLite opens a file without write permission for reading, which is enough for a report.
        let opened = Connection::open_with_flags(&real, flags).and_then(|mut connection| {
            let steps = restrain(&mut connection, size)?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok((connection, steps))
        });
        let (connection, steps) = opened.map_err(|source| StoreError::from_sqlite(path, source))?;
        Ok(Self { path: path.to_owned(), connection, steps })
    }

    fn initialise(&self, info: &ExperimentInfo) -> Result<(), StoreError> {
        self.with(|connection| {
            // The rollback journal keeps everything in one file, which users send to each other. With synchronous = FULL
            // every commit reaches the disk before the trial counts as finished.
            connection.execute_batch("PRAGMA synchronous = FULL; BEGIN;")?;
            format::create(connection, info)?;
            rows::write_info(connection, info)?;
            connection.execute_batch("COMMIT;")
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        // The origin first: another program's file is not damaged, it is another's.
        format::check_origin(&self.connection, &self.path)?;
        // Before the check of the rows, which runs what the tables define.
        check_tables(&self.connection, &self.path)?;
        format::check_current(&self.connection, &self.path)?;
        // The cheap form: it does not compare indexes with their tables (pragma quick_check).
        self.quick_check()?;
        check_rows(&self.connection, &self.path)
    }

    fn quick_check(&self) -> Result<(), StoreError> {
        let answer: String = self.with(|connection| {
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        })?;
        if answer == "ok" {
            return Ok(());
        }
        Err(StoreError::Damaged { path: self.path.clone(), what: answer })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // Each operation has its own budget, so that a long run does not use it up.
        self.steps.refill();
        work(&self.connection).map_err(|source| StoreError::from_sqlite(&self.path, source))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::format::{FORMAT, FORMAT_WITH_CONTROLS, FORMAT_WITHOUT_CONTROLS};
    use carat_model::{Bytes, Fleet, Outcome, Sample, Variant};
    use std::collections::BTreeMap;

    pub(crate) fn info() -> ExperimentInfo {
        ExperimentInfo {
            name: "compaction".into(),
            about: None,
            plan_hash: "abc".into(),
            plan_text: "name = \"compaction\"".into(),
            seed: u64::MAX,
            max_blocks: 60,
            primary: "memory.rss.final".into(),
            margin: 0.0025,
            guards: [("latency.p95".to_owned(), 0.05)].into(),
            fleet: None,
            variants: ["default", "compact"].map(variant).into(),
        }
    }

    pub(crate) fn variant(name: &str) -> Variant {
        Variant { name: name.into(), settings: BTreeMap::new(), controls: Vec::new() }
    }

    fn trial(block: u32, variant: &str) -> Trial {
        let sample = |at_ms, rss| Sample { at_ms, processes: 1, rss, ..Sample::default() };
        Trial {
            id: format!("{block}-{variant}"),
            block,
            position: 0,
            variant: variant.into(),
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 1_700_000_000_000,
            seconds: 12.5,
            machine: [("kernel".to_owned(), "6.18".to_owned())].into(),
            metrics: [("memory.rss.final".to_owned(), 70_595_031.0)].into(),
            samples: vec![sample(0, None), sample(500, Some(Bytes(7)))],
            load_window_ms: Some((100, 900)),
            load: None,
            notes: vec!["a note".into()],
            log_tail: "Listening".into(),
        }
    }

    fn created() -> (tempfile::TempDir, PathBuf, Store) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.carat");
        let store = Store::create(&path, &info()).unwrap();
        (folder, path, store)
    }

    #[test]
    fn what_is_written_is_read_back_unchanged() {
        let (_folder, path, mut store) = created();
        let trials = [trial(0, "default"), trial(1, "compact")];
        store.add(&trials).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.info().unwrap(), info());
        assert_eq!(store.trials().unwrap(), trials);
    }

    #[test]
    fn a_file_that_a_killed_run_left_empty_is_initialised_when_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.carat");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Store::open(&path), Err(StoreError::Foreign(_))));
        assert_eq!(Store::resume(&path, &info()).unwrap().info().unwrap(), info());
        assert_eq!(Store::open(&path).unwrap().info().unwrap(), info());
    }

    #[test]
    fn a_trial_is_added_completely_and_once() {
        let (_folder, _path, mut store) = created();
        store.add(&[trial(1, "default")]).unwrap();
        let mut twice = trial(1, "default");
        twice.id = "another id, same place".into();
        store.add(&[twice]).unwrap_err();
        let mut broken = trial(2, "default");
        broken.samples.push(broken.samples[0].clone());
        store.add(&[broken]).unwrap_err();
        assert_eq!(store.trials().unwrap(), [trial(1, "default")]);
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.carat");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Store::create(&path, &info()), Err(StoreError::NotResults(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let own = folder.path().join("own.carat");
        drop(Store::create(&own, &info()).unwrap());
        assert!(matches!(Store::create(&own, &info()), Err(StoreError::Exists(_))));
    }

    #[test]
    fn a_foreign_file_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.carat");
        std::fs::write(&text, "not a database, but longer than a header of one".repeat(9)).unwrap();
        let other = folder.path().join("other.carat");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
        for path in [text, other] {
            let before = std::fs::read(&path).unwrap();
            let error = Store::open(&path).unwrap_err();
            assert!(matches!(error, StoreError::Foreign(_)), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), before);
        }
        let missing = Store::open(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, StoreError::Missing(_)));
    }

    #[test]
    fn a_newer_format_is_refused_with_both_numbers() {
        let (_folder, path, store) = created();
        store.connection.pragma_update(None, "user_version", FORMAT + 1).unwrap();
        drop(store);
        let message = Store::open(&path).unwrap_err().to_string();
        assert!(message.contains("format 5") && message.contains("up to 4"), "{message}");
    }

    #[test]
    fn controls_and_fleets_are_stored_and_only_a_file_with_them_has_a_newer_format() {
        let (folder, plain, store) = created();
        assert_eq!(pragma(&store), FORMAT_WITHOUT_CONTROLS);
        drop(store);
        assert_eq!(Store::open(&plain).unwrap().info().unwrap(), info());
        let mut controlled = info();
        // The control is a later variant, and the order of a list is kept.
        controlled.variants.push(variant("gc"));
        controlled.variants.push(variant("a sham"));
        controlled.variants[1].controls = vec!["gc".into(), "a sham".into()];
        let path = folder.path().join("controlled.carat");
        let store = Store::create(&path, &controlled).unwrap();
        assert_eq!(pragma(&store), FORMAT_WITH_CONTROLS);
        drop(store);
        assert_eq!(Store::open(&path).unwrap().info().unwrap(), controlled);
        let fleet = Some(Fleet { binary: "b".into(), types: vec!["a".into(); 3] });
        let path = folder.path().join("part.carat");
        let part = ExperimentInfo { fleet, ..controlled };
        let store = Store::create(&path, &part).unwrap();
        assert_eq!(pragma(&store), FORMAT);
        drop(store);
        assert_eq!(Store::open(&path).unwrap().info().unwrap(), part);
    }

    fn pragma(store: &Store) -> i64 {
        store.connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_truncated_file_is_reported_as_damaged() {
        let (_folder, path, mut store) = created();
        (1..40).for_each(|block| store.add(&[trial(block, "default")]).unwrap());
        drop(store);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2 / 4096 * 4096]).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }

    #[test]
    fn the_runner_is_stored_until_it_is_removed() {
        let (_folder, _path, mut store) = created();
        let runner = Runner {
            identity: Identity { pid: 7, start_ticks: 9 },
            token: "t".into(),
            directory: "/tmp/x".into(),
        };
        store.set_runner(Some(&runner)).unwrap();
        assert_eq!(store.runner().unwrap(), Some(runner));
        store.set_runner(None).unwrap();
        assert_eq!(store.runner().unwrap(), None);
    }
}
