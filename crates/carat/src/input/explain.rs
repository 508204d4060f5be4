//! The ledger that `carat explain` shows: of a running process or of a file.

use crate::input::import::CaratFile;
use crate::input::keeper::add_keeper;
use carat_analysis::leave_out_remedies_in_effect;
use carat_model::OutsideReading;
use carat_model::{Ledger, Outcome, Recording, Results};
use carat_outside::census::LookOptions;
use carat_proc::observe::{compare_with_parents, group_use, known_figures, ledger, read_outside};
use carat_proc::process::{ProcError, ProcRoot, Stat, Tree, with_own_memory};
use carat_report::redact_outside;
use carat_report::{Audience, redact_ledger};
use std::path::{Path, PathBuf};

/// Why there is no ledger to show.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The process does not exist.
    #[error("there is no process {0}; `carat ps` lists the Rubies here")]
    NoProcess(u32),
    /// The process cannot be read.
    #[error(transparent)]
    Unreadable(ProcError),
    /// No process of the tree could be read.
    #[error("{0}")]
    Unread(String),
    #[error("process {0} ended while it was read")]
    Ended(u32),
    /// The results have no such variant.
    #[error("there is no variant `{variant}` in {path}; it has {known}")]
    NoVariant {
        variant: String,
        /// The results file.
        path: PathBuf,
        /// The variants of the file.
        known: String,
    },
    /// The variant has no successful trial with a ledger.
    #[error("variant `{0}` has no trial with a ledger yet")]
    NoTrial(String),
    /// The recording ended too early.
    #[error(
        "{0} holds no ledger: its server or carat ended before the first one, which is taken after a minute or at the end"
    )]
    NoLedger(PathBuf),
}

/// What to read from outside, beside the kernel's figures.
#[derive(Debug, Clone, Default)]
pub struct OutsideRequest {
    /// What to read of every Ruby; `None` reads none.
    pub look: Option<LookOptions>,
    /// Compare forked Rubies with their parents.
    pub unshared: bool,
}

/// The ledger of a running process and its children, or of the process alone, with what was read from outside.
///
/// Where a process has a probe, its figures are used; else those that were read from outside.
///
/// # Errors
/// If no process could be read.
pub fn process_ledger(
    root: &ProcRoot,
    pid: u32,
    alone: bool,
    request: &OutsideRequest,
) -> Result<(Ledger, Option<OutsideReading>), ExplainError> {
    let leader = root.identify_program(pid).map_err(|error| match error {
        ProcError::Ended(pid) => ExplainError::NoProcess(pid),
        error => ExplainError::Unreadable(error),
    })?;
    let members = if alone {
        vec![leader]
    } else {
        // No token, because somebody else started the process.
        let mut tree = Tree::new(root.clone(), leader, "").seen_by(std::process::id());
        let own = with_own_memory(root, tree.members());
        own.iter().map(Stat::identity).collect()
    };
    let mut reading = request.look.as_ref().map(|look| read_outside(&members, look));
    let figures = known_figures(root, &members, reading.as_ref());
    let mut ledger = ledger(root, &members, &figures);
    // Carat itself is charged to the same group in a container.
    let own = members.iter().map(|member| member.pid).chain([std::process::id()]).collect();
    // The first group that can be seen stands for the tree.
    ledger.group =
        members.iter().find_map(|member| group_use(root, member.pid, &own)).map(Box::new);
    if let (Some(reading), Some(look), true) = (&mut reading, &request.look, request.unshared) {
        let private = ledger.processes.iter().map(|process| (process.pid, process.uss));
        compare_with_parents(root, reading, &private.collect(), look);
        leave_out_remedies_in_effect(&ledger, &mut reading.unshared);
    }
    let nothing = ledger.processes.is_empty() && ledger.from_status.is_empty();
    if let (Some(reading), Some(look)) = (&mut reading, &request.look)
        && look.who.is_none()
    {
        add_keeper(reading, &ledger, look);
    }
    match ledger.unread.first() {
        // The first refusal is usually that of the leader, which the user named.
        Some(reason) if nothing => Err(ExplainError::Unread(reason.clone())),
        _ if nothing => Err(ExplainError::Ended(pid)),
        _ => {
            // The process chose its title and its variables, so they are cleaned and masked.
            let (_, ledger) = redact_ledger("", &ledger, Audience::Own);
            let reading = reading.map(|reading| redact_outside(&reading, Audience::Own));
            Ok((ledger, reading))
        }
    }
}

/// The last ledger in a file, and a note on its origin. `variant` chooses among results; without it the baseline.
///
/// # Errors
/// If the file has no such variant or no ledger.
pub fn file_ledger(
    file: &CaratFile,
    path: &Path,
    variant: Option<&str>,
) -> Result<(Ledger, Option<String>), ExplainError> {
    let (ledger, note) = match file {
        CaratFile::Stored(results) | CaratFile::Exported(results) => {
            trial_ledger(results, path, variant).map(|(ledger, note)| (ledger, Some(note)))?
        }
        CaratFile::Recording(recording) => (recorded_ledger(recording, path)?, None),
    };
    Ok((redact_ledger("", &ledger, Audience::Own).1, note))
}

/// The ledger at the end of the variant's last successful trial that has one.
fn trial_ledger(
    results: &Results,
    path: &Path,
    variant: Option<&str>,
) -> Result<(Ledger, String), ExplainError> {
    let names: Vec<&str> = results.info.variants.iter().map(|one| one.name.as_str()).collect();
    let wanted = match variant {
        Some(name) if !names.contains(&name) => {
            let (variant, known) = (name.to_owned(), names.join(", "));
            return Err(ExplainError::NoVariant { variant, path: path.to_owned(), known });
        }
        Some(name) => name,
        None => names.first().copied().unwrap_or_default(),
    };
    let trials = results.trials.iter().rev();
    let successful = trials.filter(|trial| trial.variant == wanted && trial.outcome == Outcome::Ok);
    let mut samples = successful.flat_map(|trial| trial.samples.iter().rev());
    let ledger = samples.find_map(|sample| sample.ledger.clone());
    let ledger = ledger.ok_or_else(|| ExplainError::NoTrial(wanted.to_owned()))?;
    let note = format!("variant `{wanted}` of {}, at the end of its last trial", names.join(", "));
    Ok((*ledger, note))
}

fn recorded_ledger(recording: &Recording, path: &Path) -> Result<Ledger, ExplainError> {
    recording.ledger.clone().ok_or_else(|| ExplainError::NoLedger(path.to_owned()))
}
