//! Trials until there is a verdict.

pub mod experiment;
pub mod trial;
