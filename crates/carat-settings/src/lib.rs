//! The catalogue of settings, what an experiment or a user chose of it, and what follows for the server's start.
//!
//! Each setting is a type that implements [`setting::Setting`]; the lists in [`catalogue`] feed `exec`, `compare`,
//! help and docs. Choices ([`Settings`]) are parsed once. Applying them ([`Settings::environment`]) is pure: it
//! returns which variables to set and which libraries to preload, and the caller starts the server.

mod allocator;
mod apply;
mod catalogue;
mod chosen;
mod elf;
mod environment;
mod linked;
mod manual;
mod observation;
mod profile;
mod searchable;
mod setting;
mod spelling;
#[cfg(test)]
mod tests;
mod value;
mod verify;

pub use allocator::find_allocator;
pub use catalogue::find as find_setting;
pub use chosen::{SettingError, Settings};
pub use elf::{ElfKind, read_elf, read_ruby_version};
pub use environment::{ApplyError, Environment, Scrub, StartContext};
pub use linked::linked_malloc;
pub use manual::{list, manual, summaries};
pub use observation::{MallocInUse, ProcessObservation, RuntimeReport, SettingStatus};
pub use profile::profiles;
pub use searchable::{
    LeftOutSetting, SearchableSetting, SearchedServer, accepts, searchable_settings,
};
pub use verify::{SettingCheck, verify};
