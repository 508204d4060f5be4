//! A look at the parts of a fleet: what has a result, what counts, and whether that decides.

use crate::fleet::{FleetError, FleetFolder};
use crate::run::experiment::{Replay, ReplayEnd, RunError, SettledBlocks, replay};
use crate::store::MergedParts;

/// What the parts of a fleet show. Looking changes nothing.
#[derive(Debug)]
pub struct FleetLook {
    /// The union of all parts; `None` before the first.
    pub merged: Option<MergedParts>,
    /// A line per type of machine.
    pub types: Vec<MachineTypeCount>,
    /// The numbers of the blocks that count.
    pub counted: Vec<u32>,
    /// Whether more blocks would count.
    pub end: LookEnd,
}

/// The blocks of one type of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineTypeCount {
    pub name: String,
    /// Planned blocks.
    pub planned: usize,
    /// Blocks with a result.
    pub done: usize,
    /// Blocks that were given up.
    pub void: usize,
    /// Blocks that have begun and have no result yet.
    pub begun: usize,
}

/// Whether a fleet goes on.
#[derive(Debug)]
pub enum LookEnd {
    /// The next block has no result yet.
    Waiting,
    /// No further block would count.
    Decided,
    /// A variant fails, so further blocks would fail too.
    Failed(RunError),
    /// Every planned block has been used without a verdict.
    UsedUp,
    /// So many blocks were given up that machines or experiment are unsuitable.
    Unfit {
        /// Blocks that were given up.
        void: usize,
        /// The most that may be.
        most: usize,
    },
}

impl FleetLook {
    /// Looks at the parts, and at the results file with what earlier looks have counted.
    ///
    /// # Errors
    /// Where a part is damaged, foreign or contradicts another.
    pub fn at(folder: &FleetFolder) -> Result<Self, FleetError> {
        let mut paths = folder.parts()?;
        // The results file too, because only it knows what earlier looks have counted.
        paths.extend(Some(folder.results()).filter(|path| path.exists()));
        if paths.is_empty() {
            let types = types(folder, &SettledBlocks::new())?;
            return Ok(Self { merged: None, types, counted: Vec::new(), end: LookEnd::Waiting });
        }
        let merged = MergedParts::read(&paths)?;
        let plan = &folder.plan;
        let fleet = plan.fleet();
        let info = merged.info();
        // All parts are of one fleet, so the first stands for them.
        if *info != folder.info()? {
            return Err(FleetError::Foreign(paths[0].clone(), folder.path().to_owned()));
        }
        let counted = merged.counted().into_iter();
        // Of all attempts only those that count, chosen without a look at their values.
        let settled: SettledBlocks =
            counted.map(|(block, attempt)| (block, attempt.trials.clone())).collect();
        let types = types(folder, &settled)?;
        let Replay { blocks, end, .. } = replay(info, &fleet, &settled);
        let void: usize = types.iter().map(|one| one.void).sum();
        let most = plan.most_void();
        let end = match end {
            ReplayEnd::Decided => LookEnd::Decided,
            ReplayEnd::Failed(error) => LookEnd::Failed(error),
            // A verdict and a failure are final, however many blocks were given up.
            _ if void > most => LookEnd::Unfit { void, most },
            ReplayEnd::UsedUp => LookEnd::UsedUp,
            ReplayEnd::Waiting => LookEnd::Waiting,
        };
        Ok(Self { merged: Some(merged), types, counted: blocks, end })
    }

    /// Writes the results file, in which the attempts that counted here count for ever.
    ///
    /// # Errors
    /// Where it cannot be written; the old one is unchanged then.
    pub fn keep(&mut self, folder: &FleetFolder) -> Result<(), FleetError> {
        if let Some(merged) = &mut self.merged {
            // Marked before it is written: what was shown once must count for ever.
            merged.mark_looked(&self.counted);
            merged.replace(&folder.results())?;
        }
        Ok(())
    }
}

fn types(
    folder: &FleetFolder,
    settled: &SettledBlocks,
) -> Result<Vec<MachineTypeCount>, FleetError> {
    let fleet = folder.plan.fleet();
    let mut counts = Vec::new();
    for name in fleet.type_names() {
        let mut count =
            MachineTypeCount { name: name.to_owned(), planned: 0, done: 0, void: 0, begun: 0 };
        for block in fleet.blocks_of(name) {
            count.planned += 1;
            match settled.get(&block) {
                Some(trials) if trials.is_empty() => count.void += 1,
                Some(_) => count.done += 1,
                None => count.begun += usize::from(folder.attempts(block)? > 0),
            }
        }
        counts.push(count);
    }
    Ok(counts)
}
