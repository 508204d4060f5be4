//! `kill -9` of carat at random moments, then `--resume`.

use crate::faults::fake::{FIGURES, experiment};
use crate::faults::score::{Score, ensure, tries};
use crate::real_run::text;
use crate::support::{Folder, wait_until};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The trials of a file by identity, each with its figures.
type Trials = BTreeMap<String, serde_json::Value>;

/// An experiment that is killed and resumed until it is complete.
struct KilledRun {
    folder: Folder,
    arguments: Vec<String>,
    /// Files that may be in the folder at the end.
    expected: Vec<String>,
}

impl KilledRun {
    fn new(name: &str, text: &str, options: &[&str]) -> Self {
        let folder = Folder::new(&format!("killed-{name}"));
        let file = format!("{name}.toml");
        folder.write(&file, text);
        let arguments = ["compare", &file, "--resume"].into_iter().chain(options.iter().copied());
        let arguments = arguments.map(str::to_owned).collect();
        let made = ["toml", "carat", "html"].map(|ending| format!("{name}.{ending}"));
        let expected = made.into_iter().chain(["tmp".to_owned()]).collect();
        Self { folder, arguments, expected }
    }

    /// Runs it and kills it after `delay`; returns whether it had completed.
    fn run(&self, delay: Duration) -> bool {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = self.folder.carat(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + delay;
        while Instant::now() < deadline {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap().code().is_some()
    }

    /// The finished trials, read from a copy, because reading would change the file.
    fn trials(&self) -> Result<Trials, String> {
        let copy = tempfile::tempdir().unwrap();
        let name = self.expected[1].as_str();
        for file in [name.to_owned(), format!("{name}-journal")] {
            let _ = fs::copy(self.folder.path(&file), copy.path().join(file));
        }
        let Ok(file) = rusqlite::Connection::open(copy.path().join(name)) else {
            return Ok(Trials::new());
        };
        let whole: String =
            file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(message)?;
        ensure(whole == "ok", || format!("the file is broken: {whole}"))?;
        // Before the first transaction there is no table.
        let Ok(mut rows) = file.prepare("SELECT id, block, variant, outcome, detail FROM trial")
        else {
            return Ok(Trials::new());
        };
        let mut figures = file
            .prepare("SELECT group_concat(name || '=' || value) FROM metric WHERE trial = ?1")
            .map_err(message)?;
        let mut trials = Trials::new();
        let mut rows = rows.query([]).map_err(message)?;
        while let Some(row) = rows.next().map_err(message)? {
            let id: String = row.get(0).map_err(message)?;
            let figures: Option<String> =
                figures.query_row([&id], |row| row.get(0)).map_err(message)?;
            let place: (u32, String, String) =
                (row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap());
            trials.insert(id, serde_json::json!([place, figures]));
        }
        Ok(trials)
    }

    /// Files that should not be in the folder.
    fn unexpected_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !self.expected.contains(name)).collect()
    }

    /// Checks that nothing is left behind or mounted.
    fn check_clean(&self) -> Result<(), String> {
        wait_until("no process is left", || self.folder.processes().is_empty());
        let left = self.folder.private_directories();
        ensure(left.is_empty(), || format!("left: {left:?}"))?;
        ensure(self.unexpected_files().is_empty(), || {
            format!("unexpected files: {:?}", self.unexpected_files())
        })?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let place = self.folder.path("").display().to_string();
        ensure(!mounts.contains(&place), || "a mount is left".to_owned())
    }
}

fn message(error: rusqlite::Error) -> String {
    error.to_string()
}

/// The results of all kills so far.
#[derive(Default)]
struct KillResults {
    score: Score,
    /// Kills so far; each complete run is one more try.
    kills: u32,
    finished: usize,
}

impl KillResults {
    /// Kills a run after random times until it is complete or `left` kills are done.
    fn kill(&mut self, victim: &KilledRun, random: &mut ChaCha12Rng, longest: Duration, left: u32) {
        let mut before = Trials::new();
        let mut kills = 0;
        while kills < left {
            let delay = longest.mul_f64(random.random());
            if victim.run(delay) {
                break;
            }
            kills += 1;
            let after = victim.trials();
            let held = after.as_ref().map_err(Clone::clone).and_then(|after| {
                let kept = before.iter().all(|(id, trial)| after.get(id) == Some(trial));
                ensure(kept, || format!("after {delay:?} finished trials are missing or changed"))
            });
            self.score.count(held);
            before = after.unwrap_or(before);
            self.finished += before.len();
            self.kills += 1;
        }
    }

    fn finish(mut self) {
        let Self { finished, kills, .. } = self;
        let ends = self.score.tries - kills;
        self.score.lost = format!(
            "after {kills} kills and {ends} complete runs none of {finished} finished trials checked; the running trial"
        );
        self.score.finish();
    }
}

#[test]
fn kill_9_at_random_times_loses_no_finished_trial_and_leaves_nothing_behind() {
    let fake = ["--fake", FIGURES, "--fake-pace", "3"];
    let mut whole = KilledRun::new("fake", &experiment("fake"), &fake);
    let began = Instant::now();
    assert!(whole.run(Duration::from_secs(100)), "an uninterrupted run takes too long");
    let longest = began.elapsed();
    whole.check_clean().unwrap();
    let expected = whole.trials().unwrap();
    assert!(expected.len() > 20, "{} trials are too few to kill between", expected.len());
    let (mut results, mut random) = (KillResults::default(), ChaCha12Rng::seed_from_u64(11));
    let wanted = tries(40);
    while results.kills < wanted {
        whole = KilledRun::new("fake", &experiment("fake"), &fake);
        let left = wanted - results.kills;
        results.kill(&whole, &mut random, longest, left);
        assert!(whole.run(Duration::from_secs(100)), "it does not complete");
        let end = whole.trials().and_then(|trials| {
            ensure(trials == expected, || "a different result than without a kill".to_owned())
        });
        results.score.count(end.and_then(|()| whole.check_clean()));
    }
    results.finish();
}

#[test]
fn kill_9_with_a_real_server_leaves_no_process_port_or_file() {
    require!(Ruby);
    let wanted = tries(40).div_ceil(10);
    let (mut results, mut random) = (KillResults::default(), ChaCha12Rng::seed_from_u64(12));
    while results.kills < wanted {
        let mut victim = KilledRun::new("real", "", &[]);
        fs::create_dir(victim.folder.path("marks")).unwrap();
        victim.expected.push("marks".into());
        let text = text(&victim.folder, "60s", "DAEMON = '1'", "");
        victim.folder.write("real.toml", &text);
        let left = wanted - results.kills;
        results.kill(&victim, &mut random, Duration::from_secs(4), left);
        // After the last kill the reaper must clean up, without another run.
        let port = fs::read_to_string(victim.folder.path("marks/boot")).unwrap_or_default();
        if let Ok(port) = port.parse::<u16>() {
            wait_until("the port is free", || TcpListener::bind(("127.0.0.1", port)).is_ok());
        }
        assert!(victim.run(Duration::from_secs(100)), "it does not complete");
        let end = victim.trials().and_then(|trials| {
            ensure(trials.len() == 4, || format!("{} trials instead of 4", trials.len()))
        });
        results.score.count(end.and_then(|()| victim.check_clean()));
    }
    results.finish();
}
