//! Merges results files of one plan, seed and fleet: a set union, so neither order nor repetition of the files matters.
//!
//! A block can have several attempts, for example when a machine was thought lost and was not. Which one counts never
//! depends on its values: the lowest complete attempt, unless an interim look has used another before. The others are kept.

use crate::store::salvage::misfit;
use crate::store::{BlockAttempt, FreshFile, Store, StoreError};
use carat_model::ExperimentInfo;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Why files cannot be merged. Nothing is written then.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing to merge.
    #[error("there is no part to merge; name at least one results file")]
    Nothing,
    /// The result would overwrite a file.
    #[error("{0} exists already; give another name with -o")]
    Exists(PathBuf),
    /// Two files cannot be of one experiment.
    #[error(
        "{one} and {other} have different {what}, so their trials cannot be compared; move the one that does not belong here away"
    )]
    Different {
        one: PathBuf,
        other: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// Two files contradict each other about one attempt.
    #[error(
        "{one} and {other} have different content for {what}, so one of them was changed; move the changed one away"
    )]
    Contradiction {
        one: PathBuf,
        other: PathBuf,
        /// Which attempt or trial.
        what: String,
    },
    /// A trial or a block does not follow from the file's own plan.
    #[error("{path}: {what}: {why}; move the file away and run the block again")]
    Misfit {
        path: PathBuf,
        /// Which trial or block.
        what: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// The union of results files.
#[derive(Debug, Clone)]
pub struct MergedParts {
    info: ExperimentInfo,
    first: PathBuf,
    attempts: BTreeMap<(u32, u32, String), FoundAttempt>,
}

#[derive(Debug, Clone)]
struct FoundAttempt {
    attempt: BlockAttempt,
    path: PathBuf,
}

impl MergedParts {
    /// Reads and merges files.
    ///
    /// # Errors
    /// Where a file is damaged, foreign, of another plan, seed or fleet, or contradicts another file.
    pub fn read(paths: &[PathBuf]) -> Result<Self, MergeError> {
        let first = paths.first().ok_or(MergeError::Nothing)?;
        let info = Store::open(first)?.info()?;
        let mut merged = Self { info, first: first.clone(), attempts: BTreeMap::new() };
        // The first file as well: it can contradict its own plan.
        for path in paths {
            merged.add(path)?;
        }
        Ok(merged)
    }

    /// A part with one attempt.
    pub fn single(info: ExperimentInfo, attempt: BlockAttempt, path: &Path) -> Self {
        let key = (attempt.block, attempt.number, attempt.token.clone());
        let found = FoundAttempt { attempt, path: path.to_owned() };
        Self { info, first: path.to_owned(), attempts: [(key, found)].into() }
    }

    /// What was fixed when the experiment began.
    pub fn info(&self) -> &ExperimentInfo {
        &self.info
    }

    /// The attempt that counts for each block: one that a look has used, otherwise the lowest complete one, otherwise the
    /// lowest that gives the block up.
    pub fn counted(&self) -> BTreeMap<u32, &BlockAttempt> {
        let mut best: BTreeMap<u32, &BlockAttempt> = BTreeMap::new();
        for FoundAttempt { attempt, .. } in self.attempts.values() {
            let known = best.entry(attempt.block).or_insert(attempt);
            // Strictly greater: of equal ones the lowest stays, because they come in that order.
            if self.rank(attempt) > self.rank(known) {
                *known = attempt;
            }
        }
        best.retain(|_, attempt| self.rank(attempt) > AttemptRank::Incomplete);
        best
    }

    /// The attempts that do not count, in their order.
    pub fn uncounted(&self) -> Vec<&BlockAttempt> {
        let counted = self.counted();
        let all = self.attempts.values().map(|found| &found.attempt);
        all.filter(|attempt| !is_counted(&counted, attempt)).collect()
    }

    /// Records that an interim look has used these blocks: the attempts that count now count for ever.
    pub fn mark_looked(&mut self, blocks: &[u32]) {
        let counted = self.counted();
        let keys = blocks.iter().filter_map(|block| counted.get(block));
        let keys: Vec<_> = keys.map(|one| (one.block, one.number, one.token.clone())).collect();
        for key in keys {
            if let Some(found) = self.attempts.get_mut(&key) {
                found.attempt.looked = true;
            }
        }
    }

    /// Writes everything into the new file `path`.
    ///
    /// # Errors
    /// Where the file exists or cannot be written. No file is left then.
    pub fn write_new(&self, path: &Path) -> Result<(), MergeError> {
        let published = self.written_beside(path)?.publish_new();
        published.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => MergeError::Exists(path.to_owned()),
            _ => StoreError::io(path, error).into(),
        })
    }

    /// Writes everything into the file `path`, which has the old content until the new one is on the disk.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn replace(&self, path: &Path) -> Result<(), StoreError> {
        let written = self.written_beside(path)?;
        written.replace().map_err(|error| StoreError::io(path, error))
    }

    fn written_beside(&self, path: &Path) -> Result<FreshFile, StoreError> {
        let fresh = FreshFile::beside(path).map_err(|error| StoreError::io(path, error))?;
        self.create(fresh.path())?;
        Ok(fresh)
    }

    fn create(&self, path: &Path) -> Result<(), StoreError> {
        let mut store = Store::create(path, &self.info)?;
        let attempts = self.attempts.values().map(|found| &found.attempt);
        // A file of one machine has no attempts, only trials.
        if self.info.fleet.is_some() {
            let counted = self.counted();
            return store
                .add_attempts(attempts.map(|attempt| (attempt, is_counted(&counted, attempt))));
        }
        let mut trials: Vec<_> = attempts.flat_map(|one| &one.trials).cloned().collect();
        // So that the new file does not depend on the order of the parts.
        trials.sort_by_key(|trial| (trial.block, trial.position));
        store.add(&trials)
    }

    fn add(&mut self, path: &Path) -> Result<(), MergeError> {
        let store = Store::open(path)?;
        if let Some(what) = difference(&self.info, &store.info()?) {
            let (one, other) = (self.first.clone(), path.to_owned());
            return Err(MergeError::Different { one, other, what });
        }
        for attempt in attempts_of(&store)? {
            self.check(path, &attempt)?;
            self.insert(path, attempt)?;
        }
        Ok(())
    }

    fn insert(&mut self, path: &Path, attempt: BlockAttempt) -> Result<(), MergeError> {
        let key = (attempt.block, attempt.number, attempt.token.clone());
        let Some(known) = self.attempts.get_mut(&key) else {
            self.attempts.insert(key, FoundAttempt { attempt, path: path.to_owned() });
            return Ok(());
        };
        // Without the mark of the look, which one copy can have and another not.
        if known.attempt.trials != attempt.trials {
            let what = match attempt.number {
                0 => format!("a trial of block {}", attempt.block),
                number => format!("attempt {number} at block {}", attempt.block),
            };
            let (one, other) = (known.path.clone(), path.to_owned());
            return Err(MergeError::Contradiction { one, other, what });
        }
        // A look in one copy holds in all: what was once used counts for ever.
        known.attempt.looked |= attempt.looked;
        Ok(())
    }

    /// Refuses an attempt that does not follow from the plan.
    fn check(&self, path: &Path, attempt: &BlockAttempt) -> Result<(), MergeError> {
        let block = attempt.block;
        let unplanned =
            self.info.fleet.as_ref().is_some_and(|fleet| fleet.type_of(block).is_none());
        let mut wrong =
            unplanned.then(|| (format!("block {block}"), "the fleet has no such block"));
        for trial in &attempt.trials {
            let why = misfit(trial, &self.info)
                .or_else(|| (trial.block != block).then_some("it is filed under another block"));
            let what = format!("block {}, variant `{}`", trial.block, trial.variant);
            wrong = wrong.or(why.map(|why| (what, why)));
        }
        match wrong {
            Some((what, why)) => Err(MergeError::Misfit { path: path.to_owned(), what, why }),
            None => Ok(()),
        }
    }

    fn rank(&self, attempt: &BlockAttempt) -> AttemptRank {
        // Complete by variants, not by number, because a variant twice replaces none.
        let mut variants = self.info.variants.iter().map(|variant| &variant.name);
        if attempt.looked {
            AttemptRank::Looked
        } else if variants.all(|name| attempt.trials.iter().any(|trial| trial.variant == *name)) {
            AttemptRank::Complete
        } else if attempt.is_void() {
            AttemptRank::Void
        } else {
            AttemptRank::Incomplete
        }
    }
}

/// How strong an attempt's claim to count is, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AttemptRank {
    Incomplete,
    Void,
    Complete,
    Looked,
}

fn is_counted(counted: &BTreeMap<u32, &BlockAttempt>, attempt: &BlockAttempt) -> bool {
    counted.get(&attempt.block).is_some_and(|one| one.key() == attempt.key())
}

/// The attempts in a file. Where one machine ran the experiment, every trial stands for itself, under the number 0.
fn attempts_of(store: &Store) -> Result<Vec<BlockAttempt>, StoreError> {
    if store.info()?.fleet.is_some() {
        return store.attempts();
    }
    let alone = store.trials()?.into_iter().map(|trial| BlockAttempt {
        block: trial.block,
        number: 0,
        token: trial.id.clone(),
        looked: false,
        trials: vec![trial],
    });
    Ok(alone.collect())
}

/// What of two experiments differs, if they are not the same.
fn difference(one: &ExperimentInfo, other: &ExperimentInfo) -> Option<&'static str> {
    let [one_binary, other_binary] =
        [one, other].map(|info| info.fleet.as_ref().map(|fleet| fleet.binary.as_str()));
    // From the most telling to the least: a difference of plans implies others.
    if one.plan_hash != other.plan_hash {
        Some("plans")
    } else if one.seed != other.seed {
        Some("seeds")
    } else if one_binary != other_binary {
        Some("binaries of carat")
    } else if one.fleet != other.fleet {
        Some("machine types for their blocks")
    } else {
        (one != other).then_some("descriptions of the experiment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::trial_id;
    use crate::store::file::tests::{info as simple, variant};
    use carat_model::{Fleet, Sample, Trial};
    use proptest::prelude::{Strategy, proptest};
    use proptest::test_runner::Config;
    use std::fs;

    fn info() -> ExperimentInfo {
        let types = ["c6i", "m7g", "m7g", "c6i", "c6i", "m7g"].map(str::to_owned).into();
        let fleet = Some(Fleet { binary: "f00d".into(), types });
        ExperimentInfo { seed: 7, variants: ["a", "b"].map(variant).into(), fleet, ..simple() }
    }

    fn trial(block: u32, position: u32, value: f64) -> Trial {
        let variant = ["a", "b"][position as usize];
        Trial {
            id: trial_id("abc", 7, block, variant),
            position,
            started_ms: 1,
            seconds: 1.1,
            machine: [("machine_type".to_owned(), "c6i".to_owned())].into(),
            metrics: [("memory.rss.final".to_owned(), value)].into(),
            samples: (0..3).map(|at_ms| Sample { at_ms, ..Sample::default() }).collect(),
            ..Trial::bare(block, variant)
        }
    }

    fn attempt(block: u32, number: u32, token: &str, variants: u32) -> BlockAttempt {
        let value = f64::from(block) + 0.1 * f64::from(number);
        let trials = (0..variants).map(|position| trial(block, position, value)).collect();
        BlockAttempt { block, number, token: token.into(), looked: false, trials }
    }

    fn write(folder: &Path, name: &str, info: &ExperimentInfo, attempt: BlockAttempt) -> PathBuf {
        let path = folder.join(name);
        MergedParts::single(info.clone(), attempt, &path).write_new(&path).unwrap();
        path
    }

    /// Eight parts: a block with two complete attempts, one with two of the same number, one of which only the second
    /// attempt is complete, one that was given up and then had a result, and one that was only given up.
    fn parts(folder: &Path) -> Vec<PathBuf> {
        [
            attempt(1, 1, "a", 2),
            attempt(2, 1, "a", 2),
            attempt(2, 2, "b", 2),
            attempt(3, 1, "b", 2),
            attempt(3, 1, "a", 2),
            attempt(4, 1, "a", 1),
            attempt(4, 2, "a", 2),
            attempt(5, 4, "a", 0),
            attempt(5, 3, "a", 2),
            attempt(6, 4, "a", 0),
        ]
        .into_iter()
        .enumerate()
        .map(|(n, attempt)| write(folder, &format!("{n}.carat"), &info(), attempt))
        .collect()
    }

    fn merged_bytes(folder: &Path, paths: &[PathBuf]) -> Vec<u8> {
        let path = folder.join("merged.carat");
        MergedParts::read(paths).unwrap().replace(&path).unwrap();
        fs::read(path).unwrap()
    }

    fn chosen() -> impl Strategy<Value = Vec<usize>> {
        // Every part at least once, in any order, and some again.
        let order = proptest::sample::subsequence((0..10).collect::<Vec<usize>>(), 0..10);
        order.prop_flat_map(|again| {
            let all: Vec<usize> = (0..10).chain(again).collect();
            proptest::strategy::Just(all).prop_shuffle()
        })
    }

    #[test]
    fn two_hundred_orders_and_repetitions_of_parts_give_one_file_byte_for_byte() {
        // In memory, because each of 600 files is synced.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let parts = parts(folder.path());
        let expected = merged_bytes(folder.path(), &parts);
        proptest!(Config::with_cases(200), |(order in chosen(), split in 1..9_usize)| {
            let paths: Vec<PathBuf> = order.iter().map(|&n| parts[n].clone()).collect();
            assert_eq!(merged_bytes(folder.path(), &paths), expected);
            // Merging what was merged before gives the same, too.
            let half = folder.path().join("half.carat");
            MergedParts::read(&paths[..split]).unwrap().replace(&half).unwrap();
            let rest = [&paths[split..], &[half]].concat();
            assert_eq!(merged_bytes(folder.path(), &rest), expected);
        });
    }

    #[test]
    fn the_lowest_complete_attempt_counts_and_the_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let merged = MergedParts::read(&parts(folder.path())).unwrap();
        let keys = |attempts: Vec<&BlockAttempt>| -> Vec<String> {
            attempts.iter().map(|a| format!("{}.{}.{}", a.block, a.number, a.token)).collect()
        };
        let counted = merged.counted().into_values().collect();
        assert_eq!(keys(counted), ["1.1.a", "2.1.a", "3.1.a", "4.2.a", "5.3.a", "6.4.a"]);
        assert_eq!(keys(merged.uncounted()), ["2.2.b", "3.1.b", "4.1.a", "5.4.a"]);
        let path = folder.path().join("x.carat");
        merged.write_new(&path).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.trials().unwrap().len(), 10);
        let attempts = store.attempts().unwrap();
        assert_eq!(attempts.len(), 10);
        assert_eq!(attempts[2], attempt(2, 2, "b", 2), "an attempt that does not count is whole");
    }

    #[test]
    fn an_attempt_that_a_look_has_used_counts_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let late = write(folder.path(), "late.carat", &info(), attempt(2, 1, "a", 2));
        let second = write(folder.path(), "second.carat", &info(), attempt(2, 2, "b", 2));
        let mut looked = MergedParts::read(&[second]).unwrap();
        looked.mark_looked(&[2]);
        let earlier = folder.path().join("earlier.carat");
        looked.write_new(&earlier).unwrap();
        for paths in [[late.clone(), earlier.clone()], [earlier, late]] {
            let merged = MergedParts::read(&paths).unwrap();
            assert_eq!(merged.counted()[&2].key(), (2, 2, "b"));
        }
    }

    #[test]
    fn a_contradiction_another_plan_seed_or_binary_is_refused_and_both_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let sound = write(folder.path(), "sound.carat", &info(), attempt(1, 1, "a", 2));
        let mut forged = attempt(1, 1, "a", 2);
        forged.trials[0].metrics.insert("memory.rss.final".into(), 0.5);
        let fleet = |binary: &str, types: usize| {
            Some(Fleet { binary: binary.into(), types: vec!["c6i".into(); types] })
        };
        for (name, other, attempt, what) in [
            ("forged", info(), forged, "different content for attempt 1 at block 1"),
            (
                "plan",
                ExperimentInfo { plan_hash: "x".into(), ..info() },
                attempt(1, 1, "b", 0),
                "different plans",
            ),
            (
                "seed",
                ExperimentInfo { seed: 8, ..info() },
                attempt(1, 1, "b", 0),
                "different seeds",
            ),
            (
                "binary",
                ExperimentInfo { fleet: fleet("beef", 6), ..info() },
                attempt(1, 1, "b", 0),
                "different binaries",
            ),
            (
                "types",
                ExperimentInfo { fleet: fleet("f00d", 6), ..info() },
                attempt(1, 1, "b", 0),
                "machine types",
            ),
            (
                "alone",
                ExperimentInfo { fleet: None, ..info() },
                attempt(1, 1, "b", 0),
                "different binaries",
            ),
        ] {
            let path = write(folder.path(), &format!("{name}.carat"), &other, attempt);
            let message = MergedParts::read(&[sound.clone(), path]).unwrap_err().to_string();
            for part in [what, "sound.carat", &format!("{name}.carat")] {
                assert!(message.contains(part), "{name}: {message}");
            }
        }
    }

    #[test]
    fn a_torn_part_and_one_that_contradicts_its_own_plan_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let sound = write(folder.path(), "sound.carat", &info(), attempt(1, 1, "a", 2));
        let bytes = fs::read(&sound).unwrap();
        let torn = folder.path().join("torn.carat");
        for length in [0, 100, 4096, bytes.len() / 2, bytes.len() - 4096] {
            fs::write(&torn, &bytes[..length]).unwrap();
            let message =
                MergedParts::read(&[sound.clone(), torn.clone()]).unwrap_err().to_string();
            assert!(message.contains("torn.carat"), "{length}: {message}");
        }
        let mut moved = attempt(2, 1, "a", 2);
        moved.trials[1].id = trial_id("abc", 7, 3, "b");
        let moved = write(folder.path(), "moved.carat", &info(), moved);
        let beyond = write(folder.path(), "beyond.carat", &info(), attempt(7, 1, "a", 2));
        for (path, what) in [(moved, "does not follow from the plan"), (beyond, "no such block")] {
            let message = MergedParts::read(std::slice::from_ref(&path)).unwrap_err().to_string();
            assert!(message.contains(what) && message.contains("carat: "), "{message}");
        }
    }

    #[test]
    fn files_of_one_machine_are_merged_by_trial() {
        let folder = tempfile::tempdir().unwrap();
        let alone = ExperimentInfo { fleet: None, ..info() };
        let write = |name: &str, trials: &[Trial]| {
            let path = folder.path().join(name);
            Store::create(&path, &alone).unwrap().add(trials).unwrap();
            path
        };
        let (one, two) = (trial(1, 0, 1.0), trial(1, 1, 2.0));
        let three = trial(2, 0, 3.0);
        let paths = [
            write("one.carat", &[one.clone(), two.clone()]),
            write("two.carat", &[two.clone(), three.clone()]),
        ];
        let path = folder.path().join("x.carat");
        MergedParts::read(&paths).unwrap().write_new(&path).unwrap();
        assert_eq!(Store::open(&path).unwrap().trials().unwrap(), [one, two, three]);
        let exists = MergedParts::read(&paths).unwrap().write_new(&path).unwrap_err();
        assert!(matches!(exists, MergeError::Exists(_)));
        let other = write("other.carat", &[trial(1, 1, 9.0)]);
        let refused = MergedParts::read(&[paths[0].clone(), other]).unwrap_err().to_string();
        assert!(refused.contains("different content for a trial of block 1"), "{refused}");
    }
}
