//! Copies the undamaged trials of a damaged or older results file, or of exported results, into a new results file.
//!
//! A file is read as a copy, because opening a file can change it: SQLite rolls back what a killed run had partly written. A trial
//! is copied if every part of it can be read and its id follows from its plan. Losses are reported, never filled in.

use crate::config::trial_id;
use crate::store::foreign::{check_bytes, check_tables, journal_path, restrain};
use crate::store::format::FORMAT_WITHOUT_CONTROLS;
use crate::store::{Store, StoreError, format, rows};
use carat_model::results::assign_file_facts;
use carat_model::{ExperimentInfo, Outcome, Trial};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs;
use std::path::Path;

/// The number of rows that are searched for trials, whatever the plan says, and the limit where the plan has more:
/// a damaged file could claim any number.
const LEAST_ROWS: i64 = 10_000;
const MOST_ROWS: i64 = 100_000;

/// The first format in which each trial has its own machine facts.
const FORMAT_WITH_TRIAL_FACTS: i64 = 2;

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Trials in the new file.
    pub copied: usize,
    /// What could not be copied, each with the reason.
    pub lost: Vec<String>,
    /// Whether a run can continue the new file; not where an older carat hashed the plan in another form.
    pub resumable: bool,
}

/// Copies the undamaged part of `old` into the new file `new`; `old` is only read.
///
/// # Errors
/// Where `old` is not a results file, its plan cannot be read, or `new` exists or cannot be written. No new file is left then.
pub fn salvage(old: &Path, new: &Path) -> Result<Salvaged, StoreError> {
    if !old.is_file() {
        return Err(StoreError::Missing(old.to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| StoreError::io(new, error))?;
    let (source, format) = open_copy(old, folder.path())?;
    let info = rows::read_info(&source)
        .map_err(|error| StoreError::PlanLost { path: old.to_owned(), what: error.to_string() })?;
    let (mut undamaged, mut lost) = read_trials(&source, &info);
    // Older formats had one set of facts for the whole file.
    if format < FORMAT_WITH_TRIAL_FACTS {
        match rows::read_map(&source, "machine") {
            Ok(facts) => assign_file_facts(&mut undamaged, &info.variants, &facts),
            Err(error) => lost.push(format!("facts of the machine: {error}")),
        }
    }
    write(new, &info, &undamaged)?;
    Ok(Salvaged { copied: undamaged.len(), lost, resumable: format >= FORMAT_WITHOUT_CONTROLS })
}

/// Writes the trials that follow from the plan of `info` into the new file `new`.
///
/// # Errors
/// Where `new` exists or cannot be written. No new file is left then.
pub fn salvage_trials(
    info: &ExperimentInfo,
    trials: Vec<Trial>,
    new: &Path,
) -> Result<Salvaged, StoreError> {
    let (mut undamaged, mut lost) = (Vec::new(), Vec::new());
    for trial in trials {
        match defect(&trial, info, &undamaged) {
            None => undamaged.push(trial),
            Some(defect) => lost.push(format!("{}: {defect}", name(&trial))),
        }
    }
    write(new, info, &undamaged)?;
    Ok(Salvaged { copied: undamaged.len(), lost, resumable: true })
}

fn write(new: &Path, info: &ExperimentInfo, trials: &[Trial]) -> Result<(), StoreError> {
    let mut store = Store::create(new, info).map_err(|error| match error {
        // What they say is for `carat compare`, which may begin where a file exists.
        StoreError::Exists(path) | StoreError::NotResults(path) => StoreError::Taken(path),
        error => error,
    })?;
    let written = store.add(trials);
    // Closed first, so that SQLite does not write to a file that is removed.
    if written.is_err() {
        drop(store);
        let _ = fs::remove_file(new);
    }
    written
}

/// Opens a copy of the file and its journal in `folder`; also returns the format.
fn open_copy(old: &Path, folder: &Path) -> Result<(Connection, i64), StoreError> {
    let copy = folder.join("copy");
    // Before the copy, whose journal belongs to us whoever wrote it.
    check_bytes(old, old)?;
    fs::copy(old, &copy).map_err(|error| StoreError::io(old, error))?;
    // Without a journal the last transaction was complete.
    let _ = fs::copy(journal_path(old), journal_path(&copy));
    check_bytes(&copy, old)?;
    let size = fs::metadata(&copy).map_err(|error| StoreError::io(old, error))?.len();
    let failed = |error| StoreError::from_sqlite(old, error);
    let mut source = Connection::open(copy).map_err(failed)?;
    restrain(&mut source, size).map_err(failed)?;
    // With writable_schema SQLite continues reading where the file is shorter than its header says.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).map_err(failed)?;
    source.execute_batch("PRAGMA writable_schema = ON;").map_err(failed)?;
    let format = format::check_origin(&source, old)?;
    check_tables(&source, old)?;
    // Columns that older files lack. The statement fails where the column exists, as it should.
    for column in ["notes TEXT NOT NULL DEFAULT '[]'", "machine TEXT NOT NULL DEFAULT '{}'"] {
        let _ = source.execute_batch(&format!("ALTER TABLE trial ADD COLUMN {column};"));
    }
    Ok((source, format))
}

/// The undamaged trials, and what is wrong with the others.
fn read_trials(source: &Connection, info: &ExperimentInfo) -> (Vec<Trial>, Vec<String>) {
    // One block more than planned: block 0 is the warm-up.
    let planned = (i64::from(info.max_blocks) + 1) * info.variants.len() as i64;
    // The largest number may be on a damaged page; the plan then says how far to look.
    let last = source.query_row("SELECT max(rowid) FROM trial", [], |row| row.get(0));
    let last: Option<i64> = last.unwrap_or(Some(planned));
    let (mut undamaged, mut lost) = (Vec::new(), Vec::new());
    // One lock for all queries instead of one for each.
    let _ = source.execute_batch("BEGIN");
    // Row by row: a damaged page ends a scan of the table, but not a lookup of another row.
    for number in 1..=last.unwrap_or(0).min(planned.clamp(LEAST_ROWS, MOST_ROWS)) {
        match rows::read_one_trial(source, number) {
            Ok(None) => {}
            Ok(Some(trial)) => match defect(&trial, info, &undamaged) {
                None => undamaged.push(trial),
                Some(defect) => lost.push(format!("{}: {defect}", name(&trial))),
            },
            Err(error) => lost.push(format!("trial number {number}: {error}")),
        }
    }
    (undamaged, lost)
}

/// Why a trial that can be read must not be copied.
fn defect(trial: &Trial, info: &ExperimentInfo, copied: &[Trial]) -> Option<&'static str> {
    // A damaged tree of pages, or an edited export, can have one trial twice.
    if copied.iter().any(|other| other.id == trial.id) {
        return Some("it exists twice");
    }
    // A valid trial has metrics, so an empty list is a loss and no result.
    let lost = trial.outcome == Outcome::Ok && trial.metrics.is_empty();
    misfit(trial, info).or(lost.then_some("its metrics are lost"))
}

/// Why a trial cannot be of the experiment.
pub(crate) fn misfit(trial: &Trial, info: &ExperimentInfo) -> Option<&'static str> {
    if !info.variants.iter().any(|variant| variant.name == trial.variant) {
        return Some("the plan has no such variant");
    }
    // The id is a hash of plan, seed, block and variant: a trial cannot be moved unnoticed.
    let id = trial_id(&info.plan_hash, info.seed, trial.block, &trial.variant);
    (trial.id != id).then_some("its id does not follow from the plan")
}

fn name(trial: &Trial) -> String {
    format!("block {}, variant `{}`", trial.block, trial.variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::tests as sound;
    use carat_model::Sample;
    use std::path::PathBuf;

    const PAGE: usize = 4096;

    fn info() -> ExperimentInfo {
        let variants = ["a", "b"].map(sound::variant).into();
        ExperimentInfo { seed: 7, max_blocks: 30, variants, ..sound::info() }
    }

    fn trial(block: u32, variant: &str) -> Trial {
        Trial {
            id: trial_id("abc", 7, block, variant),
            started_ms: 1,
            seconds: 1.0,
            machine: [("kernel".to_owned(), "6.18".to_owned())].into(),
            metrics: [("memory.rss.final".to_owned(), f64::from(block))].into(),
            samples: (0..20).map(|at_ms| Sample { at_ms, ..Sample::default() }).collect(),
            log_tail: "Listening ".repeat(20),
            ..Trial::bare(block, variant)
        }
    }

    /// A file of 60 trials, and these trials.
    fn create_file(folder: &Path) -> (PathBuf, Vec<Trial>) {
        let path = folder.join("old.carat");
        let mut store = Store::create(&path, &info()).unwrap();
        let trials: Vec<Trial> =
            (0..30).flat_map(|block| ["a", "b"].map(|variant| trial(block, variant))).collect();
        store.add(&trials).unwrap();
        (path, trials)
    }

    #[test]
    fn an_undamaged_file_is_copied_without_loss() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = create_file(folder.path());
        let new = folder.path().join("new.carat");
        let salvaged = salvage(&old, &new).unwrap();
        assert_eq!(salvaged, Salvaged { copied: 60, lost: Vec::new(), resumable: true });
        assert_eq!(Store::open(&new).unwrap().trials().unwrap(), trials);
        assert!(matches!(salvage(&old, &new), Err(StoreError::Taken(_))));
    }

    /// Salvages `damaged`, which must yield a subset of `trials`; returns its size, or `None` where the plan is lost.
    fn salvage_damaged(folder: &Path, damaged: &[u8], trials: &[Trial]) -> Option<usize> {
        let (old, new) = (folder.join("damaged.carat"), folder.join("new.carat"));
        fs::write(&old, damaged).unwrap();
        let salvaged = salvage(&old, &new);
        assert_eq!(fs::read(&old).unwrap(), damaged, "the old file was changed");
        let Ok(salvaged) = salvaged else {
            assert!(!new.exists(), "{salvaged:?}");
            return None;
        };
        let copied = Store::open(&new).unwrap().trials().unwrap();
        fs::remove_file(new).unwrap();
        assert_eq!(copied.len(), salvaged.copied);
        assert!(copied.iter().all(|trial| trials.contains(trial)), "a trial was changed");
        assert!(
            copied.len() == trials.len() || !salvaged.lost.is_empty(),
            "a loss was not reported"
        );
        Some(copied.len())
    }

    #[test]
    fn whichever_page_is_damaged_copied_trials_are_unchanged_and_losses_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = create_file(folder.path());
        let bytes = fs::read(&old).unwrap();
        let pages = bytes.len() / PAGE;
        let mut copied = Vec::new();
        for page in 0..pages {
            let (begin, end) = (page * PAGE, (page + 1) * PAGE);
            let mut overwritten = bytes.clone();
            overwritten[begin..end].fill(0xa5);
            for damaged in [&overwritten, &bytes[..begin]] {
                copied.push(salvage_damaged(folder.path(), damaged, &trials));
            }
        }
        // The file's header and the plan's tables are one page each; nearly all other pages hold trials.
        let some = copied.iter().flatten().filter(|&&copied| copied > 0).count();
        assert!(some > pages / 2, "{some} of {pages}: {copied:?}");
    }

    #[test]
    fn a_file_from_before_notes_is_refused_with_the_way_out_and_can_be_salvaged() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = create_file(folder.path());
        let connection = Connection::open(&old).unwrap();
        connection
            .execute_batch(
                "ALTER TABLE trial DROP COLUMN notes; ALTER TABLE trial DROP COLUMN machine; \
                 CREATE TABLE machine (name TEXT PRIMARY KEY, value TEXT NOT NULL); \
                 INSERT INTO machine VALUES ('kernel', '6.18'); PRAGMA user_version = 1;",
            )
            .unwrap();
        drop(connection);
        let message = Store::open(&old).unwrap_err().to_string();
        assert!(
            message.contains("older carat") && message.contains("its format is 1"),
            "{message}"
        );
        assert!(message.contains("carat salvage"), "{message}");
        let new = folder.path().join("new.carat");
        assert_eq!(salvage(&old, &new).unwrap().copied, 60);
        assert_eq!(Store::open(&new).unwrap().trials().unwrap(), trials);
    }

    #[test]
    fn a_file_of_the_first_format_is_salvaged_with_its_facts_in_every_trial() {
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/store/format-1.sqlite");
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new.carat");
        let salvaged = salvage(&old, &new).unwrap();
        assert_eq!(salvaged, Salvaged { copied: 12, lost: Vec::new(), resumable: false });
        let store = Store::open(&new).unwrap();
        let hash = "4aaaca6a39ce1fe9d9c72cebc9f9522df709f00a31df10951ad26029e441ce6d";
        assert_eq!(store.info().unwrap().plan_hash, hash);
        for trial in store.trials().unwrap() {
            assert_eq!(trial.machine["kernel"], "6.1.0");
            // The variant `other` has another root, whose Ruby the old format does not name.
            assert_eq!(trial.machine.contains_key("ruby"), trial.variant == "default");
        }
    }

    #[test]
    fn a_salvaged_file_keeps_the_controls_of_its_variants() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.carat"), folder.path().join("new.carat"));
        let mut controlled = info();
        controlled.variants[1].controls = vec!["a".into()];
        drop(Store::create(&old, &controlled).unwrap());
        assert!(salvage(&old, &new).unwrap().resumable);
        assert_eq!(Store::open(&new).unwrap().info().unwrap(), controlled);
    }

    #[test]
    fn a_file_that_is_not_a_results_file_is_not_salvaged() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.carat");
        fs::write(&text, "precious ".repeat(1000)).unwrap();
        let new = folder.path().join("new.carat");
        assert!(matches!(salvage(&text, &new), Err(StoreError::Foreign(_))));
        let none = folder.path().join("none.carat");
        assert!(matches!(salvage(&none, &new), Err(StoreError::Missing(_))));
        assert!(!new.exists() && !none.exists());
    }
}
