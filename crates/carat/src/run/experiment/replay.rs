//! What one machine would have counted of blocks that several machines ran.
//!
//! Machines run blocks ahead of the verdict and end them in any order. Taking the blocks in the order of their numbers and
//! asking before each whether it would have run gives the trials of `carat compare` with the same seed, whichever machine
//! was fast.

use crate::run::experiment::blocks::{RunError, stop_on_failures};
use crate::store::{Store, StoreError};
use carat_analysis::question;
use carat_analysis::{Judge, NextStep};
use carat_model::{ExperimentInfo, Fleet, Results, Trial};
use std::collections::BTreeMap;

/// Trials by block; a block that was given up has none, and a block without an entry may still get a result.
pub type SettledBlocks = BTreeMap<u32, Vec<Trial>>;

/// The trials that count, and whether more would.
#[derive(Debug)]
pub struct Replay {
    /// The trials in the order of the blocks. `block` is the place in that order: a block that was given up is replaced by
    /// the next one of its machine type.
    pub trials: Vec<Trial>,
    /// The numbers of the blocks that count, in order.
    pub blocks: Vec<u32>,
    /// Whether the blocks so far decide.
    pub end: ReplayEnd,
}

/// Whether more blocks would count.
#[derive(Debug)]
pub enum ReplayEnd {
    /// The next place has no result yet.
    Waiting,
    /// No further block would run.
    Decided,
    /// One machine would have stopped, because a variant fails.
    Failed(RunError),
    /// Every planned block has been used.
    UsedUp,
}

/// The trials that one machine would have counted.
pub fn replay(info: &ExperimentInfo, fleet: &Fleet, settled: &SettledBlocks) -> Replay {
    let judge = Judge::new(question(info));
    let (order, is_all) = filled(fleet, settled);
    let (mut trials, mut blocks) = (Vec::new(), Vec::new());
    // Places are numbered anew, as one machine would have numbered its blocks.
    for (place, block) in (1..).zip(order) {
        // Before each block, as on one machine: what ran ahead of the verdict does not count.
        let NextStep::Continue(active) = judge.judge(&trials).next else {
            return Replay { trials, blocks, end: ReplayEnd::Decided };
        };
        blocks.push(block);
        // A variant that was decided before would not have run in this block.
        for trial in settled[&block].iter().filter(|trial| active.contains(&trial.variant)) {
            trials.push(Trial { block: place, ..trial.clone() });
            if let Err(error) = stop_on_failures(&trials, &trial.variant) {
                return Replay { trials, blocks, end: ReplayEnd::Failed(error) };
            }
        }
    }
    let end = match judge.judge(&trials).next {
        NextStep::Stop(_) => ReplayEnd::Decided,
        NextStep::Continue(_) if is_all => ReplayEnd::UsedUp,
        NextStep::Continue(_) => ReplayEnd::Waiting,
    };
    Replay { trials, blocks, end }
}

/// The block at every place up to the first without a result, and whether no place can be filled later.
///
/// A place belongs to a type of machine. The next block of that type that was not given up fills it.
fn filled(fleet: &Fleet, settled: &SettledBlocks) -> (Vec<u32>, bool) {
    let mut next = BTreeMap::new();
    for name in fleet.type_names() {
        let blocks = fleet.blocks_of(name);
        next.insert(name, blocks.filter(|block| settled.get(block) != Some(&Vec::new())));
    }
    let mut order = Vec::new();
    for machine_type in &fleet.types {
        match next.get_mut(machine_type.as_str()).and_then(Iterator::next) {
            Some(block) if settled.contains_key(&block) => order.push(block),
            // A block that can still get a result keeps its place, whichever machine is faster.
            missing => return (order, missing.is_none()),
        }
    }
    (order, true)
}

/// The results in a file; of a fleet's, the trials that one machine would have counted.
///
/// # Errors
/// If the file cannot be read.
pub fn results_of(store: &Store) -> Result<Results, StoreError> {
    let mut results = store.results()?;
    if let Some(fleet) = &results.info.fleet {
        let mut settled: SettledBlocks = BTreeMap::new();
        // An attempt that gave a block up has no trial; its block has other attempts' trials, or none. One that is not complete
        // decides nothing (`MergedParts::counted`): the block can still get a result.
        for attempt in store.attempts()?.iter().filter(|attempt| attempt.is_void()) {
            settled.entry(attempt.block).or_default();
        }
        for trial in std::mem::take(&mut results.trials) {
            settled.entry(trial.block).or_default().push(trial);
        }
        results.trials = replay(&results.info, fleet, &settled).trials;
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(types: &[&str]) -> Fleet {
        Fleet { binary: String::new(), types: types.iter().map(|&name| name.into()).collect() }
    }

    fn settled(with_trials: &[u32], void: &[u32]) -> SettledBlocks {
        let found = with_trials.iter().map(|&block| (block, vec![Trial::bare(block, "a")]));
        found.chain(void.iter().map(|&block| (block, Vec::new()))).collect()
    }

    #[test]
    fn blocks_count_in_the_order_of_their_numbers_up_to_the_first_without_a_result() {
        let fleet = fleet(&["a", "b", "b", "a"]);
        assert_eq!(filled(&fleet, &settled(&[4, 1, 2], &[])), (vec![1, 2], false));
        assert_eq!(filled(&fleet, &settled(&[2, 3, 4], &[])), (vec![], false));
        assert_eq!(filled(&fleet, &settled(&[1, 2, 3, 4], &[])), (vec![1, 2, 3, 4], true));
    }

    #[test]
    fn a_block_that_was_given_up_is_replaced_by_the_next_of_its_type() {
        let fleet = fleet(&["a", "b", "b", "a", "a", "b"]);
        let (order, is_all) = filled(&fleet, &settled(&[2, 3, 4, 5, 6], &[1]));
        assert_eq!((order, is_all), (vec![4, 2, 3, 5], true), "the third place of `a` stays empty");
        assert_eq!(filled(&fleet, &settled(&[2, 3], &[1])), (vec![], false), "block 4 is awaited");
    }
}
