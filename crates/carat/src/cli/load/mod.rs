//! `carat load`: the load generator alone.

mod args;
mod live;
mod run;
mod show;

pub use args::LoadArgs;
pub use run::run;
