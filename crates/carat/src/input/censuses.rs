//! The readings from outside in a file that `carat explain --json` printed.

use crate::input::import::read_bounded;
use carat_analysis::ExplainedTree;
use carat_model::{Ledger, OUTSIDE_SCHEMA, OutsideReading};
use carat_report::{Audience, redact_outside};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file has no reading to compare.
#[derive(Debug, thiserror::Error)]
pub enum CensusFileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Not from `carat explain --json`.
    #[error(
        "{0} is not the output of `carat explain PID --json`, with `--who` for what keeps objects; a heap dump is compared only with another"
    )]
    Foreign(PathBuf),
    /// From another version of carat.
    #[error("{path} has readings of the schema `{found}`; this carat reads `{OUTSIDE_SCHEMA}`")]
    OtherSchema {
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// No process was read from outside.
    #[error("{0} has no reading of a Ruby from outside: {1}")]
    NoReading(PathBuf, String),
}

/// What this needs of the JSON.
#[derive(Deserialize)]
struct ExplainedFile {
    #[serde(default)]
    ledger: Value,
    census: Option<OutsideReading>,
}

/// What says which version the readings have, whatever else it changed.
#[derive(Deserialize)]
struct ExplainedSchema {
    census: Option<ReadingSchema>,
}

#[derive(Deserialize)]
struct ReadingSchema {
    schema: String,
}

/// The reading in a file that `carat explain --json` printed.
///
/// # Errors
/// If the file cannot be read, is another one, or has no reading.
pub fn read_explained(path: &Path) -> Result<ExplainedTree, CensusFileError> {
    let foreign = || CensusFileError::Foreign(path.to_owned());
    let text = read_bounded(path).map_err(|source| match source.kind() {
        // A results file, for example.
        io::ErrorKind::InvalidData => foreign(),
        _ => CensusFileError::Unreadable { path: path.to_owned(), source },
    })?;
    // First the schema alone: readings of another version need not parse.
    let outline: ExplainedSchema = serde_json::from_str(&text).map_err(|_| foreign())?;
    let Some(outline) = outline.census else {
        let reason = "`--no-look` was given, or the target was no process".to_owned();
        return Err(CensusFileError::NoReading(path.to_owned(), reason));
    };
    if outline.schema != OUTSIDE_SCHEMA {
        let (path, found) = (path.to_owned(), outline.schema);
        return Err(CensusFileError::OtherSchema { path, found });
    }
    let file: ExplainedFile = serde_json::from_str(&text).map_err(|_| foreign())?;
    let reading = file.census.ok_or_else(foreign)?;
    if reading.processes.is_empty() {
        let reason = reading.refused.first().map(|(_, reason)| reason.clone());
        let reason = reason.unwrap_or_else(|| "none of the processes is a Ruby".to_owned());
        return Err(CensusFileError::NoReading(path.to_owned(), reason));
    }
    // As for the screen: what a file quotes is as untrusted as a process.
    let rubies = redact_outside(&reading, Audience::Own).processes;
    // That of another version of carat is left out, and the rest is compared.
    let ledger: Ledger = serde_json::from_value(file.ledger).unwrap_or_default();
    Ok(ExplainedTree { ledger, rubies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_of_another_version_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let census = serde_json::to_value(carat_outside::census::Census::default()).unwrap();
        let reading =
            serde_json::json!({ "schema": OUTSIDE_SCHEMA, "processes": [census], "refused": [] });
        let text = serde_json::json!({ "ledger": { "of": "old" }, "census": reading }).to_string();
        std::fs::write(&path, text).unwrap();
        let found = read_explained(&path).unwrap();
        assert_eq!((found.rubies.len(), found.ledger), (1, Ledger::default()));
    }

    #[test]
    fn a_file_without_a_reading_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("a.json");
            std::fs::write(&path, text).unwrap();
            read_explained(&path).unwrap_err().to_string()
        };
        assert!(read("{").contains("is not the output of"));
        assert!(read("{\"ledger\":{}}").contains("`--no-look` was given"));
        let later = "{\"census\":{\"schema\":\"carat.census/9\",\"other\":1}}";
        assert!(read(later).contains("this carat reads `carat.census/2`"));
        let refused = "{\"census\":{\"schema\":\"carat.census/2\",\"processes\":[],\
            \"refused\":[[7,\"permission denied\"]]}}";
        assert!(read(refused).contains("permission denied"));
        assert!(read_explained(&folder.path().join("none")).is_err());
        let results = folder.path().join("a.carat");
        std::fs::write(&results, b"SQLite format 3\0\xff\xfe").unwrap();
        let error = read_explained(&results).unwrap_err().to_string();
        assert!(error.contains("is not the output of `carat explain PID --json`"), "{error}");
    }
}
