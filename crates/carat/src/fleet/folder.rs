//! The folder of a fleet, which every machine sees.
//!
//! `parts/b0007.a2.TOKEN.carat` is the result of an attempt at block 7. `attempts/b0007.TOKEN` says that one began.

use crate::fleet::FleetError;
use crate::fleet::plan::{ATTEMPTS, EXPERIMENT, FleetPlan, INFO, PARTS, PLAN};
use carat_files::{NamedBy, write_file};
use carat_model::ExperimentInfo;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The file that keeps blocks from beginning; it says why.
const STOP: &str = "stop";

/// The folder of a fleet with its plan.
#[derive(Debug, Clone)]
pub struct FleetFolder {
    path: PathBuf,
    pub plan: FleetPlan,
}

impl FleetFolder {
    /// Opens a folder that `carat fleet plan` wrote.
    ///
    /// # Errors
    /// Where there is no plan or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, FleetError> {
        let path = std::path::absolute(path).map_err(FleetError::io(path))?;
        let plan = FleetPlan::read(&path)?;
        Ok(Self { path, plan })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The results file that parts are merged into.
    pub fn results(&self) -> PathBuf {
        self.path.join(format!("{}.carat", self.plan.name))
    }

    /// Every complete part, sorted by name.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn parts(&self) -> Result<Vec<PathBuf>, FleetError> {
        // Hidden names are of files that are being written.
        self.names(PARTS, |name| !name.starts_with('.') && name.ends_with(".carat"))
    }

    /// Waits until no other process merges the parts of this fleet. The lock ends with the file.
    ///
    /// # Errors
    /// Where the plan cannot be locked.
    pub fn lock(&self) -> Result<File, FleetError> {
        let path = self.path.join(PLAN);
        let file = File::open(&path).map_err(FleetError::io(&path))?;
        // The plan always exists and is never replaced, so it serves as the lock.
        file.lock().map_err(FleetError::io(&path))?;
        Ok(file)
    }

    /// Why no further block may begin; `None` while blocks may.
    pub fn stopped(&self) -> Option<String> {
        fs::read_to_string(self.path.join(STOP)).ok().map(|reason| reason.trim().to_owned())
    }

    /// Keeps further blocks from beginning.
    pub(super) fn write_stop(&self, reason: &str) -> Result<(), FleetError> {
        let path = self.path.join(STOP);
        let text = format!("{reason}\n");
        write_file(&path, text.as_bytes(), NamedBy::Carat).map_err(FleetError::io(&path))
    }

    pub(super) fn experiment(&self) -> PathBuf {
        self.path.join(EXPERIMENT)
    }

    /// What every part of the fleet says of the experiment.
    ///
    /// # Errors
    /// Where the file is missing or cannot be understood.
    pub fn info(&self) -> Result<ExperimentInfo, FleetError> {
        let path = self.path.join(INFO);
        let text = fs::read_to_string(&path).map_err(FleetError::io(&path))?;
        serde_json::from_str(&text)
            .map_err(|error| FleetError::Plan { path, message: error.to_string() })
    }

    pub(super) fn has_part(&self, block: u32) -> Result<bool, FleetError> {
        let start = format!("b{block:04}.");
        Ok(!self
            .names(PARTS, |name| name.starts_with(&start) && name.ends_with(".carat"))?
            .is_empty())
    }

    pub(super) fn part(&self, (block, number, token): (u32, u32, &str)) -> PathBuf {
        self.path.join(PARTS).join(format!("b{block:04}.a{number}.{token}.carat"))
    }

    /// Marks that an attempt begins; returns the number of attempts that have begun, this one included.
    pub(super) fn begin_attempt(&self, block: u32, token: &str) -> Result<u32, FleetError> {
        let path = self.mark(block, token);
        File::create_new(&path).map_err(FleetError::io(&path))?;
        self.attempts(block)
    }

    /// Removes the mark of an attempt that was interrupted: it says nothing about machine or block.
    pub(super) fn withdraw_attempt(&self, block: u32, token: &str) {
        // A mark that stays counts one attempt too many, which is no reason to fail.
        let _ = fs::remove_file(self.mark(block, token));
    }

    /// Attempts at a block that have begun.
    pub(super) fn attempts(&self, block: u32) -> Result<u32, FleetError> {
        let start = format!("b{block:04}.");
        Ok(self.names(ATTEMPTS, |name| name.starts_with(&start))?.len() as u32)
    }

    fn mark(&self, block: u32, token: &str) -> PathBuf {
        self.path.join(ATTEMPTS).join(format!("b{block:04}.{token}"))
    }

    /// Files in an inner folder whose name `is_wanted`, sorted.
    fn names(
        &self,
        inner: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<PathBuf>, FleetError> {
        let folder = self.path.join(inner);
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(FleetError::io(&folder))?;
        let wanted = entries.iter().filter(|entry| is_wanted(&entry.file_name().to_string_lossy()));
        let mut paths: Vec<PathBuf> = wanted.map(fs::DirEntry::path).collect();
        paths.sort();
        Ok(paths)
    }
}
