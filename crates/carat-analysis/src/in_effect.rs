//! Which settings a process was started with, and which remedies are therefore in effect.

use carat_model::ledger::{Ledger, ProcessLedger};
use carat_outside::unshared::{Remedy, UnsharedTable};
use carat_wire::env;

/// The value of a setting that the process was started with.
pub(super) fn requested<'a>(process: &'a ProcessLedger, setting: &str) -> Option<&'a str> {
    let (_, settings) = process.environment.iter().find(|(name, _)| name == env::SETTINGS)?;
    let mut pairs = settings.split(';').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == setting).map(|(_, value)| value)
}

/// Whether the process was started with a setting that is not off.
pub(super) fn is_in_effect(process: &ProcessLedger, setting: &str) -> bool {
    // `off` is written explicitly in a variant that switches a setting off.
    requested(process, setting).is_some_and(|value| value != "off")
}

/// Whether a process was started with the setting by which a remedy is applied.
fn has_remedy(process: &ProcessLedger, remedy: Remedy) -> bool {
    match remedy {
        Remedy::PrepareFork => is_in_effect(process, "prepare_fork"),
        Remedy::WarmBeforeFork => is_in_effect(process, "warm"),
        // A number of pages can be too small for a compiler, which counts calls.
        Remedy::CompileBeforeFork => requested(process, "warm") == Some("auto"),
        Remedy::FillCallCaches => is_in_effect(process, "fill_call_caches"),
        Remedy::OwnWork => is_in_effect(process, "worker_growth"),
        Remedy::FewerCollections | Remedy::FewerThreads | Remedy::NoCompaction => false,
    }
}

/// Takes out of the tables the remedies that the parents were started with: what is left is what they leave.
pub fn leave_out_remedies_in_effect(ledger: &Ledger, tables: &mut [UnsharedTable]) {
    for table in tables {
        // The parent decides: a remedy before the fork acts in it, not in the worker.
        let Some(parent) = ledger.processes.iter().find(|one| one.pid == table.parent) else {
            continue;
        };
        for share in &mut table.causes {
            if share.remedy.is_some_and(|remedy| has_remedy(parent, remedy)) {
                share.remedy = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::tests::{process, rewritten};

    #[test]
    fn a_remedy_that_the_parent_was_started_with_is_not_offered_again() {
        for (settings, offered) in [
            ("prepare_fork=full;warm=20", true),
            ("prepare_fork=full;fill_call_caches=off", true),
            ("prepare_fork=full;fill_call_caches=on", false),
        ] {
            let environment = vec![(env::SETTINGS.to_owned(), settings.to_owned())];
            let parent = ProcessLedger { environment, ..process(10, 1) };
            let ledger = Ledger { processes: vec![parent], ..Ledger::default() };
            let mut tables = [rewritten(11, 1)];
            leave_out_remedies_in_effect(&ledger, &mut tables);
            assert_eq!(tables[0].causes[0].remedy.is_some(), offered, "{settings}");
        }
    }

    #[test]
    fn pages_up_to_a_number_do_not_end_what_a_compiler_asks_for() {
        for (settings, offered) in [("warm=20", true), ("warm=auto", false)] {
            let environment = vec![(env::SETTINGS.to_owned(), settings.to_owned())];
            let parent = ProcessLedger { environment, ..process(10, 1) };
            let ledger = Ledger { processes: vec![parent], ..Ledger::default() };
            let mut tables = [rewritten(11, 1)];
            tables[0].causes[0].remedy = Some(Remedy::CompileBeforeFork);
            leave_out_remedies_in_effect(&ledger, &mut tables);
            assert_eq!(tables[0].causes[0].remedy.is_some(), offered, "{settings}");
        }
    }

    #[test]
    fn the_settings_of_an_unknown_parent_take_nothing_out() {
        let mut tables = [rewritten(11, 1)];
        leave_out_remedies_in_effect(&Ledger::default(), &mut tables);
        assert_eq!(tables[0].causes[0].remedy, Some(Remedy::FillCallCaches));
    }
}
