//! Where a ledger is from, and what may make its processes smaller.

use crate::advice::{Finding, findings, findings_beside_growth};
use carat_model::ledger::Ledger;
use carat_model::{OutsideReading, Recording, Variant};

/// Where a ledger is from.
#[derive(Debug, Clone, Copy)]
pub enum LedgerSource<'a> {
    /// Running processes, with what was read of them from outside.
    Processes(Option<&'a OutsideReading>),
    /// The end of a recording.
    Recording(&'a Recording),
    /// A trial of a results file that compares these.
    Results(&'a [Variant]),
}

impl<'a> LedgerSource<'a> {
    /// What was read from outside; of a file nothing was.
    pub fn reading(self) -> Option<&'a OutsideReading> {
        match self {
            Self::Processes(reading) => reading,
            Self::Recording(_) | Self::Results(_) => None,
        }
    }

    /// The variant of a results file that has the setting of a finding.
    pub(super) fn tried_as(self, finding: &Finding) -> Option<&'a str> {
        let (Self::Results(variants), Some((name, value))) = (self, &finding.setting) else {
            return None;
        };
        let tried = variants.iter().find(|variant| variant.settings.get(*name) == Some(value))?;
        Some(&tried.name)
    }
}

/// What may make the processes of a ledger smaller. Proven growth is not answered by a setting for free memory, and what a results
/// file has tried is answered by its verdict.
pub fn findings_of(ledger: &Ledger, source: LedgerSource<'_>) -> Vec<Finding> {
    let mut found = all_findings(ledger, source);
    found.retain(|finding| source.tried_as(finding).is_none());
    found
}

/// The same with those that a results file has tried.
pub(super) fn all_findings(ledger: &Ledger, source: LedgerSource<'_>) -> Vec<Finding> {
    match source {
        LedgerSource::Recording(recording) => findings_beside_growth(ledger, &recording.growth),
        _ => findings(ledger, source.reading().unwrap_or(&OutsideReading::default())),
    }
}
