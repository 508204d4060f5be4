//! What to try under jemalloc, given its memory as it was read from outside.
//!
//! Free memory of jemalloc is in slabs, or in pages that no region uses. Which setting could return it depends on where it is, so
//! each finding counts other bytes.

use crate::advice::finding::{Finding, is_worthwhile};
use carat_model::ledger::{Ledger, PartKind};
use carat_model::{Bytes, count};
use carat_outside::census::Census;
use carat_outside::malloc::{ArenaCensus, JemallocArena, JemallocCensus};

/// Arenas of a process with `narenas:2`, and the one for large regions.
const FEW_ARENAS: usize = 3;
/// Milliseconds that dirty pages stay where they are said to stay short.
const SHORT_MS: i64 = 1000;
/// A thread may be late by this time, in milliseconds, when it returns pages.
const LATE_MS: u64 = 1000;
/// Less than this part of what a finding counts does not decide about its options.
const FEW: u64 = 10;
/// Options that return unused pages.
const DIRTY: JemallocOption = ("dirty_decay_ms", "1000");
const MUZZY: JemallocOption = ("muzzy_decay_ms", "0");
const BACKGROUND: JemallocOption = ("background_thread", "true");
/// The variable with jemalloc's options.
const VARIABLE: &str = "MALLOC_CONF";

/// Name and value of an option.
type JemallocOption = (&'static str, &'static str);

/// One process with jemalloc.
struct Reader<'a> {
    process: u32,
    jemalloc: &'a JemallocCensus,
    arenas: &'a [ArenaCensus],
}

/// Free memory of jemalloc that one option could return.
struct Returnable {
    code: &'static str,
    bytes: u64,
    evidence: String,
    remedy: &'static str,
    options: &'static [JemallocOption],
}

/// Every finding about jemalloc, or `None` where no process was read that uses it.
pub(super) fn jemalloc_findings(ledger: &Ledger, censuses: &[Census]) -> Option<Vec<Finding>> {
    let readers: Vec<Reader<'_>> = censuses.iter().filter_map(Reader::of).collect();
    if readers.is_empty() {
        return None;
    }
    let found = [stale(&readers), slow(&readers), scattered(&readers)];
    Some(found.into_iter().filter_map(|one| one.finding(ledger)).collect())
}

impl<'a> Reader<'a> {
    fn of(census: &'a Census) -> Option<Self> {
        // Only of processes whose malloc was read: what is unknown must not count as 0.
        let malloc = census.malloc.as_ref()?;
        let jemalloc = malloc.jemalloc.as_ref()?;
        Some(Self { process: census.process, jemalloc, arenas: &malloc.arenas })
    }

    /// Bytes in memory of the unused pages of some arenas.
    fn unused(&self, counts: impl Fn(&JemallocArena) -> bool) -> u64 {
        let arenas = self.jemalloc.arenas.iter().filter(|arena| counts(arena));
        arenas.map(|arena| arena.dirty.present.saturating_add(arena.muzzy.present)).sum()
    }

    /// Whether the pages of an arena stay because no thread that uses it looks for pages to return.
    fn is_stale(&self, arena: &JemallocArena) -> bool {
        let stays = arena.decay.and_then(|decay| u64::try_from(decay.dirty_ms).ok());
        let quiet = self.jemalloc.quiet_ms(arena);
        // Unknown whether a background thread runs: then nothing is said about one.
        self.jemalloc.background_thread == Some(false)
            && stays.zip(quiet).is_some_and(|(stays, quiet)| quiet > stays.saturating_add(LATE_MS))
    }

    /// Whether pages of an arena would stay although their time were short, because nobody is known to look for them.
    fn is_quiet(&self, arena: &JemallocArena) -> bool {
        let most = SHORT_MS.unsigned_abs() + LATE_MS;
        // Where pages stay for ever nobody looks for them, whoever uses the arena.
        let never = arena.decay.is_some_and(|decay| decay.dirty_ms < 0);
        let quiet = self.jemalloc.quiet_ms(arena);
        self.jemalloc.background_thread != Some(true)
            && (never || quiet.is_none_or(|quiet| quiet > most))
    }

    /// Whether the option for a background thread would start one. It does not in a process that was forked.
    fn starts_background_thread(&self) -> bool {
        self.jemalloc.forked == Some(false)
    }

    /// Whether an arena's pages stay longer than they should in a way that other decay times change.
    fn is_decay(&self, arena: &JemallocArena) -> bool {
        if self.is_stale(arena) { !self.starts_background_thread() } else { is_slow(arena) }
    }
}

/// Unused pages that stay longer than they should, because without a background thread only a thread that uses an arena
/// returns its pages.
fn stale(readers: &[Reader<'_>]) -> Returnable {
    let readers = readers.iter().filter(|one| one.starts_background_thread());
    let bytes = readers.map(|one| one.unused(|arena| one.is_stale(arena))).sum();
    Returnable {
        code: "jemalloc-background-thread",
        bytes,
        evidence: format!(
            "jemalloc keeps {} in unused pages whose time is over: they are in arenas that no thread has used \
             since, and no background thread returns them",
            Bytes(bytes)
        ),
        remedy: "let a background thread return unused pages",
        options: &[BACKGROUND],
    }
}

/// Unused pages that stay for longer than a second, or for ever where no background thread can return them.
fn slow(readers: &[Reader<'_>]) -> Returnable {
    let sum = |counts: &dyn Fn(&Reader<'_>, &JemallocArena) -> bool| -> u64 {
        readers.iter().map(|one| one.unused(|arena| counts(one, arena))).sum()
    };
    let bytes = sum(&|one, arena| one.is_decay(arena));
    let is_over = |one: &Reader<'_>, arena: &JemallocArena| {
        one.is_stale(arena) && !one.starts_background_thread()
    };
    let over = sum(&is_over);
    let is_lone = |one: &Reader<'_>, arena: &JemallocArena| {
        one.is_decay(arena) && one.is_quiet(arena) && !one.starts_background_thread()
    };
    let is_left = |one: &Reader<'_>, arena: &JemallocArena| {
        one.is_decay(arena) && one.is_quiet(arena) && one.starts_background_thread()
    };
    let counts = |part: u64| part > bytes / FEW;
    let (remedy, options): (_, &[_]) = if counts(sum(&is_lone)) {
        ("return unused pages at once", &[("dirty_decay_ms", "0"), ("muzzy_decay_ms", "0")])
    } else if counts(sum(&is_left)) {
        ("let a background thread return unused pages after a second", &[DIRTY, MUZZY, BACKGROUND])
    } else {
        ("let unused pages return to the kernel after a second", &[DIRTY, MUZZY])
    };
    let stay =
        format!("jemalloc keeps {} in unused pages, each {}", Bytes(bytes), longest(readers));
    let evidence = match over {
        0 => stay,
        over => format!(
            "{stay}; for {} of it that time is over: it is in arenas that no thread has used since, of processes \
             in which no background thread can be expected, because they were forked",
            Bytes(over)
        ),
    };
    Returnable { code: "jemalloc-decay", bytes, evidence, remedy, options }
}

/// For how long the pages stay that count in [`slow`].
fn longest(readers: &[Reader<'_>]) -> String {
    let arenas = readers
        .iter()
        .flat_map(|one| one.jemalloc.arenas.iter().filter(|arena| one.is_decay(arena)));
    let times = arenas.filter_map(|arena| Some(arena.decay?.dirty_ms));
    match times.max_by_key(|time| if *time < 0 { i64::MAX } else { *time }) {
        Some(time) if time >= 0 => format!("for up to {} s", time as f64 / 1000.0),
        _ => "for ever".to_owned(),
    }
}

fn is_slow(arena: &JemallocArena) -> bool {
    arena.decay.is_some_and(|decay| decay.dirty_ms < 0 || decay.dirty_ms > SHORT_MS)
}

/// Free regions in the slabs of more arenas than a few: threads of other arenas cannot use them.
fn scattered(readers: &[Reader<'_>]) -> Returnable {
    let many = readers.iter().filter(|one| one.arenas.len() > FEW_ARENAS);
    let bytes = many.clone().map(|one| {
        let mut free: Vec<u64> = one.arenas.iter().map(|arena| arena.free.present).collect();
        free.sort_unstable();
        // The largest arena would stay, so its free regions are no gain.
        free.pop();
        free.into_iter().sum::<u64>()
    });
    let bytes = bytes.sum();
    let most = many.clone().map(|one| one.arenas.len()).max().unwrap_or(0);
    let of = many.max_by_key(|one| one.arenas.len()).map_or(0, |one| one.process);
    Returnable {
        code: "jemalloc-arenas",
        bytes,
        evidence: format!(
            "the slabs of jemalloc's arenas besides the largest have {} free, which threads of other arenas \
             cannot use; up to {} in one process ({of})",
            Bytes(bytes),
            count(most, "arena")
        ),
        remedy: "make threads share fewer arenas",
        options: &[("narenas", "2")],
    }
}

impl Returnable {
    /// The finding, if it is worth a trial.
    fn finding(self, ledger: &Ledger) -> Option<Finding> {
        // Processes that were forked share pages, which the ledger counts once.
        let free = ledger.part(PartKind::MallocFree).map(|part| part.pss)?;
        let at_most = Bytes(self.bytes).min(free);
        let before = options_in_effect(ledger);
        let is_set = self.options.iter().all(|(name, value)| {
            before.split(',').any(|option| option.split_once(':') == Some((name, value)))
        });
        (!is_set && is_worthwhile(ledger, at_most)).then(|| Finding {
            code: self.code,
            evidence: self.evidence,
            remedy: self.remedy.to_owned(),
            setting: Some(("malloc_conf", with_options(&before, self.options))),
            shrinks: vec![PartKind::MallocFree],
            at_most: Some(at_most),
        })
    }
}

/// The options that the processes were started with.
fn options_in_effect(ledger: &Ledger) -> String {
    let all = ledger.processes.iter().flat_map(|process| &process.environment);
    let mut of_variable = all.filter(|(name, _)| name == VARIABLE).map(|(_, value)| value.clone());
    of_variable.next().unwrap_or_default()
}

/// Options with these in place of their own values; the variable has all of them, so that none is lost.
fn with_options(before: &str, changes: &[(&str, &str)]) -> String {
    // An option may be there twice; the change replaces all of them.
    let kept = before.split(',').filter(|option| {
        let name = option.split(':').next().unwrap_or_default();
        !name.is_empty() && changes.iter().all(|(changed, _)| *changed != name)
    });
    let kept = kept.map(str::to_owned);
    let changed = changes.iter().map(|(name, value)| format!("{name}:{value}"));
    kept.chain(changed).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ledger::{LedgerPart, ProcessLedger};
    use carat_outside::malloc::{ChunkAmount, DecayTimes, MallocCensus, PageAmount};

    const MB: u64 = 1_000_000;

    fn ledger() -> Ledger {
        let free = Bytes(60 * MB);
        let part =
            LedgerPart { kind: PartKind::MallocFree, pss: free, private: free, resident: free };
        Ledger { pss: Bytes(100 * MB), parts: vec![part], ..Ledger::default() }
    }

    /// Arenas with so many megabytes of unused pages and of free regions each.
    fn census(arenas: &[(u64, u64)], dirty_ms: i64, quiet_ms: u64) -> Census {
        let own = |(number, arena): (u64, &(u64, u64))| JemallocArena {
            number,
            dirty: PageAmount { stretches: 1, bytes: arena.0 * MB, present: arena.0 * MB },
            decay: Some(DecayTimes { dirty_ms, muzzy_ms: 0 }),
            looked_at_ns: Some(1),
            ..JemallocArena::default()
        };
        let jemalloc = JemallocCensus {
            arenas: (0..).zip(arenas).map(own).collect(),
            background_thread: Some(false),
            forked: Some(false),
            read_at_ns: Some(1 + quiet_ms * 1_000_000),
            ..JemallocCensus::default()
        };
        let arena = |arena: &(u64, u64)| ArenaCensus {
            free: ChunkAmount::resident(1, arena.1 * MB),
            ..ArenaCensus::default()
        };
        let malloc = MallocCensus {
            arenas: arenas.iter().map(arena).collect(),
            jemalloc: Some(jemalloc),
            ..MallocCensus::default()
        };
        Census { malloc: Some(malloc), ..Census::default() }
    }

    fn found(census: Census) -> Vec<(&'static str, u64, String)> {
        let found = jemalloc_findings(&ledger(), &[census]).unwrap().into_iter();
        let found =
            found.map(|one| (one.code, one.at_most.unwrap().0 / MB, one.setting.unwrap().1));
        found.collect()
    }

    #[test]
    fn each_setting_that_helps_is_named_with_its_own_bytes() {
        let slow = ("jemalloc-decay", 20, "dirty_decay_ms:1000,muzzy_decay_ms:0".to_owned());
        assert_eq!(found(census(&[(20, 1)], 10_000, 100)), std::slice::from_ref(&slow));
        let left = format!("{},background_thread:true", slow.2);
        let left = [("jemalloc-decay", 20, left)];
        for (dirty_ms, quiet_ms) in [(-1, 90_000), (-1, 100), (10_000, 5_000)] {
            assert_eq!(found(census(&[(20, 1)], dirty_ms, quiet_ms)), left);
        }
        let stale = ("jemalloc-background-thread", 20, "background_thread:true".to_owned());
        assert_eq!(found(census(&[(20, 1)], 10_000, 90_000)), std::slice::from_ref(&stale));
        assert_eq!(found(census(&[(20, 1)], 1000, 90_000)), [stale]);
        let arenas = ("jemalloc-arenas", 9, "narenas:2".to_owned());
        assert_eq!(found(census(&[(0, 30), (0, 3), (0, 3), (0, 3)], 1000, 1)), [arenas]);
    }

    #[test]
    fn no_background_thread_is_suggested_to_a_process_that_was_forked() {
        let at_once = [("jemalloc-decay", 20, "dirty_decay_ms:0,muzzy_decay_ms:0".to_owned())];
        for forked in [Some(true), None] {
            for (dirty_ms, quiet_ms) in [(1000, 90_000), (10_000, 90_000), (10_000, 5_000)] {
                let mut worker = census(&[(20, 1)], dirty_ms, quiet_ms);
                worker.malloc.as_mut().unwrap().jemalloc.as_mut().unwrap().forked = forked;
                assert_eq!(found(worker), at_once, "{dirty_ms} ms, quiet for {quiet_ms} ms");
            }
        }
    }

    #[test]
    fn options_that_are_set_already_are_no_advice() {
        let mut ledger = ledger();
        let set = |value: &str| vec![(VARIABLE.to_owned(), value.to_owned())];
        let process = |value| ProcessLedger { environment: set(value), ..ProcessLedger::default() };
        ledger.processes = vec![process("prof:false,background_thread:true")];
        let found = jemalloc_findings(&ledger, &[census(&[(20, 1)], 1000, 90_000)]).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn nothing_is_suggested_that_is_set_or_too_small() {
        assert!(found(census(&[(20, 30), (0, 30)], 1000, 100)).is_empty());
        assert!(found(census(&[(4, 0)], 10_000, 100)).is_empty());
        assert!(found(census(&[(0, 30), (0, 1), (0, 1), (0, 1)], 10_000, 100)).is_empty());
        let mut background = census(&[(20, 0)], 1000, 90_000);
        background.malloc.as_mut().unwrap().jemalloc.as_mut().unwrap().background_thread =
            Some(true);
        assert!(found(background).is_empty());
        assert_eq!(jemalloc_findings(&ledger(), &[Census::default()]), None);
    }

    #[test]
    fn options_that_are_set_stay_and_others_change() {
        let changes = [("dirty_decay_ms", "1000"), ("muzzy_decay_ms", "0")];
        for (before, expected) in [
            ("", "dirty_decay_ms:1000,muzzy_decay_ms:0"),
            ("narenas:2", "narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0"),
            ("dirty_decay_ms:5000,prof:true", "prof:true,dirty_decay_ms:1000,muzzy_decay_ms:0"),
        ] {
            assert_eq!(with_options(before, &changes), expected);
        }
    }
}
