//! The demo: a bundled workload, unpacked and compared.

use crate::run::experiment::{ExperimentRequest, FakeTrials};
use crate::run::workloads::{WorkloadSource, check_needs, text_of, unpack};
use crate::view::output;
use crate::work::compare::{ShownComparison, compare};
use crate::work::exit::Exit;
use crate::work::temporary_folder::TemporaryFolder;
use carat_report::NextCommands;
use std::path::{Path, PathBuf};

/// What the demo runs.
const DEMO: Demo = Demo { workload: "blog", experiment: "demo.toml" };
/// The results file, in the current folder; the page lies beside it.
const RESULTS: &str = "demo.carat";

/// A bundled experiment.
struct Demo {
    workload: &'static str,
    experiment: &'static str,
}

/// One call of `carat demo`.
#[derive(Debug)]
pub(crate) struct DemoRequest {
    pub(crate) blocks: Option<u32>,
    /// Where the workload is unpacked and kept; without it a temporary folder.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) resume: bool,
    pub(crate) details: bool,
    pub(crate) fake: Option<FakeTrials>,
}

/// Unpacks the workload, compares it, and says where the app is.
///
/// # Errors
/// Where something is missing that the app needs, or it cannot be compared.
pub(crate) fn run_demo(request: &DemoRequest) -> anyhow::Result<Exit> {
    let files = WorkloadSource::Bundled.files(DEMO.workload)?;
    check_needs("the demo", &text_of(&files, "Gemfile"))?;
    let temporary = if request.folder.is_none() { Some(TemporaryFolder::new()?) } else { None };
    let folder = match (&temporary, &request.folder) {
        (Some(temporary), _) => temporary.path().join(DEMO.workload),
        (None, kept) => kept.clone().unwrap_or_default(),
    };
    unpack(&files, &folder)?;
    let exit = compare(experiment(request, &folder), &shown(request))?;
    let app = match &request.folder {
        Some(kept) => kept.display().to_string(),
        None => format!("`carat workload unpack {}` writes it", DEMO.workload),
    };
    output::print_message(&format!("app      {app}"));
    Ok(exit)
}

fn experiment(request: &DemoRequest, folder: &Path) -> ExperimentRequest {
    ExperimentRequest {
        experiment: folder.join(DEMO.experiment),
        output: Some(RESULTS.into()),
        resume: request.resume,
        fresh: !request.resume,
        blocks: request.blocks,
        fake: request.fake.clone(),
        ..ExperimentRequest::default()
    }
}

fn shown(request: &DemoRequest) -> ShownComparison {
    // A kept folder is compared again; it must be empty for the demo.
    let next = request.folder.is_none().then(|| NextCommands {
        resume: Some("carat demo --resume".to_owned()),
        anew: Some("carat demo".to_owned()),
        ..NextCommands::default()
    });
    ShownComparison { json: false, details: request.details, budgets: Vec::new(), next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;

    #[test]
    fn the_demo_is_bundled_and_needs_gems_that_its_gemfile_names() {
        let files = WorkloadSource::Bundled.files(DEMO.workload).unwrap();
        let text = text_of(&files, DEMO.experiment);
        Experiment::parse(&text, Path::new(DEMO.experiment), Path::new(".")).unwrap();
        assert!(text_of(&files, "Gemfile").contains("gem 'puma'"));
    }
}
