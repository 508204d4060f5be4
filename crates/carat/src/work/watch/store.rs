//! Where the store is, if the user does not say.

use anyhow::{Context, bail};
use carat_files::own_user;
use std::path::{Path, PathBuf};

/// The name of the store in its folder.
const NAME: &str = "carat/watch.db";

/// The store that the user names, or the usual one.
///
/// # Errors
/// Where there is no home to put it in.
pub(super) fn store_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    if own_user() == 0 {
        return Ok(Path::new("/var/lib").join(NAME));
    }
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME")
        .or_else(|| Some(variable("HOME")?.join(".local/state")))
        .context("there is no home folder to put the store in; name a file with --store")?;
    // In a container HOME is often `/`, which nobody but root may write to.
    if !state.starts_with("/") || state == Path::new("/.local/state") {
        bail!("there is no home folder to put the store in; name a file with --store");
    }
    Ok(state.join(NAME))
}
