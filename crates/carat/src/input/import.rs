//! Reads what carat wrote: a results file, results exported as JSON, or a recording.

use crate::run::experiment::results_of;
use crate::store::recording::{self, RecordingError};
use crate::store::{Store, StoreError};
use carat_analysis::conclude;
use carat_analysis::growth::of_recording;
use carat_analysis::question;
use carat_model::Results;
use carat_model::recording::Recording;
use carat_report::{ImportError, from_json, is_export};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bytes of a JSON file at most. Results with all samples of a long experiment have about a tenth of it.
const JSON_MAX: u64 = 512 << 20;
/// Variants of exported results at most, as of a results file.
const VARIANTS_MAX: usize = 1_000;

/// The content of a file that carat wrote.
#[derive(Debug)]
pub enum CaratFile {
    /// The trials of a results file; conclusions are not drawn yet.
    Stored(Box<Results>),
    /// Exported results, with the conclusions that they were exported with.
    Exported(Box<Results>),
    /// A recording; growth is computed if the file does not have it.
    Recording(Box<Recording>),
}

/// Why a file cannot be loaded.
#[derive(Debug, Error)]
pub enum CaratFileError {
    /// An unusable results file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An unusable recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Exported results that this carat cannot read.
    #[error("cannot read {path}: {source}")]
    Import {
        path: PathBuf,
        /// What is wrong with it.
        source: ImportError,
    },
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// JSON that carat did not write.
    #[error(
        "{0} is not a recording or exported results; give a file that `carat record`, `carat compare` or `carat report --json` wrote"
    )]
    Foreign(PathBuf),
    /// A recording where results are required.
    #[error("{0} is a recording; give a results file of `carat compare` or its JSON")]
    NotResults(PathBuf),
}

/// Reads a file of any of the three kinds.
///
/// # Errors
/// If the file is missing, damaged, of another version, or not from carat.
pub fn load(path: &Path) -> Result<CaratFile, CaratFileError> {
    if !is_json(path) {
        // Also if the file cannot be opened: the store's message says what to do.
        return Ok(CaratFile::Stored(Box::new(results_of(&Store::open(path)?)?)));
    }
    // First as a recording, because that reads one line to decide.
    match recording::read(path) {
        Ok(mut recording) => {
            // A recording whose carat was killed has no conclusions.
            if recording.end.is_none() {
                recording.growth = of_recording(&recording);
            }
            Ok(CaratFile::Recording(Box::new(recording)))
        }
        Err(RecordingError::Foreign(_)) => exported(path),
        Err(error) => Err(error.into()),
    }
}

/// The trials of a results file or of exported results.
///
/// # Errors
/// As [`load`], and if the file is a recording.
pub fn load_results(path: &Path) -> Result<Results, CaratFileError> {
    // Of a recording there is no verdict.
    match load(path)? {
        CaratFile::Stored(results) | CaratFile::Exported(results) => Ok(*results),
        CaratFile::Recording(_) => Err(CaratFileError::NotResults(path.to_owned())),
    }
}

/// The input of a report: results with their conclusions, or a recording.
#[derive(Debug)]
pub enum ReportInput {
    /// Results of an experiment.
    Results(Box<Results>),
    Recording(Box<Recording>),
}

impl ReportInput {
    /// The results; `None` for a recording.
    pub fn results(&self) -> Option<&Results> {
        match self {
            Self::Results(results) => Some(results),
            Self::Recording(_) => None,
        }
    }
}

/// Reads a file of any of the three kinds and draws conclusions if the file has none.
///
/// # Errors
/// As [`load`].
pub fn load_input(path: &Path) -> Result<ReportInput, CaratFileError> {
    Ok(match load(path)? {
        CaratFile::Stored(results) => ReportInput::Results(Box::new(with_conclusions(*results))),
        CaratFile::Exported(results) => ReportInput::Results(results),
        CaratFile::Recording(recording) => ReportInput::Recording(recording),
    })
}

/// The trials of an open results file with their conclusions.
///
/// # Errors
/// If the file cannot be read.
pub fn concluded(store: &Store) -> Result<Results, StoreError> {
    Ok(with_conclusions(results_of(store)?))
}

fn with_conclusions(mut results: Results) -> Results {
    let question = question(&results.info);
    conclude(&mut results, &question);
    results
}

/// Whether a file can be exported results or a recording, and no results file.
fn is_json(path: &Path) -> bool {
    let mut start = [0];
    // One byte is enough, so that a large file is not read to find out what it is.
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"{"
}

/// The text of a file that carat wrote as JSON.
///
/// # Errors
/// Where it cannot be read, or is larger than any that carat writes.
pub(crate) fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(JSON_MAX + 1).read_to_string(&mut text)?;
    // One byte more than allowed, by which a file that is too long is told.
    if read as u64 > JSON_MAX {
        let most = JSON_MAX >> 20;
        return Err(io::Error::other(format!(
            "it has more than {most} MiB, more than carat writes"
        )));
    }
    Ok(text)
}

fn exported(path: &Path) -> Result<CaratFile, CaratFileError> {
    let text = read_bounded(path)
        .map_err(|source| CaratFileError::Unreadable { path: path.to_owned(), source })?;
    // Told by its own mark, so that any other JSON is called foreign and not damaged.
    if !is_export(&text) {
        return Err(CaratFileError::Foreign(path.to_owned()));
    }
    let results = from_json(&text)
        .map_err(|source| CaratFileError::Import { path: path.to_owned(), source })?;
    if results.info.variants.len() > VARIANTS_MAX {
        let message = format!("it has more than {VARIANTS_MAX} variants");
        let source = io::Error::other(message);
        return Err(CaratFileError::Unreadable { path: path.to_owned(), source });
    }
    Ok(CaratFile::Exported(Box::new(results)))
}
