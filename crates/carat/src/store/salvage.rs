//! Copying what is whole of a damaged or older results file into a new one.
//!
//! Works on a copy, because even opening a file may change it: SQLite undoes what a killed run had half
//! written. A trial is copied when every part of it can be read and its identity is the one that follows
//! from its plan; what is lost is said, never filled in.

use crate::config::trial_id;
use crate::core::{ExperimentInfo, Outcome, Trial};
use crate::store::{Store, StoreError, format, rows};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};

/// Trials that are looked for one by one, planned or not, and the most where the plan has more: a damaged file could
/// claim any number.
const ANYWAY: i64 = 10_000;
const MOST: i64 = 100_000;

/// What a salvage came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Trials in the new file.
    pub copied: usize,
    /// What could not be copied: which trial, and why.
    pub lost: Vec<String>,
}

/// Copies what is whole of `old` into the new file `new`; `old` is read and nothing else.
///
/// # Errors
/// Where `old` is no results file, or its plan cannot be read; where `new` exists or cannot be written.
/// Then there is no new file.
pub fn salvage(old: &Path, new: &Path) -> Result<Salvaged, StoreError> {
    if !old.is_file() {
        return Err(StoreError::Missing(old.to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| StoreError::io(new, error))?;
    let source = open_copy(old, folder.path())?;
    let header = rows::read_header(&source)
        .map_err(|error| StoreError::Hopeless { path: old.to_owned(), what: error.to_string() })?;
    let (whole, lost) = trials(&source, &header);
    let mut store = Store::create(new, &header)?;
    if let Err(error) = store.add(&whole) {
        drop(store);
        let _ = fs::remove_file(new);
        return Err(error);
    }
    Ok(Salvaged { copied: whole.len(), lost })
}

/// The file and what a killed run left beside it, copied into `folder`.
fn open_copy(old: &Path, folder: &Path) -> Result<Connection, StoreError> {
    let copy = folder.join("copy");
    fs::copy(old, &copy).map_err(|error| StoreError::io(old, error))?;
    let journal = PathBuf::from(format!("{}-journal", old.display()));
    // Without one the last transaction was whole.
    let _ = fs::copy(journal, folder.join("copy-journal"));
    let failed = |error| StoreError::from_sqlite(old, error);
    let source = Connection::open(copy).map_err(failed)?;
    // The second makes SQLite read on where the file is shorter than it says of itself.
    source
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA writable_schema = ON;")
        .map_err(failed)?;
    format::check_origin(&source, old)?;
    // Files from before trials had notes; the error of a file that has them is what is wanted.
    let _ = source.execute_batch("ALTER TABLE trial ADD COLUMN notes TEXT NOT NULL DEFAULT '[]';");
    Ok(source)
}

/// Trials that are whole, and what is wrong with the others.
fn trials(source: &Connection, header: &ExperimentInfo) -> (Vec<Trial>, Vec<String>) {
    let planned = (i64::from(header.max_blocks) + 1) * header.variants.len() as i64;
    let last = source.query_row("SELECT max(rowid) FROM trial", [], |row| row.get(0));
    let last: Option<i64> = last.unwrap_or(Some(planned));
    let (mut whole, mut lost) = (Vec::new(), Vec::new());
    // A lock for all of them instead of one for each.
    let _ = source.execute_batch("BEGIN");
    // One by one, because a damaged page ends any walk over the table but not a look beside it.
    for number in 1..=last.unwrap_or(0).min(planned.clamp(ANYWAY, MOST)) {
        match rows::read_one_trial(source, number) {
            Ok(None) => {}
            Ok(Some(trial)) => match fault(&trial, header, &whole) {
                None => whole.push(trial),
                Some(fault) => lost.push(format!("{}: {fault}", name(&trial))),
            },
            Err(error) => lost.push(format!("trial number {number}: {error}")),
        }
    }
    (whole, lost)
}

/// Why a trial that can be read is not whole.
fn fault(trial: &Trial, header: &ExperimentInfo, whole: &[Trial]) -> Option<&'static str> {
    if !header.variants.iter().any(|variant| variant.name == trial.variant) {
        return Some("its variant does not stand in the plan");
    }
    if whole.iter().any(|other| other.id == trial.id) {
        return Some("it is there twice");
    }
    let id = trial_id(&header.plan_hash, header.seed, trial.block, &trial.variant);
    if trial.id != id {
        return Some("its identity does not follow from the plan");
    }
    (trial.outcome == Outcome::Ok && trial.metrics.is_empty()).then_some("its figures are gone")
}

fn name(trial: &Trial) -> String {
    format!("block {}, variant `{}`", trial.block, trial.variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Sample;
    use crate::store::file::tests as sound;

    const PAGE: usize = 4096;

    fn header() -> ExperimentInfo {
        let variants = ["a", "b"].map(sound::variant).into();
        ExperimentInfo { seed: 7, max_blocks: 30, variants, ..sound::header() }
    }

    fn trial(block: u32, variant: &str) -> Trial {
        Trial {
            id: trial_id("abc", 7, block, variant),
            block,
            position: 0,
            variant: variant.into(),
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 1,
            seconds: 1.0,
            metrics: [("memory.rss.final".to_owned(), f64::from(block))].into(),
            samples: (0..20).map(|at_ms| Sample { at_ms, ..Sample::default() }).collect(),
            load_window_ms: None,
            load: None,
            notes: Vec::new(),
            log_tail: "Listening ".repeat(20),
        }
    }

    /// A file of 60 trials, and these trials.
    fn made(folder: &Path) -> (PathBuf, Vec<Trial>) {
        let path = folder.join("old.carat");
        let mut store = Store::create(&path, &header()).unwrap();
        let trials: Vec<Trial> =
            (0..30).flat_map(|block| ["a", "b"].map(|variant| trial(block, variant))).collect();
        store.add(&trials).unwrap();
        (path, trials)
    }

    #[test]
    fn of_a_whole_file_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = made(folder.path());
        let new = folder.path().join("new.carat");
        let salvaged = salvage(&old, &new).unwrap();
        assert_eq!(salvaged, Salvaged { copied: 60, lost: Vec::new() });
        assert_eq!(Store::open(&new).unwrap().trials().unwrap(), trials);
        assert!(matches!(salvage(&old, &new), Err(StoreError::Exists(_))));
    }

    /// Salvages `damaged`, which must give a part of `trials` or nothing; how many, or `None` without a plan.
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
        assert!(copied.len() == trials.len() || !salvaged.lost.is_empty(), "a loss was not said");
        Some(copied.len())
    }

    #[test]
    fn whichever_page_is_gone_what_is_copied_is_true_and_what_is_lost_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = made(folder.path());
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
        // The file's head and the plan's tables are one page each; nearly all the others hold trials.
        let some = copied.iter().flatten().filter(|&&copied| copied > 0).count();
        assert!(some > pages / 2, "{some} of {pages}: {copied:?}");
    }

    #[test]
    fn a_file_from_before_notes_is_refused_with_the_way_out_and_can_be_salvaged() {
        let folder = tempfile::tempdir().unwrap();
        let (old, trials) = made(folder.path());
        let connection = Connection::open(&old).unwrap();
        connection.execute_batch("ALTER TABLE trial DROP COLUMN notes").unwrap();
        drop(connection);
        let message = Store::open(&old).unwrap_err().to_string();
        assert!(message.contains("older carat") && message.contains("`trial.notes`"), "{message}");
        assert!(message.contains("carat salvage"), "{message}");
        let new = folder.path().join("new.carat");
        assert_eq!(salvage(&old, &new).unwrap().copied, 60);
        assert_eq!(Store::open(&new).unwrap().trials().unwrap(), trials);
    }

    #[test]
    fn what_is_no_results_file_is_not_salvaged() {
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
