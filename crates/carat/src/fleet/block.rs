//! One block on this machine, as a part of the fleet's results.

use crate::fleet::create::binary_hash;
use crate::fleet::plan::MOST_ATTEMPTS;
use crate::fleet::{BlockPlace, FleetError, FleetFolder};
use crate::run::experiment::{
    EventHandler, ExperimentRequest, FakeTrials, PreparedExperiment, RunError,
};
use crate::store::{BlockAttempt, MergedParts};
use crate::target::new_token;
use carat_files::{NamedBy, write_file};
use carat_model::Trial;
use carat_model::fleet::{HOST, MACHINE_TYPE};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A machine that ran a block of the fleet within this time is warm.
const STAYS_WARM: Duration = Duration::from_secs(600);
/// Variables in which an engine names the machine; a container has a name of its own.
const NODE_NAMES: [&str; 2] = ["SLURMD_NODENAME", "NODE_NAME"];

/// How a block ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockEnd {
    /// Its trials are in this part.
    Ran(PathBuf),
    /// Too many attempts ended without a result; this part gives the block up.
    Void(PathBuf),
    /// It has a part already, so nothing ran.
    Known,
    /// No block may begin any more, for this reason.
    Stopped(String),
}

#[derive(Debug)]
pub struct BlockRun<'a> {
    pub folder: &'a FleetFolder,
    pub place: BlockPlace,
    /// Reads carat's own environment.
    pub variable: fn(&str) -> Option<String>,
    /// Simulated servers instead of real ones.
    pub fake: Option<FakeTrials>,
}

/// Runs one block and writes its part, or leaves no trace.
///
/// # Errors
/// Where the fleet was planned with another carat or another experiment, or where the block did not come to its end.
pub fn run_block(
    run: &BlockRun<'_>,
    events: &mut dyn EventHandler,
) -> Result<BlockEnd, FleetError> {
    let (folder, BlockPlace { block, attempt }) = (run.folder, run.place);
    // Before anything is prepared, because engines can begin blocks after the verdict.
    if let Some(reason) = folder.stopped() {
        return Ok(BlockEnd::Stopped(reason));
    }
    // Not again: a job that was submitted twice would add an attempt for nothing.
    if folder.has_part(block)? {
        return Ok(BlockEnd::Known);
    }
    // Another carat measures differently, and its trials would not be comparable.
    if binary_hash()? != folder.plan.binary {
        return Err(FleetError::OtherBinary(folder.path().to_owned()));
    }
    let info = folder.info()?;
    let token = new_token();
    // Engines count attempts of one job; the marks also count those of a job that was submitted again.
    let number = folder.begin_attempt(block, &token)?.max(attempt);
    let part = folder.part((block, number, &token));
    // A block without trials gives the block up; nothing is prepared for it.
    let trials = if number > MOST_ATTEMPTS {
        Vec::new()
    } else {
        run.trials(run.prepare_experiment()?, events).inspect_err(|error| {
            // An interruption says nothing about machine or block.
            if matches!(error, FleetError::Run(RunError::Interrupted)) {
                folder.withdraw_attempt(block, &token);
            }
        })?
    };
    let is_void = trials.is_empty();
    let attempt = BlockAttempt { block, number, token, looked: false, trials };
    MergedParts::single(info, attempt, &part).write_new(&part)?;
    Ok(if is_void { BlockEnd::Void(part) } else { BlockEnd::Ran(part) })
}

impl BlockRun<'_> {
    /// Reads the copy of the experiment and prepares it for this machine.
    fn prepare_experiment(&self) -> Result<PreparedExperiment, FleetError> {
        let plan = &self.folder.plan;
        let request = ExperimentRequest {
            experiment: self.folder.experiment(),
            blocks: Some(plan.max_blocks),
            seed: Some(plan.seed),
            folder: Some(plan.folder.clone()),
            fake: self.fake.clone(),
            ..ExperimentRequest::default()
        };
        let prepared = PreparedExperiment::new(request, &self.variable)?;
        // The copy of the experiment can have been changed since the fleet was planned.
        if prepared.info.plan_hash != plan.plan_hash {
            return Err(FleetError::OtherPlan(self.folder.experiment()));
        }
        Ok(prepared)
    }

    /// The trials of the block, each with the facts of this machine in the fleet.
    fn trials(
        &self,
        prepared: PreparedExperiment,
        events: &mut dyn EventHandler,
    ) -> Result<Vec<Trial>, FleetError> {
        let host = self.host();
        let mark = WarmMark::new(self.folder, &host);
        let needs_warm_up = prepared.experiment.trials.warmup_block && !mark.is_fresh();
        let mut bench = prepared.bench()?;
        if needs_warm_up {
            bench.warm_up(events)?;
        }
        let mut trials = bench.block(self.place.block, events)?;
        // Only after a block that has ended: that has warmed the machine up.
        mark.renew();
        let machine_type = self.folder.plan.fleet().type_of(self.place.block).map(str::to_owned);
        for trial in &mut trials {
            let facts = [(HOST, Some(host.clone())), (MACHINE_TYPE, machine_type.clone())];
            let facts =
                facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            trial.machine.extend(facts);
        }
        Ok(trials)
    }

    /// The name of this machine.
    fn host(&self) -> String {
        let named = NODE_NAMES.iter().find_map(|name| (self.variable)(name));
        let kernels = fs::read_to_string("/proc/sys/kernel/hostname");
        named.or(kernels.ok()).unwrap_or_default().trim().to_owned()
    }
}

/// A file in the folder of the fleet that says when a machine last ran a block. A container has no cache that outlives it.
struct WarmMark(PathBuf);

impl WarmMark {
    fn new(folder: &FleetFolder, host: &str) -> Self {
        // A host's name becomes a part of a file's name.
        let host = host.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Self(folder.path().join(format!(".warm-{host}")))
    }

    fn is_fresh(&self) -> bool {
        let modified = fs::metadata(&self.0).and_then(|found| found.modified());
        // A time in the future is that of a clock that was set back.
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < STAYS_WARM))
    }

    fn renew(&self) {
        // Without the mark the next block warms the machine up once more.
        let _ = write_file(&self.0, b"", NamedBy::Carat);
    }
}
