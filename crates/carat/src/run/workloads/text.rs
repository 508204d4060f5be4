//! What `carat workload` prints of workloads.

use crate::config::Experiment;
use crate::run::workloads::files::EXPERIMENT;
use crate::run::workloads::source::{WorkloadError, WorkloadSource, text_of};
use std::fmt::Write;
use std::path::Path;

/// A line for every workload: its name, its variants and its primary metric.
pub(crate) fn workload_list(source: &WorkloadSource) -> Result<String, WorkloadError> {
    let mut text = String::new();
    for name in source.names()? {
        let experiment = text_of(&source.files(&name)?, EXPERIMENT);
        let path = Path::new(&name).join(EXPERIMENT);
        let summary = match Experiment::parse(&experiment, &path, Path::new(&name)) {
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
pub(crate) fn workload_text(source: &WorkloadSource, name: &str) -> Result<String, WorkloadError> {
    let files = source.files(name)?;
    Ok(format!("{}\n{}", text_of(&files, "README.md"), text_of(&files, EXPERIMENT)))
}
