//! Which settings a process was started with, and which remedies are therefore in effect.

use crate::core::ledger::{Ledger, ProcessLedger};
use carat_outside::unshared::{Remedy, UnsharedTable};
use carat_wire::env;

/// The value of a setting that the process was started with.
pub(super) fn requested<'a>(process: &'a ProcessLedger, setting: &str) -> Option<&'a str> {
    let (_, settings) = process.environment.iter().find(|(name, _)| name == env::SETTINGS)?;
    let mut pairs = settings.split(';').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == setting).map(|(_, value)| value)
}

/// The setting by which a remedy is applied.
fn setting_of(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::PrepareFork => Some("prepare_fork"),
        Remedy::WarmBeforeFork => Some("warm"),
        Remedy::FillCallCaches => Some("fill_call_caches"),
        Remedy::OwnWork => Some("worker_growth"),
        Remedy::FewerCollections | Remedy::FewerThreads => None,
    }
}

/// Takes out of the tables the remedies that the parents were started with: what is left is what they leave.
pub(crate) fn leave_out_remedies_in_effect(ledger: &Ledger, tables: &mut [UnsharedTable]) {
    for table in tables {
        let Some(parent) = ledger.processes.iter().find(|one| one.pid == table.parent) else {
            continue;
        };
        let in_effect = |remedy| {
            let value = setting_of(remedy).and_then(|setting| requested(parent, setting));
            value.is_some_and(|value| value != "off")
        };
        for share in &mut table.causes {
            share.remedy = share.remedy.filter(|&remedy| !in_effect(remedy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ledger::tests::ruby;
    use carat_outside::unshared::{Cause, CauseShare};
    use carat_ruby::version::V3_3;

    #[test]
    fn a_remedy_that_the_parent_was_started_with_is_not_offered_again() {
        for (settings, offered) in [
            ("prepare_fork=full;warm=20", true),
            ("prepare_fork=full;fill_call_caches=off", true),
            ("prepare_fork=full;fill_call_caches=on", false),
        ] {
            let environment = vec![(env::SETTINGS.to_owned(), settings.to_owned())];
            let parent = ProcessLedger { environment, ..ruby(10, 1) };
            let ledger = Ledger { processes: vec![parent], ..Ledger::default() };
            let mut tables = [rewritten(10)];
            leave_out_remedies_in_effect(&ledger, &mut tables);
            assert_eq!(tables[0].causes[0].remedy.is_some(), offered, "{settings}");
        }
    }

    #[test]
    fn the_settings_of_an_unknown_parent_take_nothing_out() {
        let mut tables = [rewritten(10)];
        leave_out_remedies_in_effect(&Ledger::default(), &mut tables);
        assert_eq!(tables[0].causes[0].remedy, Some(Remedy::FillCallCaches));
    }

    /// A worker of that parent, with pages that were written with the same bytes.
    fn rewritten(parent: u32) -> UnsharedTable {
        let share = CauseShare {
            cause: Cause::SameBytes,
            bytes: 4096.0,
            touched_bytes: 4096,
            alone_bytes: 4096,
            changed_bytes: None,
            remedy: Cause::SameBytes.remedy(V3_3),
        };
        UnsharedTable { parent, child: 11, causes: vec![share], ..UnsharedTable::default() }
    }
}
