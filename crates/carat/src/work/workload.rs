//! A bundled workload in a folder of the user's.

use crate::run::workloads::{WorkloadSource, unpack};
use crate::view::output;
use std::path::Path;

/// Writes a workload; returns what was written, a path a line.
///
/// # Errors
/// Where there is no such workload, or the folder cannot be written.
pub(crate) fn unpack_workload(
    source: &WorkloadSource,
    name: &str,
    folder: &Path,
) -> anyhow::Result<String> {
    let files = source.files(name)?;
    unpack(&files, folder)?;
    let shown = folder.display();
    output::print_message(&format!(
        "next: carat compare {shown}/carat.toml    ({shown}/README.md says what it needs)"
    ));
    Ok(files.iter().map(|file| format!("{shown}/{}\n", file.path)).collect())
}
