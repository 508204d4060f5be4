//! The catalogue of settings, what an experiment or a user chose of it, and what follows for the server's start.
//!
//! One table ([`CATALOGUE`]) feeds `exec`, `compare`, help and docs. Choosing ([`Settings`]) is checked
//! against it; applying ([`Settings::environment`]) is pure: it answers which variables to set and which
//! libraries to preload, and leaves the doing to whoever starts the server.

pub mod allocator;
pub mod apply;
pub mod catalogue;
pub mod chosen;
pub mod elf;
pub mod manual;
pub mod profile;
pub mod value;
pub mod verify;

pub use allocator::find_allocator;
pub use apply::{ApplyError, Environment, StartContext};
pub use catalogue::{CATALOGUE, Mechanism, Setting};
pub use chosen::{SettingError, Settings};
pub use elf::{CLibrary, ElfKind, read_elf};
pub use manual::manual;
pub use profile::{EVIDENCE, PROFILES, Profile};
pub use value::Values;
pub use verify::{ProcessObservation, SettingCheck, SettingStatus, verify};
