//! Waits for the verdict of a fleet.

use crate::fleet::{BlocksBroughtForward, FleetError, FleetFolder, FleetLook, LookEnd};
use crate::run::Interrupt;
use crate::view::{fleet_text, output};
use std::time::Duration;

/// How a watch ended.
#[derive(Debug)]
pub(crate) enum WatchEnd {
    /// The fleet ended with this.
    Looked(Box<FleetLook>),
    /// There is no verdict yet, and one look was asked for.
    Waiting,
    /// The user requested to stop.
    Interrupted,
}

/// Looks at the parts until the fleet ends. Everything that it knows is in the folder, so it can be killed at any time.
///
/// # Errors
/// Where the folder cannot be read or written.
pub(crate) fn watch_fleet(
    folder: &FleetFolder,
    every: Duration,
    once: bool,
) -> anyhow::Result<WatchEnd> {
    let interrupt = Interrupt::on_signals()?;
    let mut seen = None;
    let mut forward = BlocksBroughtForward::default();
    loop {
        let parts = folder.parts()?;
        if seen.as_ref() != Some(&parts) {
            let look = look(folder)?;
            if !matches!(look.end, LookEnd::Waiting) {
                return Ok(WatchEnd::Looked(Box::new(look)));
            }
            output::print_lines(fleet_text(&folder.plan, &look).lines());
            seen = Some(parts);
        }
        for refused in forward.bring(folder)? {
            output::print_message(&format!("note: {refused}"));
        }
        if once {
            return Ok(WatchEnd::Waiting);
        }
        if interrupt.requested_within(every) {
            return Ok(WatchEnd::Interrupted);
        }
    }
}

/// Looks at the parts and keeps what was found. One process at a time, because both write the same file.
fn look(folder: &FleetFolder) -> Result<FleetLook, FleetError> {
    let _lock = folder.lock()?;
    let mut look = FleetLook::at(folder)?;
    look.keep(folder)?;
    Ok(look)
}
