//! The search for the best settings of one app: look, screen, adapt, choose, confirm.
//!
//! Every block is an ordinary experiment with a results file of its own. A search that was stopped begins again, finds the
//! files of the blocks that are done, proposes the same configurations, and goes on with the first that is missing. Only
//! a confirmation, fresh blocks of default and candidate, leads to a recommendation.

mod outcome;
mod search;
mod space;

pub use outcome::{Attempt, Hint, Recommendation, TriedConfiguration, TuneOutcome};
pub use search::{BlockTrials, TrialSource, TuneError, TuneEvent, TuneStage, tune};
pub use space::TuneSpace;
