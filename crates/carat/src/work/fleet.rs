//! What a fleet does on one machine: it plans the blocks, runs one, and waits for the verdict and shows it.

use crate::fleet::{
    AskedBlock, BlockEnd, BlockPlace, BlockRun, FleetError, FleetFolder, FleetLook, LookEnd,
    PlanRequest, create, run_block, stop,
};
use crate::run::experiment::{ExperimentRequest, FakeTrials, RunError};
use crate::store::Store;
use crate::view::{ProgressDisplay, ProgressText, end_text, fleet_text, output};
use crate::work::exit::Exit;
use crate::work::fleet_watch::{WatchEnd, watch_fleet};
use crate::work::trials::{ShownResults, prepare_experiment, show_results};
use std::time::Duration;

/// Plans the blocks of an experiment, and says how to start them.
///
/// # Errors
/// Where the experiment cannot be run or the folder cannot be written.
pub(crate) fn plan_fleet(
    experiment: ExperimentRequest,
    request: &PlanRequest,
) -> anyhow::Result<()> {
    let plan = create(&prepare_experiment(experiment)?, request)?;
    let folder = request.folder.display();
    output::print_message(&format!(
        "{}: blocks 1 to {}, at most {} count, seed {}, into {folder}",
        plan.name,
        plan.blocks.len(),
        plan.max_blocks,
        plan.seed
    ));
    output::print_message(&format!(
        "`carat fleet submit {folder}` starts them, `carat fleet watch {folder}` waits for the verdict"
    ));
    Ok(())
}

/// Runs a block on this machine, and says what became of it.
///
/// # Errors
/// Where no block can be found or it cannot be run.
pub(crate) fn run_fleet_block(
    folder: &FleetFolder,
    asked: &AskedBlock,
    fake: Option<FakeTrials>,
) -> anyhow::Result<Exit> {
    let place = BlockPlace::find(&folder.plan, asked, &output::variable)?;
    let run = BlockRun { folder, place, variable: output::variable, fake };
    let mut display = ProgressDisplay::new(false, progress_text(folder)?);
    let number = place.block;
    match run_block(&run, &mut display) {
        Ok(BlockEnd::Ran(part)) => output::print_message(&format!("part  {}", part.display())),
        Ok(BlockEnd::Void(part)) => output::print_message(&format!(
            "block {number} is given up: its attempts had no result; {} says so",
            part.display()
        )),
        Ok(BlockEnd::Known) => output::print_message(&format!("block {number} has a result")),
        Ok(BlockEnd::Stopped(reason)) => {
            output::print_message(&format!("block {number} does not begin: {reason}"));
        }
        Err(FleetError::Run(RunError::Interrupted)) => {
            output::print_message(&format!("stopped by a signal: block {number} has no result"));
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Fine)
}

fn progress_text(folder: &FleetFolder) -> Result<ProgressText, FleetError> {
    let info = folder.info()?;
    let blocks = folder.plan.blocks.len() as u32;
    Ok(ProgressText::new(&info.primary, blocks, info.variants.len()))
}

/// Waits for the verdict, or looks `once`; then stops pending blocks and shows the results.
///
/// # Errors
/// Where the folder cannot be read or written.
pub(crate) fn conclude_fleet(
    folder: &FleetFolder,
    every: Duration,
    once: bool,
    json: bool,
) -> anyhow::Result<Exit> {
    match watch_fleet(folder, every, once)? {
        WatchEnd::Looked(look) => conclude(folder, &look, json),
        WatchEnd::Waiting => Ok(Exit::Undecided),
        WatchEnd::Interrupted => {
            output::print_message("interrupted; blocks go on, and so does another watch");
            Ok(Exit::Interrupted)
        }
    }
}

/// Stops pending blocks and shows the results.
fn conclude(folder: &FleetFolder, look: &FleetLook, json: bool) -> anyhow::Result<Exit> {
    for problem in stop(folder, &end_text(&look.end))? {
        output::print_message(&format!(
            "note: pending blocks may still begin, and then end at once: {problem}"
        ));
    }
    output::print_lines(fleet_text(&folder.plan, look).lines());
    if look.merged.is_none() {
        return Ok(Exit::Invalid);
    }
    let shown = ShownResults { json, ..ShownResults::default() };
    let results = show_results(&Store::open(&folder.results())?, shown)?;
    Ok(match look.end {
        LookEnd::Failed(_) | LookEnd::Unfit { .. } => Exit::Invalid,
        _ => Exit::of_verdicts(&results),
    })
}
