//! Simulated apps with a known truth, to check what a search recommends. `bin/bench tune` prints the tables.

mod app;
mod procedure;

pub use app::{SimulatedApp, World};
pub use procedure::{Summary, summarize};
