//! Trials until there is a verdict, recordings, and the sampling session that both share.

pub mod experiment;
mod interrupt;
mod machine;
pub(crate) mod recording;
mod sampled_tree;
mod settings_look;
pub mod trial;
pub mod tune;
mod verifier;
pub(crate) mod workloads;

pub use interrupt::Interrupt;
pub use machine::machine_facts;
pub use settings_look::{SettingsLook, is_applied, look_at_settings};
pub(crate) use verifier::start_verifier;
