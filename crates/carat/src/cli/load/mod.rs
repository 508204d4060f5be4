//! `carat load`: the load generator alone.

mod args;
mod run;

pub(crate) use args::LoadArgs;
pub(crate) use run::run;
