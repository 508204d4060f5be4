//! Trials until there is a verdict, recordings, and the sampling session that both share.

pub mod experiment;
mod interrupt;
mod machine;
pub(crate) mod recording;
mod session;
pub mod trial;
mod verifier;

pub use interrupt::Interrupt;
pub(crate) use verifier::start_verifier;
pub use machine::machine_facts;
