//! Where a ledger is from, and what may make its processes smaller.

use super::{DiagnosisKind, DiagnosisRow, WORTH_A_ROW, row, share};
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

    /// The variant under which the setting of a finding was tried.
    fn tried_as(self, finding: &Finding) -> Option<&'a str> {
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

fn all_findings(ledger: &Ledger, source: LedgerSource<'_>) -> Vec<Finding> {
    match source {
        LedgerSource::Recording(recording) => findings_beside_growth(ledger, &recording.growth),
        _ => findings(ledger, source.reading().unwrap_or(&OutsideReading::default())),
    }
}

/// Whether a finding can make the tree smaller by enough.
pub(super) fn is_help(finding: &Finding, ledger: &Ledger) -> bool {
    let most = finding.at_most.filter(|most| share(*most, ledger.pss) >= WORTH_A_ROW);
    finding.setting.is_some() && most.is_some()
}

/// The setting that could make the tree smallest, if the results file has tried it.
pub(super) fn tried(ledger: &Ledger, source: LedgerSource<'_>) -> Option<DiagnosisRow> {
    let all = all_findings(ledger, source);
    let finding = all.iter().find(|finding| is_help(finding, ledger))?;
    let (variant, (name, value)) = (source.tried_as(finding)?, finding.setting.as_ref()?);
    let text = format!("perhaps `{name} = \"{value}\"`, which was tried here as `{variant}`");
    Some(row(DiagnosisKind::Help, finding.at_most, text))
}
