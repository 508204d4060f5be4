//! Asks engines to run blocks and to stop.

use crate::fleet::jobs::{array, job_file_name};
use crate::fleet::{EngineKind, FleetError, FleetFolder, MachineType};
use std::process::Command;
use tracing::debug;

/// Submits, for every type of machine, the blocks without a result. Returns what the engines answered, a line each.
///
/// # Errors
/// Where an engine refuses. What was submitted before stays submitted.
pub fn submit(folder: &FleetFolder) -> Result<Vec<String>, FleetError> {
    let mut answers = Vec::new();
    for machine_type in &folder.plan.types {
        let Some(name) = job_file_name(machine_type) else { continue };
        let file = folder.path().join(name).display().to_string();
        let mut blocks = Vec::new();
        for block in folder.plan.fleet().blocks_of(&machine_type.name) {
            // Submitting again must add no attempt where there is a result.
            if !folder.has_part(block)? {
                blocks.push(block);
            }
        }
        if blocks.is_empty() {
            continue;
        }
        let blocks = array(blocks.into_iter());
        let printed = match machine_type.engine {
            EngineKind::Slurm => execute("sbatch", &[&format!("--array={blocks}"), &file])?,
            _ => apply_job(&folder.plan.job_name(&machine_type.name), &file)?,
        };
        answers.push(printed.lines().last().unwrap_or_default().to_owned());
    }
    Ok(answers)
}

/// A Job that has ended can neither be changed nor go on, so it makes way for one that runs its indices again.
fn apply_job(job: &str, file: &str) -> Result<String, FleetError> {
    let state = r#"jsonpath={.status.conditions[?(@.status=="True")].type}"#;
    let state = execute("kubectl", &["get", "job", job, "--ignore-not-found", "-o", state])?;
    if state.split(' ').any(|condition| matches!(condition, "Complete" | "Failed")) {
        execute("kubectl", &["delete", "job", job])?;
    }
    execute("kubectl", &["apply", "-f", file])
}

/// Keeps further blocks from beginning and takes pending ones from the engines. Blocks that run go on to their end.
/// Returns what could not be done, a line each.
///
/// # Errors
/// Where the fleet's folder cannot be written.
pub fn stop(folder: &FleetFolder, reason: &str) -> Result<Vec<String>, FleetError> {
    // First, so that no block begins meanwhile.
    folder.write_stop(reason)?;
    let stopped = folder.plan.types.iter().filter_map(|one| stop_pending(folder, one));
    Ok(stopped.filter_map(Result::err).map(|error| error.to_string()).collect())
}

/// Slurm keeps running jobs. Kubernetes ends them by TERM, as Ctrl-C would.
fn stop_pending(
    folder: &FleetFolder,
    machine_type: &MachineType,
) -> Option<Result<String, FleetError>> {
    let job = folder.plan.job_name(&machine_type.name);
    match machine_type.engine {
        EngineKind::Slurm => {
            // Only what waits: a block that runs is finished and counts.
            Some(execute("scancel", &["--state=PENDING", &format!("--name={job}")]))
        }
        EngineKind::K8s => {
            let patch = r#"{"spec":{"suspend":true}}"#;
            Some(execute("kubectl", &["patch", "job", &job, "-p", patch]))
        }
        EngineKind::Other => None,
    }
}

/// Runs a command of an engine and returns what it printed.
pub(super) fn execute(program: &str, arguments: &[&str]) -> Result<String, FleetError> {
    let failed = |detail: String| {
        let command = format!("{program} {}", arguments.join(" "));
        FleetError::Engine { command, detail }
    };
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    debug!(program, ?arguments, status = %output.status, "engine called");
    if output.status.success() {
        return Ok(printed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(if complaint.is_empty() { output.status.to_string() } else { complaint }))
}
