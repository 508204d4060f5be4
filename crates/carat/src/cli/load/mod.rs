//! `carat load`: the load generator alone.

mod args;
mod live;
mod run;
mod self_test;
mod show;
mod steps;

pub use args::LoadArgs;
pub use run::run;
