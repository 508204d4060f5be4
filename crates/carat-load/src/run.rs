//! Runs a load in this process, whatever its protocol.

use crate::driven::DrivenLoad;
use crate::error::GeneratorError;
use crate::http::check_http;
use crate::progress::LoadProgress;
use crate::sidekiq::check_sidekiq;
use crate::sql_queue::check_sql_queue;
use carat_model::load::{LoadReport, LoadSpec};
use carat_model::with_load_protocols;

macro_rules! declare_drive {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// Runs a load in this process and passes its progress to `observe` ten times a second.
        ///
        /// # Errors
        /// If the load cannot be run at all.
        pub fn drive(
            spec: &LoadSpec,
            mut observe: impl FnMut(LoadProgress),
        ) -> Result<LoadReport, GeneratorError> {
            match spec {
                $(
                    LoadSpec::$variant(load) => {
                        <crate::$key::$protocol as DrivenLoad>::drive(load, &mut observe)
                    }
                )*
            }
        }
    };
}

with_load_protocols!(declare_drive);

/// Checks what a load needs beside its server: variables of the environment, files of data, selectors.
///
/// # Errors
/// If something is missing or malformed; the message names it.
pub fn check(spec: &LoadSpec) -> Result<(), GeneratorError> {
    match spec {
        LoadSpec::Http(load) => check_http(load),
        LoadSpec::Cable(_) => Ok(()),
        LoadSpec::Sidekiq(load) => check_sidekiq(load),
        LoadSpec::SqlQueue(load) => check_sql_queue(load),
    }
}
