//! The text of a file that somebody writes by hand.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest file in bytes. What is parsed of it takes many times as much.
const TEXT_MAX: u64 = 8 << 20;

/// The text of an experiment, of scenarios or of settings. A pipe that the user named is read too.
///
/// # Errors
/// If the file cannot be read, or is longer than any that is written by hand.
pub fn read_text_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more, by which a file that is too long is told from one that just fits.
    let read = File::open(path)?.take(TEXT_MAX + 1).read_to_string(&mut text)?;
    match read as u64 > TEXT_MAX {
        false => Ok(text),
        true => Err(io::Error::other(format!(
            "it has more than {} MiB, more than a file that is written by hand",
            TEXT_MAX >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_refused_and_a_long_one_is_read() {
        let refused = read_text_file(Path::new("/dev/zero")).unwrap_err();
        assert!(refused.to_string().contains("more than 8 MiB"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.toml");
        std::fs::write(&path, "#".repeat(TEXT_MAX as usize)).unwrap();
        assert_eq!(read_text_file(&path).unwrap().len() as u64, TEXT_MAX);
    }
}
