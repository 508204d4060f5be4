//! Trials until there is a verdict, recordings, and the sampling session that both share.

pub mod experiment;
mod interrupt;
mod machine;
pub(crate) mod recording;
mod session;
pub mod trial;
pub mod tune;
mod verifier;
pub(crate) mod workloads;

pub use interrupt::Interrupt;
pub use machine::machine_facts;
pub(crate) use verifier::{Verification, start_verifier};
