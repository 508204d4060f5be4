//! A folder for the time of one command.

use crate::target::{Reaper, make_run_directory, new_token, run_directory};
use anyhow::Context;
use std::path::Path;
use tempfile::TempDir;

/// A private folder that is removed in the end, however carat ends.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    directory: TempDir,
    /// Dropped after the folder, so that a kill in between leaves nothing.
    _reaper: Reaper,
}

impl TemporaryFolder {
    /// # Errors
    /// Where it cannot be made.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let token = new_token();
        let path = run_directory(&std::env::temp_dir(), &token);
        let directory = make_run_directory(&path).with_context(|| {
            format!("cannot make {}; set TMPDIR, or name a folder with -o", path.display())
        })?;
        let reaper = Reaper::start(&token, directory.path()).context("cannot start the reaper")?;
        Ok(Self { directory, _reaper: reaper })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}
