//! The file of a recording: one line of JSON per entry, written at once.
//!
//! A carat that is killed loses no sample, and its memory does not grow with the length of the recording.

use carat_files::create_new;
use carat_model::recording::{Entry, RECORDING_SCHEMA, Recording, RecordingInfo};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Why a recording cannot be read. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be opened or read.
    #[error("cannot read {path}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Its first line is not that of a recording.
    #[error("{0} is not a recording of `carat record`; give another file")]
    Foreign(PathBuf),
    /// Written by another version.
    #[error("{path} has the schema `{found}`; this carat reads `{RECORDING_SCHEMA}`")]
    Other {
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// A line longer than carat writes.
    #[error("line {line} of {path} is longer than any that carat writes; give another file")]
    TooLong {
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A line other than the last that carat never writes.
    #[error("{path} is damaged in line {line}; delete that line to read the others")]
    Damaged {
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
}

/// Bytes of a line at most. The longest is a ledger: about two kilobytes for each process, and the command.
const LINE_MAX: u64 = 64 << 20;

/// A recording that is being written. A line that cannot be written is counted, and writing continues with the next.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Bytes up to the end of the last complete line.
    complete: u64,
    /// Lines that could not be written.
    lost: u64,
    error: Option<io::Error>,
}

impl Journal {
    /// Creates a new file.
    ///
    /// # Errors
    /// Where the file exists or cannot be written.
    pub fn create(path: &Path, info: &RecordingInfo) -> io::Result<Self> {
        // In append mode, so that a line which follows a cut begins at the new end.
        let file = create_new(path)?;
        let mut journal = Self { file, complete: 0, lost: 0, error: None };
        // A file without its first line is no recording, and would be in the way next time.
        journal.write(info).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })?;
        Ok(journal)
    }

    /// Adds a line; returns whether it is in the file.
    pub fn append(&mut self, entry: &Entry) -> bool {
        let written = self.write(entry);
        // Counted and remembered, not returned: a full disk may have room again later.
        if let Err(error) = written {
            self.lost += 1;
            self.error = Some(error);
            return false;
        }
        true
    }

    /// The number of lines that could not be written and the latest error; `None` where all were written.
    pub fn loss(&self) -> Option<(u64, &io::Error)> {
        self.error.as_ref().map(|error| (self.lost, error))
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        // A disk that became full within a line has a part of it.
        if self.lost > 0 {
            self.file.set_len(self.complete)?;
        }
        self.file.write_all(&line)?;
        self.complete += line.len() as u64;
        Ok(())
    }
}

/// Reads a recording, also one that is still being written or whose carat was killed: an incomplete last line is left out.
///
/// # Errors
/// Where the file is not a recording of this version, or a line other than the last is damaged.
pub fn read(path: &Path) -> Result<Recording, RecordingError> {
    let unreadable = |source| RecordingError::Unreadable { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    read_line(&mut file, &mut line).map_err(unreadable)?;
    let info: RecordingInfo =
        serde_json::from_slice(&line).map_err(|_| RecordingError::Foreign(path.to_owned()))?;
    if info.schema != RECORDING_SCHEMA {
        return Err(RecordingError::Other { path: path.to_owned(), found: info.schema });
    }
    let mut recording = Recording::new(info);
    for number in 2.. {
        line.clear();
        read_line(&mut file, &mut line).map_err(unreadable)?;
        // Without a bound, a file without line breaks would be read into memory as a whole.
        if line.len() as u64 == LINE_MAX {
            return Err(RecordingError::TooLong { path: path.to_owned(), line: number });
        }
        // Still being written, or its carat was killed within the line.
        if !line.ends_with(b"\n") {
            break;
        }
        let entry = serde_json::from_slice(&line)
            .map_err(|_| RecordingError::Damaged { path: path.to_owned(), line: number })?;
        recording.add(entry);
    }
    Ok(recording)
}

fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    file.by_ref().take(LINE_MAX).read_until(b'\n', line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::recording::{Marker, MarkerKind};
    use carat_model::{Bytes, Sample};
    use std::fs;

    fn info() -> RecordingInfo {
        RecordingInfo {
            schema: RECORDING_SCHEMA.into(),
            what: "puma".into(),
            started_ms: 7,
            command: vec!["puma".into()],
        }
    }

    fn sample(at_ms: u64) -> Entry {
        let pss = Some(Bytes(at_ms * 1000));
        Entry::Sample(Box::new(Sample { at_ms, pss, ..Sample::default() }))
    }

    fn written(entries: &[Entry]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.recording.jsonl");
        let mut journal = Journal::create(&path, &info()).unwrap();
        for entry in entries {
            assert!(journal.append(entry));
        }
        (folder, path)
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let marker = Marker { at_ms: 20, what: MarkerKind::MajorGc };
        let (_folder, path) = written(&[sample(10), Entry::Marker(marker.clone()), sample(30)]);
        let read = read(&path).unwrap();
        assert_eq!(read.info, info());
        assert_eq!(read.samples.iter().map(|one| one.at_ms).collect::<Vec<_>>(), [10, 30]);
        assert_eq!((read.markers, read.end), (vec![marker], None));
    }

    #[test]
    fn a_file_truncated_anywhere_keeps_every_complete_line() {
        let (_folder, path) = written(&[sample(10), sample(20)]);
        let text = fs::read(&path).unwrap();
        let first_line = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for end in 0..text.len() {
            fs::write(&path, &text[..end]).unwrap();
            let whole = text[..end].iter().filter(|&&byte| byte == b'\n').count();
            match read(&path) {
                Ok(found) => assert_eq!(found.samples.len(), whole.saturating_sub(1), "{end}"),
                Err(error) => assert!(end < first_line - 1, "{end}: {error}"),
            }
        }
    }

    #[test]
    fn damaged_newer_and_foreign_files_are_refused_with_the_reason() {
        let (_folder, path) = written(&[sample(10), sample(20)]);
        let text = fs::read_to_string(&path).unwrap();
        for (text, expected) in [
            (text.replace("\"at_ms\":10", "\"at_ms\":-1"), "damaged in line 2"),
            (text.replace("recording/3", "recording/4"), "has the schema `carat.recording/4`"),
            ("{}".into(), "is not a recording"),
            (String::new(), "is not a recording"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let (_folder, path) = written(&[sample(10)]);
        let before = fs::read(&path).unwrap();
        assert!(Journal::create(&path, &info()).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
