//! The bundled workloads: folders with an experiment file and a README.

use crate::config::Experiment;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The experiment file of every workload.
const FILE: &str = "carat.toml";

/// Why a workload cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkloadError {
    #[error("there are no workloads in {folder}; run carat in its own folder, or give --folder")]
    NoFolder { folder: PathBuf, source: io::Error },
    #[error("there is no workload `{name}`; there are {known}")]
    Unknown { name: String, known: String },
    #[error("cannot read {path}")]
    Unreadable { path: PathBuf, source: io::Error },
}

/// A line for every workload: its name, its variants and its primary metric.
pub(crate) fn workload_list(folder: &Path) -> Result<String, WorkloadError> {
    let mut text = String::new();
    for name in names(folder)? {
        let summary = match Experiment::read(&folder.join(&name).join(FILE)) {
            Ok(experiment) => {
                let variants = experiment.variants.iter().map(|variant| variant.name.as_str());
                let variants = variants.collect::<Vec<_>>().join(" · ");
                format!("{variants} by {}", experiment.measure.primary.id)
            }
            Err(error) => error.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:16} {summary}");
    }
    Ok(text)
}

/// The README and the experiment file of a workload.
pub(crate) fn workload_text(folder: &Path, name: &str) -> Result<String, WorkloadError> {
    let known = names(folder)?;
    if !known.iter().any(|known| known == name) {
        return Err(WorkloadError::Unknown { name: name.to_owned(), known: known.join(", ") });
    }
    let folder = folder.join(name);
    let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(experiment) => Ok(format!("{readme}\n{experiment}")),
        Err(source) => Err(WorkloadError::Unreadable { path, source }),
    }
}

fn names(folder: &Path) -> Result<Vec<String>, WorkloadError> {
    let entries = fs::read_dir(folder)
        .map_err(|source| WorkloadError::NoFolder { folder: folder.to_owned(), source })?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(FILE).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}
