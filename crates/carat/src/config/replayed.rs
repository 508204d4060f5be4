//! The content of a replayed file as part of a plan.
//!
//! A plan needs the file, and the file is not in the text of the plan. So the plan keeps the SHA-256 of the content in a
//! comment at the end of its text: results can be read without the file, and a changed file is a changed plan.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Largest replayed file in bytes: what is read of it stays in memory.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// Begins the comment.
const COMMENT: &str = "# content of load.http.replay: SHA-256 ";

/// A file of recorded traffic as it is now.
#[derive(Debug)]
pub struct ReplayedFile {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Their SHA-256 in hex.
    pub sha256: String,
}

impl ReplayedFile {
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
        let mut content = Vec::new();
        // One byte more than allowed, because the file may grow meanwhile.
        let read =
            File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut content));
        read.map_err(|error| format!("cannot read {name}: {error}"))?;
        if content.len() as u64 > FILE_MAX {
            return Err(format!(
                "{name} has more than 64 MiB: replay a part, such as the output of `tail -n 100000`, or a HAR without contents"
            ));
        }
        let digest = Sha256::digest(&content);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { content, sha256 })
    }
}

/// The SHA-256 of the replayed content that the text of a plan names.
pub fn replayed_content(plan: &str) -> Option<&str> {
    let mut digests = plan.lines().filter_map(|line| line.strip_prefix(COMMENT));
    digests.rfind(|text| is_digest(text))
}

/// The text of a plan that names the content.
pub(super) fn with_content(plan: &str, sha256: &str) -> String {
    let end = if plan.is_empty() || plan.ends_with('\n') { "" } else { "\n" };
    format!("{plan}{end}{COMMENT}{sha256}\n")
}

/// The text as a user wrote it, also if the user copied it from a report.
pub(super) fn without_content(plan: &str) -> String {
    if replayed_content(plan).is_none() {
        return plan.to_owned();
    }
    let lines = plan.split_inclusive('\n').filter(|line| !line.starts_with(COMMENT));
    lines.collect()
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;
    use tempfile::TempDir;

    const PLAN: &str = "name = 'r'\n[server]\ncommand = ['puma']\nready = { tcp = true }\n\
                        [load.http]\nreplay = 'a.log'\nrequests = 9\n\
                        [[variant]]\nname = 'a'\n[[variant]]\nname = 'b'";

    fn folder(content: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.toml"), PLAN).unwrap();
        fs::write(folder.path().join("a.log"), content).unwrap();
        folder
    }

    #[test]
    fn the_content_of_the_file_is_in_the_hash_of_the_plan() {
        let folder = folder("one");
        let read = || Experiment::read(&folder.path().join("x.toml")).unwrap();
        let first = read();
        fs::write(folder.path().join("a.log"), "two").unwrap();
        let second = read();
        assert_ne!(first.hash(), second.hash());
        assert_ne!(first.text, second.text);
        assert!(!first.measures_like(&second));
        fs::write(folder.path().join("a.log"), "one").unwrap();
        assert_eq!(read().hash(), first.hash());
    }

    #[test]
    fn a_plan_is_the_same_without_the_file_and_when_its_text_is_copied() {
        let folder = folder("one");
        let path = folder.path().join("x.toml");
        let first = Experiment::read(&path).unwrap();
        assert!(first.text.starts_with(PLAN), "{}", first.text);
        let alone = Experiment::parse(&first.text, &path, Path::new("/none")).unwrap();
        assert_eq!(alone.hash(), first.hash());
        fs::write(&path, &first.text).unwrap();
        assert_eq!(Experiment::read(&path).unwrap().hash(), first.hash());
        fs::remove_file(folder.path().join("a.log")).unwrap();
        let error = Experiment::read(&path).unwrap_err().to_string();
        assert!(error.contains("a.log") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_folder_a_device_and_a_file_that_is_too_long_are_refused() {
        let folder = folder("");
        let long = folder.path().join("long.log");
        File::create(&long).unwrap().set_len(FILE_MAX + 1).unwrap();
        for (path, expected) in [
            (folder.path(), "it is not a file"),
            (Path::new("/dev/zero"), "it is not a file"),
            (long.as_path(), "more than 64 MiB"),
        ] {
            let error = ReplayedFile::read(path).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_comment_that_only_looks_like_one_of_carat_is_kept() {
        let text = format!("a\n{COMMENT}abc\n");
        assert_eq!(without_content(&text), text);
        assert_eq!(replayed_content(&text), None);
    }
}
