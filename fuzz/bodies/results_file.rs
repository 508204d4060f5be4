//! A results file of any bytes is refused with a reason or read, and is never changed. What is salvaged from it can be read.
//!
//! The first byte of an input says whether the rest is the file or patches for an intact file. A patch is two bytes of
//! offset, one byte of length, and that many bytes.

use carat::config::trial_id;
use carat::store::{Store, salvage};
use carat_model::{ExperimentInfo, Outcome, Sample, Trial, Variant};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

fn sound(folder: &Path) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let path = folder.join("sound.carat");
        let variants = ["a", "b"].map(|name| Variant {
            name: name.into(),
            settings: BTreeMap::new(),
            controls: Vec::new(),
        });
        let header = ExperimentInfo {
            name: "x".into(),
            about: None,
            plan_hash: "abc".into(),
            plan_text: "name = 'x'".into(),
            seed: 7,
            max_blocks: 3,
            primary: "memory.rss.final".into(),
            margin: 0.01,
            guards: [("latency.p95".to_owned(), 0.05)].into(),
            variants: variants.into(),
            fleet: None,
        };
        let mut store = Store::create(&path, &header).expect("a new file");
        let trials: Vec<Trial> =
            (0..3).flat_map(|block| ["a", "b"].map(|name| trial(block, name))).collect();
        store.add(&trials).expect("sound trials");
        fs::read(path).expect("just written")
    })
}

fn trial(block: u32, variant: &str) -> Trial {
    Trial {
        id: trial_id("abc", 7, block, variant),
        block,
        position: 0,
        variant: variant.into(),
        outcome: Outcome::Ok,
        detail: None,
        started_ms: 1,
        seconds: 1.0,
        machine: [("kernel".to_owned(), "6.18".to_owned())].into(),
        metrics: [("memory.rss.final".to_owned(), 7e7)].into(),
        samples: (0..3).map(|at_ms| Sample { at_ms, ..Sample::default() }).collect(),
        load_window_ms: Some((0, 2)),
        load: None,
        notes: Vec::new(),
        log_tail: "Listening".into(),
    }
}

/// `sound` with every patch of `patches` laid over it.
fn patched(mut sound: Vec<u8>, mut patches: &[u8]) -> Vec<u8> {
    while let [low, high, length, rest @ ..] = patches {
        let begin = usize::from(u16::from_le_bytes([*low, *high])) % sound.len();
        let length = usize::from(*length).min(rest.len()).min(sound.len() - begin);
        sound[begin..begin + length].copy_from_slice(&rest[..length]);
        patches = &rest[length..];
    }
    sound
}

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((&kind, rest)) = input.split_first() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let bytes = match kind & 1 {
        0 => rest.to_vec(),
        _ => patched(sound(folder.path()).to_vec(), rest),
    };
    let (path, new) = (folder.path().join("x.carat"), folder.path().join("new.carat"));
    fs::write(&path, &bytes).expect("a temporary file");
    match Store::open(&path).and_then(|store| store.results()) {
        Ok(results) => assert!(results.trials.len() <= 1_000_000),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match salvage(&path, &new) {
        Ok(salvaged) => {
            let trials =
                Store::open(&new).and_then(|store| store.trials()).expect("a new file is sound");
            assert_eq!(trials.len(), salvaged.copied);
        }
        Err(_) => assert!(!new.exists()),
    }
    assert_eq!(fs::read(&path).expect("still there"), bytes, "the file was changed");
}
