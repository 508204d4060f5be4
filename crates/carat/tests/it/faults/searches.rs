//! `kill -9` in every phase of a search, and a disk that is full.

use crate::faults::disk::SmallDisk;
use crate::faults::score::{Score, ensure, tries};
use crate::support::{Folder, finish};
use crate::tune_fake::{EFFECTS, command, full_folder, outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use rustix::mount::MountFlags;
use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// The first file of each phase.
const PHASES: [&str; 5] =
    ["app-look", "app-search-01", "app-search-05", "app-confirm-1", "app-ablate"];
/// Kills in each phase of one search.
const KILLS: u32 = 2;
/// A kill comes at a random moment of this time after the phase began.
const LONGEST: Duration = Duration::from_millis(120);
/// Where a search writes on the small disk.
const SMALL: &str = "small/out";
const PACED: [&str; 3] = ["--ablate", "--fake-pace", "8"];

/// The planned blocks of a search by their file.
fn planned(folder: &Folder) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder.path("out")).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// Runs the search until a phase has begun, and a little longer; returns whether it was killed.
fn kill_in(folder: &Folder, phase: &str, random: &mut ChaCha12Rng) -> bool {
    let begun = folder.path(&format!("out/{phase}.toml"));
    let mut child = command(folder, "out", EFFECTS, &PACED);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !begun.exists() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    sleep(LONGEST.mul_f64(random.random()));
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

#[test]
fn a_search_that_is_killed_in_every_phase_tries_the_same_and_ends_the_same() {
    let whole = full_folder("search-whole");
    finish(command(&whole, "out", EFFECTS, &PACED).spawn().unwrap()).assert_code(0);
    let (expected, blocks) = (outcome(&whole), planned(&whole));
    assert!(PHASES.iter().all(|phase| blocks.contains_key(&format!("{phase}.toml"))), "{blocks:?}");
    let (mut score, mut random) = (Score::default(), ChaCha12Rng::seed_from_u64(13));
    let wanted = tries(50);
    let mut kills = 0;
    while kills < wanted {
        let killed = full_folder("search-killed");
        for phase in PHASES {
            for _ in 0..KILLS {
                kills += u32::from(kill_in(&killed, phase, &mut random));
            }
        }
        let ran = finish(command(&killed, "out", EFFECTS, &PACED).spawn().unwrap());
        let ended = ensure(ran.code == Some(0), || format!("it does not complete: {ran:?}"));
        let ended = ended.and_then(|()| {
            ensure(planned(&killed) == blocks, || "other configurations were tried".to_owned())
        });
        score.count(ended.and_then(|()| {
            ensure(outcome(&killed) == expected, || "it ended differently".to_owned())
        }));
        killed.assert_nothing_left();
    }
    score.lost = format!("after {kills} kills the running trials, which ran again");
    score.finish();
}

/// A search whose disk is full at some moment, then with enough space.
fn fill_up(small: &SmallDisk, folder: &Folder, kib: usize) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder.path(SMALL));
    small.fill_until(kib);
    let ran = finish(command(folder, SMALL, EFFECTS, &[]).spawn().unwrap());
    small.empty();
    if ran.code != Some(0) {
        let is_reported = ran.code == Some(1) && ran.talk.contains("free space");
        ensure(is_reported, || format!("{kib} KiB: what to do is not said: {ran:?}"))?;
    }
    let ran = finish(command(folder, SMALL, EFFECTS, &[]).spawn().unwrap());
    ensure(ran.code == Some(0), || format!("{kib} KiB: cannot continue: {ran:?}"))
}

#[test]
fn a_search_whose_disk_is_full_says_so_and_continues_with_more_space() {
    require!(Mounts);
    let folder = full_folder("search-full");
    let small = SmallDisk::new(folder.path("small"), 16 * 1024, MountFlags::empty());
    finish(command(&folder, SMALL, EFFECTS, &[]).spawn().unwrap()).assert_code(0);
    let whole = fs::read_to_string(folder.path(SMALL).join("outcome.json")).unwrap();
    let files = fs::read_dir(folder.path(SMALL)).unwrap();
    let size: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let steps = tries(8);
    let mut score = Score::default();
    for step in 0..steps {
        let kib = size as usize / 1024 * step as usize / steps as usize;
        let held = fill_up(&small, &folder, kib).and_then(|()| {
            let ended = fs::read_to_string(folder.path(SMALL).join("outcome.json")).unwrap();
            ensure(ended == whole, || format!("{kib} KiB: it ended differently"))
        });
        score.count(held);
    }
    score.lost = "no finished trial; the one that did not fit runs again".into();
    score.finish();
    folder.assert_nothing_left();
}
