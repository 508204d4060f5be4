//! Runs a load in this process, whatever its protocol.

use crate::driven::DrivenLoad;
use crate::error::GeneratorError;
use crate::http::check_http;
use crate::progress::LoadProgress;
use crate::sidekiq::check_sidekiq;
use crate::sql_queue::check_sql_queue;
use carat_model::load::{LoadReport, LoadSpec};
use carat_model::with_load_protocols;
use std::ops::ControlFlow;

macro_rules! declare_drive {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// Runs a load in this process and passes its progress to `observe` ten times a second. Where that breaks, the load
        /// ends at once, and its report is that of what was done until then.
        ///
        /// # Errors
        /// If the load cannot be run at all.
        pub fn drive_until(
            spec: &LoadSpec,
            mut observe: impl FnMut(LoadProgress) -> ControlFlow<()>,
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

/// Runs a load in this process to its end and passes its progress to `observe` ten times a second.
///
/// # Errors
/// If the load cannot be run at all.
pub fn drive(
    spec: &LoadSpec,
    mut observe: impl FnMut(LoadProgress),
) -> Result<LoadReport, GeneratorError> {
    drive_until(spec, |progress| {
        observe(progress);
        ControlFlow::Continue(())
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::NullHttp;
    use carat_model::load::HttpOptions;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn a_load_that_is_stopped_reports_what_was_done_until_then() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let options = HttpOptions {
            connections: 2,
            rate: Some(500.0),
            requests: Some(10_000_000),
            ..HttpOptions::default()
        };
        let spec = LoadSpec::Http(options.load(&format!("http://{address}")).unwrap());
        let stop = AtomicBool::new(false);
        let report = thread::scope(|scope| {
            scope.spawn(|| NullHttp::new(listener, 13).unwrap().serve(&stop));
            let report = drive_until(&spec, |progress| match progress.done {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            });
            stop.store(true, Ordering::Relaxed);
            report.unwrap()
        });
        assert!((1..1_000_000).contains(&report.completed), "{report:?}");
        assert_eq!(report.errors, 0);
    }
}
