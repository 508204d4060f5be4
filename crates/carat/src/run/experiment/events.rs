//! What happens in an experiment, for whoever shows it.

use crate::analysis::Judgement;
use crate::core::Trial;
use crate::run::trial::{TrialPlan, TrialProgress};

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The first trial is about to start; `done` trials are in the file already.
    Begin {
        /// Trials that an earlier run finished.
        done: usize,
    },
    /// A trial starts.
    TrialBegins(&'a TrialPlan),
    /// A trial goes on.
    Trial(TrialProgress),
    /// A trial ended and is in the file.
    TrialEnds(&'a Trial),
    /// Every trial of a block ended; what follows from all blocks so far.
    BlockEnds {
        /// The block.
        block: u32,
        /// What follows.
        judgement: &'a Judgement,
    },
}

/// Hears what happens.
pub trait Listener {
    /// One event.
    fn hear(&mut self, event: &Event<'_>);
}
