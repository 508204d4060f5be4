//! `carat load`: the load generator alone.

mod args;
mod live;
mod run;
mod self_test;
mod show;
mod steps;

pub(crate) use args::LoadArgs;
pub(crate) use run::run;
