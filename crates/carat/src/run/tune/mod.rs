//! The search for the best settings of one app: look, screen, adapt, choose, confirm.
//!
//! Every block is an ordinary experiment with a results file of its own. A search that was stopped begins again, finds the
//! files of the blocks that are done, proposes the same configurations, and goes on with the first that is missing. Only
//! a confirmation, fresh blocks of default and candidate, leads to a recommendation.

mod confirm;
mod error;
mod events;
mod fake;
mod forecast;
mod goal;
mod look;
mod outcome;
mod search;
mod space;
mod tried;

pub use error::TuneError;
pub use events::{TuneEvent, TuneHost, TunePlan, TuneProgress, TuneStage};
pub use fake::{FakeApp, FakeEffect};
pub use forecast::GuardForecast;
pub use look::LOOK_TRIALS;
pub use search::{TuneOptions, tune};
pub use space::TuneSpace;
