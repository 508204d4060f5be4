//! Where workloads are read from: the binary, or a folder.

use crate::run::workloads::files::{WorkloadPath, workload_files};
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Path, whether it is executable, and content of every bundled file, as [`workload_files`] lists them.
const BUNDLED: &[(&str, bool, &[u8])] = include!(concat!(env!("OUT_DIR"), "/workloads.rs"));

/// Why a workload cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkloadError {
    #[error(
        "cannot read the workloads in {folder}; leave out --folder and CARAT_WORKLOADS for the bundled ones"
    )]
    Folder { folder: PathBuf, source: io::Error },
    #[error("there is no workload `{name}`; there are {known}")]
    Unknown { name: String, known: String },
    #[error("cannot read {path}")]
    Unreadable { path: PathBuf, source: io::Error },
}

/// A file of a workload with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadFile {
    /// The path in the workload's folder.
    pub(crate) path: String,
    pub(crate) is_executable: bool,
    pub(crate) content: Cow<'static, [u8]>,
}

/// Where workloads are read from.
#[derive(Debug, Clone)]
pub(crate) enum WorkloadSource {
    /// This binary.
    Bundled,
    /// A folder with a folder for each workload.
    Folder(PathBuf),
}

impl WorkloadSource {
    /// The names of the workloads, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, WorkloadError> {
        let files = self.list()?;
        let mut names: Vec<String> =
            files.iter().filter_map(|file| Some(file.path.split_once('/')?.0.to_owned())).collect();
        // Sorted by path, so equal names stand together.
        names.dedup();
        Ok(names)
    }

    /// The files of one workload, sorted by path.
    pub(crate) fn files(&self, name: &str) -> Result<Vec<WorkloadFile>, WorkloadError> {
        let mut files = Vec::new();
        for WorkloadPath { path, is_executable } in self.list()? {
            // With the slash, because one name can begin with another.
            if let Some(inside) = path.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) {
                let content = self.content(&path)?;
                files.push(WorkloadFile { path: inside.to_owned(), is_executable, content });
            }
        }
        if files.is_empty() {
            let known = self.names()?.join(", ");
            return Err(WorkloadError::Unknown { name: name.to_owned(), known });
        }
        Ok(files)
    }

    fn list(&self) -> Result<Vec<WorkloadPath>, WorkloadError> {
        match self {
            Self::Bundled => Ok(BUNDLED
                .iter()
                .map(|&(path, is_executable, _)| WorkloadPath {
                    path: path.to_owned(),
                    is_executable,
                })
                .collect()),
            Self::Folder(folder) => workload_files(folder)
                .map_err(|source| WorkloadError::Folder { folder: folder.clone(), source }),
        }
    }

    fn content(&self, path: &str) -> Result<Cow<'static, [u8]>, WorkloadError> {
        match self {
            Self::Bundled => {
                let found = BUNDLED.iter().find(|(name, ..)| *name == path);
                Ok(Cow::Borrowed(found.map_or(&[], |(.., content)| *content)))
            }
            Self::Folder(folder) => {
                let path = folder.join(path);
                match fs::read(&path) {
                    Ok(content) => Ok(Cow::Owned(content)),
                    Err(source) => Err(WorkloadError::Unreadable { path, source }),
                }
            }
        }
    }
}

/// The text of one of a workload's files; empty if it has none of this name.
pub(crate) fn text_of(files: &[WorkloadFile], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    found.map_or(String::new(), |file| String::from_utf8_lossy(&file.content).into_owned())
}
