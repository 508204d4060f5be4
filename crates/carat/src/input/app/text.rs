//! Files of an app's folder as text, and why they cannot be read.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read; more is no file that a person writes.
const LONGEST: u64 = 1 << 20;

/// Why there is no experiment for a folder.
#[derive(Debug, thiserror::Error)]
pub enum AppFolderError {
    #[error("{0} is no folder; go to the folder of the app")]
    NoFolder(PathBuf),
    #[error(
        "{0} has no Ruby app: none of config.ru, Gemfile, Gemfile.lock, Procfile and config/application.rb is there; go to the \
         folder of the app, or write the file by hand (docs/reference/experiment.md)"
    )]
    NoApp(PathBuf),
    #[error(
        "{path} cannot be read: {reason}; make it readable, or move it away and carat looks at the other files"
    )]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "nothing in {folder} starts a web server: there is no config.ru and no `web` in a Procfile; {what}"
    )]
    NoServer { folder: PathBuf, what: String },
}

/// The text of a file of a folder; `None` if there is none of that name.
pub(super) fn text_in(folder: &Path, name: &str) -> Result<Option<String>, AppFolderError> {
    let path = folder.join(name);
    text_of(&path).map_err(|reason| AppFolderError::Unreadable { path, reason })
}

fn text_of(path: &Path) -> Result<Option<String>, String> {
    let length = match fs::metadata(path) {
        Ok(file) if file.is_file() => file.len(),
        Ok(_) => return Err("it is no file".into()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // A file stands where a folder was expected, so what is asked for is not there.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // The length first: what is no text of a person is not read.
    if length > LONGEST {
        return Err(format!("it has {length} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    text_in_utf8(&bytes).map(Some).ok_or_else(|| "it is no text in UTF-8".into())
}

/// The text of a file; bytes in another encoding are replaced in comments, and nowhere else, because a value would change.
fn text_in_utf8(bytes: &[u8]) -> Option<String> {
    let is_harmless = |line: &[u8]| match std::str::from_utf8(line) {
        Ok(_) => true,
        Err(error) => {
            let before = String::from_utf8_lossy(&line[..error.valid_up_to()]);
            // A `#` in a literal begins no comment.
            let is_outside = |code: &str| {
                ['"', '\''].iter().all(|quote| code.matches(*quote).count().is_multiple_of(2))
            };
            let code = before.split_once(" #").map(|(code, _)| code);
            before.trim_start().starts_with('#') || code.is_some_and(is_outside)
        }
    };
    let is_text = bytes.split(|&byte| byte == b'\n').all(is_harmless);
    is_text.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The lines of a Ruby file that are no comments, without the blanks around them.
pub(super) fn statements(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// What stands after a method's name in a statement that calls it.
pub(super) fn argument<'a>(statement: &'a str, method: &str) -> Option<&'a str> {
    let rest = statement.strip_prefix(method)?;
    rest.starts_with([' ', '(']).then(|| rest.trim_start_matches([' ', '(']))
}

/// The text of a literal in quotes at the beginning.
pub(super) fn literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split(quote).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_another_encoding_are_harmless_in_a_comment_alone() {
        let read = |bytes: &[u8]| text_in_utf8(bytes);
        let commented = read(b"# f\xfcr alle\nworkers 2\nthreads 5, 5 # gr\xfc\xdfe\n").unwrap();
        assert!(commented.contains("\nworkers 2\n"), "{commented}");
        assert_eq!(read(b"bind 'unix://f\xfcr'\n"), None);
        assert_eq!(read(b"bind 'unix:// #f\xfcr'\n"), None);
        assert_eq!(read("# für\n".as_bytes()).unwrap(), "# für\n");
    }
}
