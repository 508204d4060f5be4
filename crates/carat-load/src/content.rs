//! The files that a load names: recorded requests, or the rows of values of users and jobs.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Largest file in bytes: what is read of it stays in memory.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// A file that a load needs, as it is now.
#[derive(Debug)]
pub struct LoadContent {
    pub bytes: Vec<u8>,
    /// Their SHA-256 in hex.
    pub sha256: String,
}

impl LoadContent {
    /// Reads a file of at most 64 MiB.
    ///
    /// # Errors
    /// If it cannot be read, is not a file or is longer; the message names it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        // Before it is opened, because that waits for a writer of a named pipe.
        let about = fs::metadata(path).map_err(|error| format!("cannot read {name}: {error}"))?;
        if !about.is_file() {
            return Err(format!("cannot read {name}: it is not a file"));
        }
        let mut bytes = Vec::new();
        // One byte more than allowed, because the file may grow meanwhile.
        let read =
            File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
        read.map_err(|error| format!("cannot read {name}: {error}"))?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(format!(
                "{name} has more than 64 MiB: use a part of it, such as the output of `head -n 100000`, or a HAR without contents"
            ));
        }
        let digest = Sha256::digest(&bytes);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes, sha256 })
    }

    /// Reads a file that must have the content of the plan, if that names one.
    ///
    /// # Errors
    /// Those of [`Self::read`], and if the content is another.
    pub fn read_planned(path: &Path, sha256: Option<&str>) -> Result<Self, String> {
        // Variants of one experiment must have the same load, even when it is resumed.
        let content = Self::read(path)?;
        if sha256.is_some_and(|planned| planned != content.sha256) {
            return Err(format!(
                "{} has changed since the experiment began: its trials would have different loads",
                path.display()
            ));
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_a_device_and_a_file_that_is_too_long_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long.log");
        File::create(&long).unwrap().set_len(FILE_MAX + 1).unwrap();
        for (path, expected) in [
            (folder.path(), "it is not a file"),
            (Path::new("/dev/zero"), "it is not a file"),
            (long.as_path(), "more than 64 MiB"),
        ] {
            let error = LoadContent::read(path).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_with_another_content_than_the_plan_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.log");
        fs::write(&file, "one").unwrap();
        let sha256 = LoadContent::read(&file).unwrap().sha256;
        for planned in [None, Some(sha256.as_str())] {
            assert_eq!(LoadContent::read_planned(&file, planned).unwrap().bytes, b"one");
        }
        let error = LoadContent::read_planned(&file, Some("ab")).unwrap_err();
        assert!(error.contains("a.log has changed since the experiment began"), "{error}");
    }
}
