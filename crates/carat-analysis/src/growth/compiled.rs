//! Growth that Ruby's compiler may explain.
//!
//! A JIT compiles a method when it has been called often enough, so a server whose pages are requested unevenly compiles for
//! a long time, at a rate that looks like a leak. What it has taken is known at the beginning of a recording and at its end;
//! when it took it, is not.

use carat_model::ledger::PartKind;
use carat_model::{Bytes, GrowthKind, Ledger, PartGrowth, TrackedPart, Trial};
use std::collections::BTreeMap;

/// Bytes that a byte of compiled code may stand for.
///
/// Measured of YJIT on Ruby 3.3.8 (n = 1 each, machine busy), enabled after Ruby's own caches were full, for each byte of code:
///
/// | application | allocated by YJIT | more live in malloc | more private memory, the code included |
/// |---|--:|--:|--:|
/// | blog, Rails 7.2, 1.7 MB of code | 2.9 | 4.4 | 5.0 |
/// | a forked worker of it | 2.9 | 4.4 | 5.7 |
/// | Redmine 6.0, 11 to 13 MB of code | 2.4 | 3.6 to 4.2 | 3.8 to 5.2 |
///
/// Malloc adds headers, and rounds small chunks up. A worker also copies inherited pages: the entry of each method that is compiled
/// is written into its bytecode. With `--yjit-code-gc`, off by default, code was thrown away and growth was up to 14 times what was left.
const PER_BYTE_OF_CODE: f64 = 6.0;

/// The most that the compiler of a tree may have taken; `None` where it has no code.
pub(super) fn compilers_most(ledger: &Ledger) -> Option<f64> {
    let parts = ledger.parts.iter().filter(|part| part.kind == PartKind::Jit);
    let code: Bytes = parts.map(|part| part.pss).sum();
    (code > Bytes(0)).then_some(code.0 as f64 * PER_BYTE_OF_CODE)
}

/// The most that the compiler may have taken under the load of one of these trials.
pub(super) fn compilers_most_under_load<'a>(
    trials: impl Iterator<Item = &'a Trial>,
) -> Option<f64> {
    let most = trials.filter_map(|trial| {
        let mut ledgers = trial.samples.iter().filter_map(|sample| sample.ledger.as_deref());
        let first = ledgers.next()?;
        match ledgers.next_back() {
            // Nothing was compiled before the load, or the results are of a carat that did not look.
            None => compilers_most(first),
            Some(last) => compilers_most_since(&first.jit_code_by_process(), last),
        }
    });
    most.max_by(f64::total_cmp)
}

/// The most that the compiler of a tree may have taken since each of these processes had so much code; of any other process
/// all of it is new, and so it is where code was thrown away meanwhile, which is then compiled again.
pub(super) fn compilers_most_since(before: &BTreeMap<u32, Bytes>, ledger: &Ledger) -> Option<f64> {
    let compilers = ledger.jit_code_by_process();
    let added = compilers.iter().map(|(pid, code)| {
        let kept = before.get(pid).filter(|before| *before <= code);
        code.saturating_sub(kept.copied().unwrap_or_default())
    });
    let added: Bytes = added.sum();
    (!compilers.is_empty()).then_some(added.0 as f64 * PER_BYTE_OF_CODE)
}

/// Leaves undecided what is called linear and has grown by no more than the compiler may have taken.
pub(super) fn leave_to_compiler(found: &mut [PartGrowth], most: Option<f64>) {
    let Some(most) = most else { return };
    // Compiled code is none of Ruby's objects.
    let touched = [TrackedPart::Memory, TrackedPart::Private, TrackedPart::MallocLive];
    for part in found.iter_mut().filter(|part| touched.contains(&part.part)) {
        let least_rate = part.interval.map(|(low, _)| low).or(part.rate);
        let Some(least_rate) = least_rate.filter(|_| part.kind == GrowthKind::Linear) else {
            continue;
        };
        if least_rate * part.over <= most {
            part.kind = GrowthKind::Undecided;
            part.per_day = None;
            part.compiler = Some(most);
            // From there on more has come than the compiler can have taken, if it takes no more.
            part.needed = (least_rate > 0.0).then_some(most / least_rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::classify_part;
    use crate::growth::tests::line;
    use crate::pairs::tests::trial;
    use carat_model::ledger::{LedgerPart, ProcessLedger};
    use carat_model::{ProgressUnit, Sample};

    fn ledger(code: u64) -> Ledger {
        let (pss, kind) = (Bytes(code), PartKind::Jit);
        let part = LedgerPart { kind, pss, private: pss, resident: pss };
        Ledger { parts: vec![part], ..Ledger::default() }
    }

    #[test]
    fn what_was_compiled_before_explains_nothing_and_thrown_away_code_may_explain_all() {
        let process = |pid: u32, code: u64| {
            let parts = ledger(code).parts;
            ProcessLedger { pid, parts, ..ProcessLedger::default() }
        };
        let before = BTreeMap::from([(1, Bytes(9_000)), (2, Bytes(5_000)), (3, Bytes(7_000))]);
        for (processes, most) in [
            (vec![process(1, 9_000)], Some(0.0)),
            (vec![process(1, 9_000), process(2, 6_000)], Some(6_000.0)),
            // One that was not there before, and one that threw code away.
            (vec![process(4, 2_000), process(3, 4_000)], Some(36_000.0)),
            (vec![process(1, 0)], None),
        ] {
            let ledger = Ledger { processes, ..Ledger::default() };
            assert_eq!(compilers_most_since(&before, &ledger), most, "{ledger:?}");
        }
    }

    #[test]
    fn what_a_trial_compiled_before_its_load_explains_no_growth_under_it() {
        let sample = |code: u64| {
            let parts = ledger(code).parts;
            let process =
                ProcessLedger { pid: 1, parts: parts.clone(), ..ProcessLedger::default() };
            let ledger = Ledger { processes: vec![process], parts, ..Ledger::default() };
            Sample { ledger: (code > 0).then(|| Box::new(ledger)), ..Sample::default() }
        };
        let with = |codes: &[u64]| {
            let mut one = trial(1, "yjit", &[]);
            one.samples = codes.iter().map(|code| sample(*code)).collect();
            one
        };
        let warmed = || with(&[0, 2_000_000, 0, 2_100_000]);
        for (trials, most) in [
            (vec![warmed()], Some(600e3)),
            // Read at the end alone.
            (vec![with(&[0, 2_000_000])], Some(12e6)),
            (vec![warmed(), with(&[1_000_000, 2_000_000]), warmed()], Some(6e6)),
            (vec![with(&[0, 0])], None),
        ] {
            assert_eq!(compilers_most_under_load(trials.iter()), most);
        }
    }

    /// The growth of a part by so many bytes per request over 200,000 requests, beside this much code.
    fn grown(part: TrackedPart, slope: f64, code: u64) -> PartGrowth {
        let mut found = [classify_part(part, ProgressUnit::Requests, &line(4e6, slope))];
        assert_eq!(found[0].kind, GrowthKind::Linear);
        leave_to_compiler(&mut found, compilers_most(&ledger(code)));
        found[0]
    }

    #[test]
    fn growth_that_the_compiler_may_explain_is_undecided_and_more_is_a_leak() {
        use TrackedPart::{KeptMemory, KeptObjects, MallocFree, MallocLive, Memory, Private};
        for part in [Memory, Private, MallocLive] {
            // 50 bytes per request are 10 MB, which 2 MB of code explain and 1 MB does not.
            let explained = grown(part, 50.0, 2_000_000);
            assert_eq!(explained.kind, GrowthKind::Undecided);
            assert_eq!(explained.compiler, Some(12e6));
            assert!((explained.needed.unwrap() / 240e3 - 1.0).abs() < 0.02, "{explained:?}");
            assert_eq!(grown(part, 50.0, 1_000_000).kind, GrowthKind::Linear);
            let without = classify_part(part, ProgressUnit::Requests, &line(4e6, 50.0));
            assert_eq!(grown(part, 50.0, 0), without);
        }
        for part in [KeptObjects, KeptMemory, MallocFree] {
            assert_eq!(grown(part, 50.0, 2_000_000).kind, GrowthKind::Linear);
        }
    }
}
