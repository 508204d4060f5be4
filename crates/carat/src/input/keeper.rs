//! Who keeps the objects of the largest class, found out unasked where that is cheap.

use carat_analysis::class_in_question;
use carat_model::Ledger;
use carat_model::OutsideReading;
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::keeper::{KeeperBounds, find_keeper};
use std::time::Duration;

const BOUNDS: KeeperBounds =
    KeeperBounds { nodes: 3_000_000, bytes: 512 << 20, longest: Duration::from_secs(15) };

/// Adds to the reading of the process with the largest class who keeps that. Where it would be expensive, or is not known,
/// nothing is added, and the diagnosis names the command that asks for it.
pub(super) fn add_keeper(reading: &mut OutsideReading, ledger: &Ledger, options: &LookOptions) {
    let Some((process, class)) = class_in_question(ledger, reading) else { return };
    let class = class.to_owned();
    let census = reading.processes.iter_mut().find(|census| census.process == process);
    if let Some(census) = census
        && let Ok((who, reach)) = find_keeper(census, &class, &BOUNDS, options)
    {
        census.who = Some(who);
        // What the first reading counted agrees with its classes.
        match (census.reach, reach) {
            (Some(_), _) => {}
            (None, Ok(reach)) => census.reach = Some(reach),
            (None, Err(reason)) => census.unknown(CensusPart::Reach, reason),
        }
    }
}
