//! The search for the best settings: outcomes of trials in, the next configurations to try out.
//!
//! A search has two phases. A *screen* shows every level a few times. Then each place of a block goes to the configuration
//! that is best in one draw from the posterior of an additive model (Thompson sampling: W. R. Thompson, Biometrika 25,
//! 1933). Afterwards the model's choice is a candidate and nothing more: only fresh blocks of default and candidate,
//! judged by `carat-stats`, support a claim. `docs/explanation/method.md` says what simulations showed about the procedure.
//!
//! No I/O and no clock. Every random number depends on the seed and the number of the block, so that a search that
//! continues from its trials proposes the same configurations.

mod choose;
mod confirm;
mod linear;
mod model;
mod search;
pub mod simulate;
mod space;

pub use choose::{Choice, Effect};
pub use confirm::{Confirmation, ConfirmationEnd};
pub use model::{Model, Observation, Prior};
pub use search::{Search, SearchPlan, SearchTrial};
pub use space::{Condition, Configuration, Factor, Space, SpaceError};
