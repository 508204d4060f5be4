//! Which files a command may write over: its own earlier output, and nothing that it reads.

use anyhow::ensure;
use carat_files::replaced_file;
use carat_report::OutputForm;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses to write output of a form to `path` where that would replace one of the `inputs`, or a file that Carat did not write
/// in this form. An empty file, a pipe and a device have nothing to lose.
///
/// # Errors
/// Where it is refused, with what to do.
pub(crate) fn check_output(path: &Path, form: OutputForm, inputs: &[&Path]) -> anyhow::Result<()> {
    check_replaced(path, inputs, |file| {
        // What cannot be read may be anything.
        fs::read(file).is_ok_and(|content| form.wrote(&content))
    })
}

/// The same where `is_own` says whether a file is earlier output.
pub(crate) fn check_replaced(
    path: &Path,
    inputs: &[&Path],
    is_own: impl FnOnce(&Path) -> bool,
) -> anyhow::Result<()> {
    let Some(found) = replaced_file(path) else { return Ok(()) };
    let shown = path.display();
    for input in inputs {
        // By device and inode, because a file can have several names.
        let is_same = fs::metadata(input)
            .is_ok_and(|input| (input.dev(), input.ino()) == (found.dev(), found.ino()));
        ensure!(!is_same, "{shown} is read by this command; name another file with -o");
    }
    let may_go = found.len() == 0 || is_own(path);
    ensure!(
        may_go,
        "{shown} exists, and is not earlier output of carat in this form; name another file with -o, or remove it"
    );
    Ok(())
}
