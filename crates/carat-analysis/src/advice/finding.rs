//! Something to try, with its evidence.

use carat_model::Bytes;
use carat_model::ledger::{Ledger, PartKind};
use serde::Serialize;

/// A part below this share of the whole is not worth a trial.
pub(super) const WORTHWHILE: f64 = 0.05;

/// Something in a ledger that a setting might change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Stable code, such as `arenas`.
    pub code: &'static str,
    /// The evidence, with figures.
    pub evidence: String,
    /// What to do.
    pub remedy: String,
    /// The setting to try, by its name and value in the catalogue.
    pub setting: Option<(&'static str, String)>,
    /// The parts of the ledger that it could shrink, the largest first; none if it is about no single part.
    pub shrinks: Vec<PartKind>,
    /// The most by which it could shrink them, in bytes of PSS; `None` if the ledger does not say.
    pub at_most: Option<Bytes>,
}

impl Finding {
    /// Whether its setting may make the tree smaller by enough.
    pub(crate) fn can_help(&self, ledger: &Ledger) -> bool {
        let is_enough = self.at_most.is_some_and(|most| is_worthwhile(ledger, most));
        self.setting.is_some() && is_enough
    }
}

/// Whether so many bytes of a ledger are worth a trial.
pub(super) fn is_worthwhile(ledger: &Ledger, bytes: Bytes) -> bool {
    bytes.0 as f64 >= ledger.pss.0 as f64 * WORTHWHILE
}
