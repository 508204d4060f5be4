//! The experiment file of an app, written beside it.

use crate::input::{AppFolder, app_experiment};
use crate::view::output;
use anyhow::{Context, bail};
use carat_files::write_new;
use carat_report::shell_line;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Writes the experiment file of the app in a folder, and says what could not be known.
///
/// # Errors
/// Where the folder cannot be read, or the file is there already or cannot be written.
pub(crate) fn write_app_experiment(folder: &Path, file: Option<&Path>) -> anyhow::Result<()> {
    let app = AppFolder::look(folder)?;
    let path = file.map_or_else(|| folder.join("carat.toml"), Path::to_owned);
    let (text, unknown) = app_experiment(&app, other_folder(folder, &path).as_deref());
    let shown = path.strip_prefix("./").unwrap_or(&path).display().to_string();
    match write_new(&path, text.as_bytes()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!(
                "{shown} is there already and is not overwritten; move it away, or name another file with -o"
            )
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    }
    output::print_message(&format!("wrote {shown}; nothing was started"));
    for one in &unknown {
        output::print_message(&format!("not known: {one}"));
    }
    let next = shell_line(&["carat", "compare", &shown].map(String::from));
    output::print_message(&format!("\nnext  {next}"));
    Ok(())
}

/// The app's folder, if the experiment file will not lie there: a server starts in the folder of its file by default.
fn other_folder(app: &Path, file: &Path) -> Option<PathBuf> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let real = |folder: &Path| folder.canonicalize().ok();
    let folder = real(app)?;
    (real(parent.unwrap_or_else(|| Path::new("."))).as_ref() != Some(&folder)).then_some(folder)
}
