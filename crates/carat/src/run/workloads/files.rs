//! Which files of a folder of workloads belong to them. The build script packs these files into the binary, and carat reads
//! them from a folder that the user names, so both have the same.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The experiment file that makes a folder a workload.
pub(crate) const EXPERIMENT: &str = "carat.toml";
/// Endings of what workloads are written in. Databases, logs, results and lock files of a checkout have others.
const ENDINGS: [&str; 8] = ["rb", "ru", "erb", "toml", "md", "yml", "mod", "sum"];
/// Folders of what was installed or written there.
const NOT_PACKED: [&str; 5] = ["vendor", "node_modules", "tmp", "log", "target"];

/// A file of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadPath {
    /// The workload's name, a slash, and the path in its folder.
    pub(crate) path: String,
    pub(crate) is_executable: bool,
}

/// The files of every workload in `folder`, sorted by path. Links and hidden files are left out.
pub(crate) fn workload_files(folder: &Path) -> io::Result<Vec<WorkloadPath>> {
    let mut found = Vec::new();
    for name in names_in(folder)? {
        let workload = folder.join(&name);
        if workload.join(EXPERIMENT).is_file() {
            add_files(&workload, &name, &mut found)?;
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn add_files(folder: &Path, above: &str, found: &mut Vec<WorkloadPath>) -> io::Result<()> {
    for name in names_in(folder)? {
        let file = folder.join(&name);
        // Links are not followed: one could lead out of the folder.
        let metadata = fs::symlink_metadata(&file)?;
        let path = format!("{above}/{name}");
        if metadata.is_dir() && !NOT_PACKED.contains(&name.as_str()) {
            add_files(&file, &path, found)?;
        } else if metadata.is_file() {
            let is_executable = metadata.permissions().mode() & 0o100 != 0;
            // Scripts often have no ending; a binary is not packed.
            if is_source(&name) || (is_executable && is_script(&file)?) {
                found.push(WorkloadPath { path, is_executable });
            }
        }
    }
    Ok(())
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

fn is_source(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    name == "Gemfile" || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

fn is_script(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(file)?.take(2).read_to_end(&mut start)?;
    Ok(start == b"#!")
}
