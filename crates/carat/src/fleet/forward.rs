//! Brings forward the blocks that Slurm runs again: it puts them behind all others, and the verdict waits for them.

use crate::fleet::engine::execute;
use crate::fleet::{EngineKind, FleetError, FleetFolder};
use std::collections::BTreeSet;

/// The blocks for which Slurm was asked, so that it is asked once each time that a block is put back.
#[derive(Debug, Default)]
pub struct BlocksBroughtForward {
    asked: BTreeSet<SlurmTask>,
}

/// A block that waits in Slurm's queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SlurmTask {
    block: u32,
    job: String,
}

impl BlocksBroughtForward {
    /// Asks Slurm to run blocks that it runs again before those that have not begun yet. Returns what it refused, a line each.
    ///
    /// # Errors
    /// Where the fleet's folder cannot be read.
    pub fn bring(&mut self, folder: &FleetFolder) -> Result<Vec<String>, FleetError> {
        let mut behind = blocks_behind(folder)?;
        // The last one asked for is the first to run.
        behind.sort_by(|one, other| other.cmp(one));
        let mut refused = Vec::new();
        for task in behind.iter().filter(|task| !self.asked.contains(task)) {
            let SlurmTask { block, job } = task;
            if let Err(error) = execute("scontrol", &["top", &format!("{job}_{block}")]) {
                refused.push((task.clone(), error));
            }
        }
        // Only those that still wait, so that one that is put back again is asked for again.
        self.asked = behind.into_iter().collect();
        if refused.is_empty() {
            return Ok(Vec::new());
        }
        Ok(complaints(refused, &blocks_behind(folder)?))
    }
}

/// What Slurm refused, a line each. A task that has begun since it was asked for cannot be brought forward and need not be.
fn complaints(refused: Vec<(SlurmTask, FleetError)>, behind: &[SlurmTask]) -> Vec<String> {
    let waiting = refused.into_iter().filter(|(task, _)| behind.contains(task));
    waiting
        .map(|(task, error)| format!("block {} runs again after all others: {error}", task.block))
        .collect()
}

/// The blocks that wait although later ones have begun: they were put back. Others wait for their turn.
fn blocks_behind(folder: &FleetFolder) -> Result<Vec<SlurmTask>, FleetError> {
    let mut behind = Vec::new();
    for machine_type in &folder.plan.types {
        if machine_type.engine == EngineKind::Slurm {
            let last = last_begun(folder, &machine_type.name)?;
            let pending = pending(&folder.plan.job_name(&machine_type.name));
            behind.extend(pending.into_iter().filter(|task| Some(task.block) < last));
        }
    }
    Ok(behind)
}

/// The last block of a type that has begun or has a result.
fn last_begun(folder: &FleetFolder, machine_type: &str) -> Result<Option<u32>, FleetError> {
    let blocks: Vec<u32> = folder.plan.fleet().blocks_of(machine_type).collect();
    for &block in blocks.iter().rev() {
        if folder.has_part(block)? || folder.attempts(block)? > 0 {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

/// The blocks of a job that wait. None where Slurm cannot be asked: looking at the parts needs no engine.
fn pending(name: &str) -> Vec<SlurmTask> {
    let name = format!("--name={name}");
    let options = ["--noheader", "--array", "--states=PENDING", "--format=%F_%K", &name];
    execute("squeue", &options).map_or(Vec::new(), |queue| tasks(&queue))
}

/// The tasks in lines such as `12_7`: block 7 of job 12.
fn tasks(queue: &str) -> Vec<SlurmTask> {
    let task = |line: &str| {
        let (job, block) = line.trim().split_once('_')?;
        Some(SlurmTask { block: block.parse().ok()?, job: job.to_owned() })
    };
    queue.lines().filter_map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: &str, block: u32) -> SlurmTask {
        SlurmTask { block, job: job.to_owned() }
    }

    #[test]
    fn a_block_that_has_begun_since_it_was_asked_for_was_not_refused() {
        let refused = [2, 7].map(|block| {
            let detail = "Job is no longer pending execution".to_owned();
            (task("1", block), FleetError::Engine { command: "scontrol top".to_owned(), detail })
        });
        let told = complaints(refused.into(), &[task("1", 7), task("1", 9)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("block 7 runs again after all others: "), "{told:?}");
    }

    #[test]
    fn waiting_blocks_are_read_from_the_queue_and_other_lines_are_not() {
        assert_eq!(
            tasks("12_7\n 12_30 \n\nslurm_load_jobs error\n13\n"),
            [task("12", 7), task("12", 30)]
        );
    }
}
